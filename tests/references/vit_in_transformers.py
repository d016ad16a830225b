"""Writes ViT checkpoints of random weights and what `transformers` makes of them.

Run by tests/pretrained/test_references.py under .venv-references: FOLDER gets a
checkpoint folder for each network, with reference.safetensors beside it.
"""

import sys
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import (
    ViTConfig,
    ViTForImageClassification,
    ViTImageProcessor,
    ViTModel,
)

TINY = {
    "hidden_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "image_size": 24,
    "patch_size": 8,
}
NETWORKS = {
    "base": (ViTForImageClassification, ViTConfig(num_labels=10)),
    "tiny": (ViTForImageClassification, ViTConfig(num_labels=7, **TINY)),
    "no_qkv_bias": (
        ViTForImageClassification,
        ViTConfig(num_labels=7, qkv_bias=False, layer_norm_eps=1e-3, **TINY),
    ),
    "no_classifier": (ViTModel, ViTConfig(**TINY)),
}


def randomise(model: torch.nn.Module, generator: torch.Generator) -> None:
    """Kernels keep the scale of their input; no bias, scale or token is 0 or 1."""
    for name, tensor in model.named_parameters():
        std = tensor[0].numel() ** -0.5 if tensor.ndim > 1 else 0.1
        mean = 1.0 if "layernorm" in name and name.endswith("weight") else 0.0
        tensor.data.normal_(mean, std, generator=generator)


def main(folder: Path) -> None:
    """One checkpoint and one reference for each of NETWORKS."""
    generator = torch.Generator().manual_seed(0)
    for name, (kind, config) in NETWORKS.items():
        model = kind(config).eval()
        randomise(model, generator)
        model.save_pretrained(folder / name)
        processor = ViTImageProcessor(
            size={"height": config.image_size, "width": config.image_size},
            image_mean=[0.4, 0.5, 0.6],
            image_std=[0.5, 0.25, 0.3],
        )
        processor.save_pretrained(folder / name)
        images = torch.randint(0, 256, (2, 3, 32, 40), generator=generator)
        images = images.to(torch.uint8)
        inputs = processor(images=list(images), return_tensors="pt").pixel_values
        with torch.no_grad():
            backbone = getattr(model, "vit", model)
            features = backbone(inputs).last_hidden_state[:, 0]
            outputs = {"images": images, "inputs": inputs, "features": features}
            if kind is ViTForImageClassification:
                outputs["logits"] = model(inputs).logits
        save_file(
            {key: value.contiguous() for key, value in outputs.items()},
            folder / name / "reference.safetensors",
        )
        assert np.isfinite(features.numpy()).all()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
