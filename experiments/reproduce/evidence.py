"""What docs/reproduction.md is made from: presets, scenarios and measured results."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from fedsvp_jax.report import tables

from .results import Result

SMALL = "_small"


class Scenario(NamedTuple):
    """A column of the published tables, and the preset of its noise response."""

    name: str
    num_examples: float  # |D|, the training part (80%) of a client's data
    response: str  # the preset that measures accuracy against noise
    tables: tuple[str, ...]  # presets on the same data


SCENARIOS = (
    Scenario(  # |D|: 5 % of 50,000, of which 80 % train
        "ResNet-18 @ CIFAR-10",
        2_000.0,
        "noise_response_cifar10",
        ("fedsva_table1_cifar10", "fedsdp_table1_cifar10"),
    ),
    Scenario(  # |D| as in the public code: 5 % of EMNIST ByClass's 697,932
        "CNN @ FEMNIST",
        27_917.0,
        "noise_response_emnist",
        ("fedsva_table1_emnist", "fedsdp_table1_emnist"),
    ),
    Scenario(  # |D| as the paper cites: LEAF's 805,263 images of 3,550 writers
        "CNN @ FEMNIST",
        163.0,
        "noise_response_leaf",
        ("fedsva_table1_leaf",),
    ),
)

# preset -> (published table, scenario)
TABLES = {
    "fedsva_table1_cifar10": ("fedsva_table1", SCENARIOS[0].name),
    "fedsva_table1_emnist": ("fedsva_table1", SCENARIOS[1].name),
    "fedsva_table1_leaf": ("fedsva_table1", SCENARIOS[1].name),
    "fedsdp_table1_cifar10": ("fedsdp_table1", SCENARIOS[0].name),
    "fedsdp_table1_emnist": ("fedsdp_table1", SCENARIOS[1].name),
}

NOISE_FIGURES = ("fedsva_fig2_cifar10", "fedsdp_fig3_emnist")

CONTRIBUTION = "fedsdp_fig1_cifar10"

GAPS = ("gap_digits", "gap_digits_hbc", "gap_emnist")


class Evidence(NamedTuple):
    """Everything that the page is made from."""

    measured: dict[str, Result]  # by preset
    published: dict[str, Result]  # by table

    def published_cells(self, table: str, scenario: str) -> list[dict[str, Any]]:
        """The cells of a published table in one scenario."""
        cells = self.published[table]["cells"]
        return [cell for cell in cells if cell["scenario"] == scenario]


def preset_command(name: str) -> str:
    """The command that runs one preset and rewrites the page."""
    small = name.endswith(SMALL)
    size = "" if small else " --size=full"
    return f"python -m experiments.reproduce{size} --only={name}"


def sizes(evidence: Evidence, name: str) -> list[tuple[str, Result]]:
    """The measured results of a preset: `(size, result)`, small first."""
    names = {"small": name + SMALL, "full": name}
    return [
        (size, evidence.measured[key])
        for size, key in names.items()
        if key in evidence.measured
    ]


def mean_accuracy(group: Result | None) -> float | None:
    """Accuracy of the last five rounds, as mean over the seeds."""
    if group is None:
        return None
    return tables.mean_std([v for v in group["last5"] if v is not None])[0]


def provenance(measured: Sequence[Result]) -> dict[str, str]:
    """The columns that end a row: where it comes from; dashes if from nowhere."""
    commands = [f"`{preset_command(result['preset'])}`" for result in measured]
    devices = dict.fromkeys(result["device_kind"] for result in measured)
    return {
        "command": "; ".join(commands) or "not run",
        "date": "; ".join(result["date"] for result in measured) or "–",
        "device": "; ".join(devices) or "–",
    }
