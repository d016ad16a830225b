"""The parts of the mutation run: modules, and the tests that must notice a mistake."""

from typing import NamedTuple


class Part(NamedTuple):
    """Modules of fedsvp_jax, and what pytest is told to run for their mutants.

    Attributes:
      modules: below fedsvp_jax.
      tests: files and folders.
      left_out: words in the names of tests that take too long to be run for a mutant.
    """

    modules: tuple[str, ...]
    tests: tuple[str, ...]
    left_out: tuple[str, ...] = ()


REFUSALS = "tests/test_refusals.py"


def _of(room: str, *names: str, left_out: tuple[str, ...] = ()) -> Part:
    return Part(
        tuple(f"{room}/{name}.py" for name in names),
        (*(f"tests/{room}/test_{name}.py" for name in names), REFUSALS),
        left_out,
    )


PARTS = {
    "accounting": Part(
        tuple(
            f"accounting/{name}.py"
            for name in (
                "recorded",
                "claims",
                "composition",
                "copies",
                "promise",
                "views",
            )
        ),
        ("tests/accounting", "tests/federation/test_client_promises.py"),
        left_out=("pld", "drawn_settings", "two_other"),
    ),
    "noise": _of("mechanisms", "calibration", "noise", "played", "release"),
    "mechanisms": _of("mechanisms", "shapley_guided"),
    "baselines": _of(
        "baselines",
        *("correlated_noise", "dp_fedavg", "nbafl", "reestimation", "schedules"),
    ),
    "shapley": Part(
        (
            "shapley.py",
            "paired.py",
            "algorithm/coalitions.py",
            "algorithm/estimators.py",
            "algorithm/privacy_estimation.py",
        ),
        (
            "tests/test_shapley.py",
            "tests/test_paired.py",
            "tests/algorithm/test_estimators.py",
            "tests/algorithm/test_privacy_estimation.py",
        ),
        left_out=("sampled_values_converge", "unanimity"),
    ),
    "query": Part(
        (
            "mechanisms/sensitivity.py",
            "mechanisms/shared_noise.py",
            "algorithm/private_query.py",
            "algorithm/round_score.py",
        ),
        (
            "tests/mechanisms/test_sensitivity.py",
            "tests/mechanisms/test_shared_noise.py",
            "tests/algorithm/test_attribute_records.py",
            "tests/algorithm/test_private_query.py",
            "tests/algorithm/test_evaluation.py",
            "tests/test_float32.py",
            REFUSALS,
        ),
        left_out=(
            "without_private_records",
            "built_by_name",
            "logits_are_moved",
        ),
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
        tuple(
            f"tests/algorithm/test_{name}.py"
            for name in (
                "cohort",
                "local_training",
                "round_by_hand",
                "streams",
            )
        ),
        left_out=("equally_likely", "shrinks", "uncorrelated"),
    ),
    "deploy": Part(
        tuple(
            f"deploy/{name}.py"
            for name in (
                "answer",
                "chain",
                "noise",
                "policy",
                "privatize",
                "site",
                "state",
                "witness",
            )
        ),
        tuple(
            f"tests/deploy/test_{name}.py"
            for name in ("faults_of_sites", "noise", "privatize", "site")
        ),
    ),
    "votes": Part(
        ("influence/lazy.py", "influence/privacy.py"),
        tuple(f"tests/influence/test_{name}.py" for name in ("lazy", "privacy")),
    ),
    "registry": Part(
        tuple(
            f"mechanisms/{name}.py" for name in ("base", "config", "fixed", "registry")
        ),
        (
            "tests/mechanisms/test_contract.py",
            "tests/mechanisms/test_discrete_noise.py",
            *("tests/mechanisms/test_registry.py", REFUSALS),
        ),
    ),
}
