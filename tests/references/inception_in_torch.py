"""Writes Inception-v3 weights drawn at random and what PyTorch's networks make of them.

Run by tests/pretrained/test_references.py under .venv-references: FOLDER gets, for both
kinds of weights, the state dict (.pth and .safetensors) and every layer's output.
"""

import sys
from pathlib import Path
from unittest import mock

import torch
import torchvision
from pytorch_fid import inception
from safetensors.torch import save_file


def random_state(
    network: torch.nn.Module, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """A state dict that keeps the scale of what passes through the network."""
    state = network.state_dict()
    for name, tensor in state.items():
        if tensor.ndim > 1:
            tensor.normal_(0, (2 / tensor[0].numel()) ** 0.5, generator=generator)
        elif name.endswith(("bn.weight", "running_var")):
            tensor.uniform_(0.5, 1.5, generator=generator)
        elif tensor.ndim:
            tensor.normal_(0, 0.1, generator=generator)
    return state


def write(folder: Path, kind: str, *, num_classes: int) -> None:
    """The weights, the images, every layer's output and pytorch-fid's features."""
    generator = torch.Generator().manual_seed(num_classes)
    network = torchvision.models.inception_v3(
        weights=None,
        init_weights=False,
        num_classes=num_classes,
        aux_logits=kind == "torchvision",
    )
    state = random_state(network, generator)
    torch.save(state, folder / f"{kind}.pth")
    save_file(
        {name: tensor.clone() for name, tensor in state.items()},
        folder / f"{kind}.safetensors",
    )
    # pytorch-fid downloads its weights; these take the place of the download.
    with mock.patch.object(
        inception, "load_state_dict_from_url", lambda *_, **__: state
    ):
        if kind == "pytorch_fid":
            network = inception.fid_inception_v3()
    made = {"fid_inception_v3": lambda: network, "_inception_v3": lambda **_: network}
    with mock.patch.multiple(inception, **made):
        extractor = inception.InceptionV3([3], use_fid_inception=kind == "pytorch_fid")
    extractor.eval()

    layers: dict[str, torch.Tensor] = {}

    def keep(name: str) -> None:
        def hook(module: torch.nn.Module, inputs: object, output: torch.Tensor) -> None:
            layers[f"layer:{name}"] = output[:1].clone()

        network.get_submodule(name).register_forward_hook(hook)

    for name, module in network.named_modules():
        block = name.startswith("Mixed_") and "." not in name
        if block or type(module).__name__ == "BasicConv2d":
            keep(name)
    small = torch.rand((3, 3, 32, 40), generator=generator)
    large = torch.rand((1, 1, 330, 300), generator=generator)
    with torch.no_grad():
        large_features = extractor(large.expand(-1, 3, -1, -1))[0]
        small_features = extractor(small)[0]  # last: its layers are kept
    outputs = {
        "small": small,
        "large": large,
        "small_features": small_features.flatten(1),
        "large_features": large_features.flatten(1),
        **layers,
    }
    save_file(
        {name: tensor.contiguous() for name, tensor in outputs.items()},
        folder / f"{kind}.reference.safetensors",
    )


if __name__ == "__main__":
    write(Path(sys.argv[1]), "torchvision", num_classes=1000)
    write(Path(sys.argv[1]), "pytorch_fid", num_classes=1008)
