"""The parts of the mutation run: modules, and the tests that must notice a mistake."""

from typing import NamedTuple


class Part(NamedTuple):
    """Modules of fedsvp_jax, and what pytest is told to run for their mutants."""

    modules: tuple[str, ...]
    tests: tuple[str, ...]


def _mechanism(*names: str) -> Part:
    return Part(
        tuple(f"mechanisms/{name}.py" for name in names),
        tuple(f"tests/mechanisms/test_{name}.py" for name in names),
    )


PARTS = {
    "accounting": Part(
        tuple(
            f"accounting/{name}.py"
            for name in ("composition", "guarantees", "ledger", "promises")
        ),
        ("tests/accounting",),
    ),
    "noise": _mechanism("calibration", "noise", "release", "sensitivity"),
    "mechanisms": _mechanism(
        "dp_fedavg", "nbafl", "reestimation", "schedules", "shapley_guided"
    ),
    "shapley": Part(
        ("shapley.py", "algorithm/privacy_estimation.py"),
        ("tests/test_shapley.py", "tests/algorithm/test_privacy_estimation.py"),
    ),
    "round": Part(
        tuple(
            f"algorithm/{name}.py"
            for name in (
                "aggregation",
                "client",
                "cohort",
                "federated_round",
                "local_training",
            )
        ),
        ("tests/algorithm",),
    ),
    "votes": Part(
        ("influence/lazy.py", "influence/privacy.py"),
        tuple(f"tests/influence/test_{name}.py" for name in ("lazy", "privacy")),
    ),
    "registry": Part(
        tuple(
            f"mechanisms/{name}.py" for name in ("base", "config", "fixed", "registry")
        ),
        tuple(
            f"tests/mechanisms/test_{name}.py"
            for name in ("config", "contract", "registry")
        ),
    ),
}
