"""The table of what --solve=noise finds for each mechanism."""

from typing import Any

from fedsvp_jax import federation, mechanisms
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.federation import plan
from fedsvp_jax.federation.budget import run_epsilon
from fedsvp_jax.report.text_table import markdown

Json = dict[str, Any]
_BUDGET, _BUDGET_ROUNDS = 2.0, 10  # a client's ε over its uploads


_UPLOAD_DELTA = 1e-6


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
