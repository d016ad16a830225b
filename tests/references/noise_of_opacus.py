"""The standard deviations of the noise that Opacus draws.

Run by tests/deploy/test_engines.py under .venv-references: standard input has a JSON
object of Python files by name, standard output one of standard deviations.
"""

import json
import sys
import warnings

import torch
from opacus import PrivacyEngine
from torch.utils.data import DataLoader, TensorDataset

warnings.simplefilter("ignore")
SIZE = 20_000


def drawn(text: str) -> float:
    """What the file's `train` adds to gradients of 0."""
    torch.manual_seed(0)
    model = torch.nn.Linear(SIZE, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    names = {"DataLoader": DataLoader, "PrivacyEngine": PrivacyEngine}
    names |= {"m": model, "optimizer": optimizer}
    exec(text.replace("module=m,", "module=m, optimizer=optimizer,"), names)
    data = TensorDataset(torch.zeros(1000, 1), torch.zeros(1000, 1))
    _, private, _ = names["train"](data)
    for leaf in private.params:
        leaf.summed_grad = torch.zeros_like(leaf)
    private.add_noise()
    return float(private.params[0].grad.std())


if __name__ == "__main__":
    files = json.load(sys.stdin)
    print(json.dumps({name: drawn(text) for name, text in files.items()}))
