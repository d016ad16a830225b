"""Differentially private federated learning guided by Shapley values, in JAX.

What people use, and where it is:

    ExperimentConfig, resolve   config.py      every setting of a run, in one object
    run.train                   run/           one run, from settings to a folder
    run.load_model              run/           the trained model of a run's folder
    make_round                  run/           one round as a pure function
    sweep.sweep, SweepPlan      run/           many runs as one compiled program
    Dataset, Column             data/          arrays of your own
    Model, models               models/        a model is a pair (init, apply)
    mechanisms                  mechanisms/    who adds how much noise
    shapley                     shapley/       values of attributes, contribution ratio
    Account                     accounting/    what is spent, against whom
    influence                   influence/     the filter of corrupted clients
    attacks                     attacks/       what an upload tells
    report                      report/        pages, tables, data frames
    check                       check/         which ε follows from others' settings
    sklearn.DPClassifier        sklearn.py     a private classifier as scikit-learn has

How a round works: round/federated_round.py. How the rooms stand on one another:
docs/architecture.md. Nothing is imported before it is asked for; `import fedsvp_jax`
itself only sets XLA's flags (devices/compiler_flags.py).
"""

# mypy: disable-error-code="no-redef"
from typing import TYPE_CHECKING, Any

from fedsvp_jax.devices.compiler_flags import set_safe_flags

__version__ = "0.3.0"  # the only place that says it: pyproject.toml reads this line

if TYPE_CHECKING:
    from fedsvp_jax import (
        accounting,
        attacks,
        influence,
        mechanisms,
        models,
        report,
        run,
        shapley,
    )
    from fedsvp_jax.accounting import Account
    from fedsvp_jax.config import ExperimentConfig, resolve
    from fedsvp_jax.core.structs import Model
    from fedsvp_jax.data.dataset import Column, Dataset
    from fedsvp_jax.run import sweep
    from fedsvp_jax.run.own_loop import make_round

__all__ = [
    "Account",
    "Column",
    "Dataset",
    "ExperimentConfig",
    "Model",
    "accounting",
    "attacks",
    "influence",
    "make_round",
    "mechanisms",
    "models",
    "report",
    "resolve",
    "run",
    "shapley",
    "sweep",
]

set_safe_flags()


def __dir__() -> set[str]:
    return {*globals(), *__all__}


def __getattr__(name: str) -> Any:
    """A public name, imported when it is first asked for (PEP 562)."""
    match name:
        case "accounting":
            import fedsvp_jax.accounting as value
        case "attacks":
            import fedsvp_jax.attacks as value
        case "influence":
            import fedsvp_jax.influence as value
        case "mechanisms":
            import fedsvp_jax.mechanisms as value
        case "models":
            import fedsvp_jax.models as value
        case "report":
            import fedsvp_jax.report as value
        case "run":
            import fedsvp_jax.run as value
        case "shapley":
            import fedsvp_jax.shapley as value
        case "Account":
            from fedsvp_jax.accounting import Account as value
        case "ExperimentConfig" | "resolve":
            import fedsvp_jax.config as home

            value = getattr(home, name)
        case "Model":
            from fedsvp_jax.core.structs import Model as value
        case "Column" | "Dataset":
            import fedsvp_jax.data.dataset as home

            value = getattr(home, name)
        case "sweep":
            from fedsvp_jax.run import sweep as value
        case "make_round":
            from fedsvp_jax.run.own_loop import make_round as value
        case _:
            raise AttributeError(f"module 'fedsvp_jax' has no attribute {name!r}")
    return value
