"""What docs/reproduction.md is made from: presets, scenarios and measured results."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .. import presets
from ..presets import MEDIUM, SMALL
from . import kept_cells, results
from .results import Result

CONVERGED = "converged"  # the size of what was measured to convergence
FEDAVG = "none", None  # its mechanism and ε


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

# preset -> the result to convergence that measures the same
TO_CONVERGENCE = {
    **dict.fromkeys(
        ("fedsva_table1_emnist", "fedsdp_table1_emnist", "noise_response_emnist"),
        "femnist_medium",
    ),
    **dict.fromkeys(
        ("fedsva_table1_cifar10", "fedsdp_table1_cifar10", "noise_response_cifar10"),
        "cifar10_medium",
    ),
    "fedsva_table2_n2_cifar10": "cifar10_medium",
    **{f"fedsva_table2_n{n}_cifar10": f"cifar10_medium_n{n}" for n in (3, 4, 5)},
}

# FedSVA's Fig. 2 and FedSDP's Fig. 3: presets that hold their mechanisms
NOISE_FIGURES = {
    "fedsva_table1_cifar10": "FedSVA, Fig. 2",
    "fedsdp_table1_emnist": "FedSDP, Fig. 3",
}

CONTRIBUTION = "fedsdp_table1_cifar10"  # FedSDP's Fig. 1

GAPS = (
    "gap_digits",
    "gap_digits_hbc",
    "fedsva_table1_emnist",
    "fedsva_table1_cifar10",
)


class Evidence(NamedTuple):
    """Everything that the page is made from."""

    measured: dict[str, Result]  # by preset
    published: dict[str, Result]  # by table

    def published_cells(self, table: str, scenario: str) -> list[dict[str, Any]]:
        """The cells of a published table in one scenario."""
        cells = self.published[table]["cells"]
        return [cell for cell in cells if cell["scenario"] == scenario]

    def published_last5(
        self, table: str, scenario: str
    ) -> dict[tuple[str, float | None], float]:
        """Their last-five accuracies in percent, by mechanism and ε."""
        cells = self.published_cells(table, scenario)
        return {(c["mechanism"], c["epsilon"]): c["last5"] for c in cells}


def load(folder: Path) -> Evidence:
    """Everything that docs/results/reproduction holds.

    Raises:
      ValueError: a file is damaged.
    """
    kept = folder / kept_cells.KEPT
    measured = results.load(folder) | kept_cells.load(kept)
    return Evidence(measured, results.published(folder))


def published_score(cell: Mapping[str, Any], name: str) -> str:
    """A published percentage, with ± where the paper prints one."""
    std = cell.get(f"{name}_std")
    return f"{cell[name]:.2f}" + (f" ± {std:.2f}" if std is not None else "")


def preset_command(name: str) -> str:
    """The command that runs one preset; of a medium one, with the row's mechanism."""
    if MEDIUM in name:
        file = f"{presets.FOLDER.name}/{flags_file(name)}"
        return f"python -m experiments.sweep --flagfile=experiments/{file}"
    small = name.endswith(SMALL)
    size = "" if small else " --size=full"
    return f"python -m experiments.reproduce{size} --only={name}"


def sizes(evidence: Evidence, name: str) -> list[tuple[str, Result]]:
    """The measured results of a preset: `(size, result)`, small first."""
    names = {
        "small": name + SMALL,
        CONVERGED: TO_CONVERGENCE.get(name, ""),
        "full": name,
    }
    return [
        (size, evidence.measured[key])
        for size, key in names.items()
        if key in evidence.measured
    ]


def provenance(
    measured: Sequence[Result], groups: Sequence[Result] = ()
) -> dict[str, str]:
    """The columns that end a row: where it comes from; dashes if from nowhere."""
    seeds = sorted({seed for group in groups for seed in group["seeds"]})
    names = [result["preset"] for result in measured]
    columns = {
        "seeds": [_seeds(seeds)] if seeds else [],
        "rounds": [str(result["settings"]["num_rounds"]) for result in measured],
        "command": [f"`{preset_command(name)}`" for name in names],
        "date": [result["date"] for result in measured],
        "device": [result["device_kind"] for result in measured],
        "flags": [f"`{flags_file(name)}`" for name in names],
        "compiler's flags": [compiler_flags(result) for result in measured],
    }
    joined = {name: "; ".join(dict.fromkeys(v)) or "–" for name, v in columns.items()}
    return joined if measured else joined | {"command": "not run"}


def _seeds(seeds: Sequence[int]) -> str:
    """`0, 1, 2`; many that follow each other are `0 to 11`."""
    if len(seeds) > 3 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def flags_file(preset: str) -> str:
    """The file of experiments/presets that a result's settings come from."""
    head, medium, _ = preset.partition(MEDIUM)
    return f"{head}{medium}.flags"


def compiler_flags(result: Result) -> str:
    """`name=value` of what the compiler was told; a sweep keeps it in its settings."""
    told = result.get("xla_flags", result.get("settings", {}).get("xla_flags"))
    if told is None:
        return "not recorded"
    return ", ".join(f"{name}={value}" for name, value in told.items()) or "none"
