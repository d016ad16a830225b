"""What --solve=noise finds, by mechanism and by way to draw batches.

  python -m experiments.budget_table

Writes budgets.json and batches.json of docs/results/privacy (minutes); the tables of
docs/results/privacy.md are made from them (`python -m experiments.guarantee_tables`).
"""

from typing import Any

from fedsvp_jax import federation, mechanisms
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federation import plan
from fedsvp_jax.federation.budget import run_epsilon
from fedsvp_jax.report.text_table import markdown
from fedsvp_jax.run.files import write_json

from . import command, docs_blocks

Json = dict[str, Any]
_BUDGET, _BUDGET_ROUNDS = 2.0, 10  # a client's ε over its uploads
_UPLOAD_DELTA = 1e-6
_EXAMPLES = 2000  # |D| of a client in the published set-up
_SET_UPS = (  # B, epochs per upload, uploads, ε
    *((50, 2, 40, total) for total in (0.5, 1, 4, 16, 64)),
    *((500, 2, 40, total) for total in (1, 4, 16)),
    *((50, 1, 1, total) for total in (1, 4, 8)),
    (2000, 2, 40, 1),
)


def budgets() -> Json:
    """What --solve=noise finds for each mechanism and accounting, and what is spent.

    A client uploads in all of ten rounds, by update_clip; the calibration is analytic
    and R is fixed at 1 where the noise follows it.
    """
    rows: list[Json] = []
    names = [name for name in mechanisms.mechanism_names() if name != "none"]
    for name in names:
        printed = name in ("fedsva", "fedsdp")
        for accounting in ("basic", "rdp", "pld"):
            config = resolve(
                ExperimentConfig(
                    mechanism=name,
                    sensitivity="update_clip",
                    calibration="classical" if printed else "analytic",
                    contribution_release="worst_case",
                    delta=_UPLOAD_DELTA,
                    num_rounds=_BUDGET_ROUNDS,
                    total_epsilon=_BUDGET,
                    total_accounting=accounting,
                )
            )
            solved = federation.solve_noise(config)
            setting, _ = mechanisms.noise_setting(name)
            told = plan.mechanism_config(solved)
            rows.append(
                {
                    "mechanism": name,
                    "accounting": accounting,
                    "setting": setting,
                    "value": getattr(solved, setting),
                    "spent": run_epsilon(solved, told),
                }
            )
    return {
        "total_epsilon": _BUDGET,
        "num_rounds": _BUDGET_ROUNDS,
        "delta": _UPLOAD_DELTA,
        "target_delta": config.target_delta,
        "rows": rows,
    }


def budgets_table(results: Json) -> str:
    """For each mechanism what was solved for, and the ε that it spends."""
    by_name: dict[str, dict[str, Json]] = {}
    for row in results["rows"]:
        by_name.setdefault(row["mechanism"], {})[row["accounting"]] = row
    rows = [
        {"mechanism": f"`{name}`", "solved for": f"`{of['basic']['setting']}`"}
        | {
            f"value, spent by {accounting}": f"{row['value']:.4g}, {row['spent']:.4f}"
            for accounting, row in of.items()
        }
        for name, of in by_name.items()
    ]
    return (
        f"{markdown(rows)}\nε = {results['total_epsilon']:g} over "
        f"{results['num_rounds']} uploads of a client; δ = {results['delta']:g} per "
        f"upload (basic), {results['target_delta']:g} for the run (RDP, PLD)."
    )


def batches() -> Json:
    """The least noise of a local step, with shuffled and with Poisson batches.

    For a record that is left out. Both draw B records per step on average, in as many
    steps, so the noise of one step is what differs.
    """
    rows: list[Json] = []
    for size, epochs, uploads, total in _SET_UPS:
        row = {"B": size, "epochs": epochs, "uploads": uploads, "epsilon": total}
        for drawn in ("shuffled", "poisson"):
            config = resolve(
                ExperimentConfig(
                    mechanism="gaussian",
                    sensitivity="per_example",
                    relation="add_remove",
                    batches=drawn,
                    batch_size=size,
                    local_epochs=epochs,
                    num_rounds=uploads,
                    total_epsilon=total,
                    total_accounting="pld",
                    l2_norm_clip=1.0,
                )
            )
            solved = federation.solve_noise(
                config, min_num_examples=_EXAMPLES, max_num_examples=_EXAMPLES
            )
            row[drawn] = solved.noise_std * size
        rows.append(row)
    return {"num_examples": _EXAMPLES, "delta": config.target_delta, "rows": rows}


def batches_table(results: Json) -> str:
    """A line for each set-up."""
    rows = [
        {
            "B": str(row["B"]),
            "epochs per upload": str(row["epochs"]),
            "uploads": str(row["uploads"]),
            "ε": f"{row['epsilon']:g}",
            "std over C, shuffled": f"{row['shuffled']:.3g}",
            "std over C, Poisson": f"{row['poisson']:.3g}",
        }
        for row in results["rows"]
    ]
    return (
        f"{markdown(rows)}\nStd of the noise on a step's sum over C, "
        f"\\|D\\| = {results['num_examples']}, ε of the run by PLD at "
        f"δ = {results['delta']:g}, for a record that is left out."
    )


def main(_: list[str]) -> None:
    """Solves, and keeps what was found."""
    folder = docs_blocks.DOCS / "results" / "privacy"
    write_json(folder / "budgets.json", budgets())
    write_json(folder / "batches.json", batches())
    command.print_files([folder / "budgets.json", folder / "batches.json"])


if __name__ == "__main__":
    command.run(main, __doc__)
