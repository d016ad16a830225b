"""How a setting is declared, and the settings that all mechanisms share, by theme.

A setting is a field of a frozen dataclass, made by `setting`: its default, its limits
and its help are written there and nowhere else. Small dataclasses hold the settings of
one theme. `config.ExperimentConfig` inherits all of them, so a function that reads one
theme takes that theme's class, and a whole configuration can be handed to it.

Settings of one mechanism are declared in the mechanism's own file, those of the filter
in influence/settings.py, those of the Shapley values in shapley.py, and those of data
sets, attributes, partition and corrupted clients in data/.
"""

import dataclasses
import difflib
import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

MAX_ATTRIBUTES = 64
# Read only where clients estimate R: with worst_case they do not.
NEEDS_ESTIMATION = ("contribution_release", ("none", "laplace", "randomized_response"))
# Linear layers on features, into which images are turned when they are loaded.
FEATURE_MODELS = ("scatter_linear", "lite0_linear")
_LARGEST_INT = 2**31 - 1
_LARGEST_FLOAT, _LEAST_FLOAT = 3.4e38, 1.2e-38  # float32's normal numbers
# The squares of numbers below 1e-19 vanish in float32, and norms with them. A vector of
# 1e9 such numbers is up to 4e-15 long, which a clip of this size does not notice.
LEAST_CLIP = 1e-6


def setting(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] | None = None,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    below: float | None = None,
    infinite: bool = False,
    traced: bool = False,
    needs: tuple[str, tuple[Any, ...]] | None = None,
) -> Any:
    """One setting of a `Settings` class.

    Args:
      default: its value where none is given; None where the data set decides
        (`config.resolve`) or where nothing is meant.
      help: what `--help` says of it.
      choices: the allowed texts.
      at_least, above: the lower limit, with and without the limit itself.
      at_most, below: the upper limit, likewise.
      infinite: whether infinity is allowed too.
      traced: whether the cells of one compiled sweep may differ in it. Another value
        of a setting that is not traced is another program.
      needs: another setting and those of its values with which alone this one is read;
        no values: whenever the other is given and not 0. The command line refuses its
        flag otherwise.
    """
    metadata = {
        "help": help,
        "choices": choices,
        "limits": {
            "at least": at_least,
            "greater than": above,
            "at most": at_most,
            "less than": below,
        },
        "infinite": infinite,
        "needs": needs,
        "pytree_node": traced,  # read by flax.struct.dataclass
    }
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class Settings:
    """Checks every setting when it is built; what is being traced passes unchecked."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            if "limits" in field.metadata:
                _check(field, getattr(self, field.name))


def theme(cls: type[Settings], name: str) -> type[Settings]:
    """The class that declares the setting `name` of `cls`; its docstring is the theme.

    The docstring's first line is `Title: what it is about.`
    """
    return next(
        one for one in cls.__mro__ if name in vars(one).get("__annotations__", {})
    )


_BROKEN = {
    "at least": lambda value, limit: value < limit,
    "greater than": lambda value, limit: value <= limit,
    "at most": lambda value, limit: value > limit,
    "less than": lambda value, limit: value >= limit,
}


def _check(field: dataclasses.Field, value: Any) -> None:
    meta = field.metadata
    if meta["choices"] is not None:
        if value is not None and value not in meta["choices"]:
            raise ValueError(unknown(field.name, value, meta["choices"]))
        return
    if isinstance(value, bool) or not isinstance(
        value, int | float | np.ndarray | np.number
    ):
        return
    numbers = np.asarray(value)
    if numbers.dtype == object:
        return
    limits: Mapping[str, float | None] = meta["limits"]
    set_limits = {name: limit for name, limit in limits.items() if limit is not None}
    largest = _LARGEST_INT if field.type is int else _LARGEST_FLOAT
    small = (numbers > 0) & (numbers < _LEAST_FLOAT)
    if np.any(small | (numbers > largest) & (numbers < math.inf)):
        raise ValueError(
            f"{field.name} must fit the device's 32 bits, {_LEAST_FLOAT} to {largest}, "
            f"got {value}"
        )
    limited = numbers[numbers != math.inf] if meta["infinite"] else numbers
    if any(np.any(_BROKEN[name](limited, limit)) for name, limit in set_limits.items()):
        allowed = " and ".join(f"{name} {limit}" for name, limit in set_limits.items())
        if meta["infinite"] and set_limits.keys() & {"at most", "less than"}:
            allowed += ", or inf"
        raise ValueError(f"{field.name} must be {allowed}, got {value}")
    finite = np.isfinite(numbers) | (numbers == math.inf if meta["infinite"] else False)
    if not np.all(finite):
        raise ValueError(f"{field.name} must be a finite number, got {value}")


def unknown(name: str, value: Any, choices: Sequence[str]) -> str:
    """The sentence for a value that is none of the choices; names the nearest one."""
    near = difflib.get_close_matches(str(value), choices, n=1)
    hint = f" (did you mean {near[0]}?)" if near else ""
    return f"{name} must be one of {', '.join(choices)}, got {value!r}{hint}"


def missing_need(
    field: dataclasses.Field, settings: Mapping[str, Any]
) -> tuple[str, tuple[Any, ...]] | None:
    """The setting, and those of its values, without which `field` is not read here.

    Args:
      field: of a `Settings` class.
      settings: values by name.

    Returns:
      `needs` of the field where `settings` does not meet it, else None.
    """
    needs = field.metadata["needs"]
    if needs is None:
        return None
    other, readers = needs
    value = settings.get(other)
    met = value in readers if readers else value not in (None, 0)
    return None if met else needs


Chosen = TypeVar("Chosen")


def part(cls: type[Chosen], config: Any, **more: Any) -> Chosen:
    """The settings of `cls` as they stand in a configuration that has them too.

    Args:
      cls: a dataclass.
      config: has a field for each field of `cls` that is not in `more` and has no
        default of its own.
      more: fields that are given instead.
    """
    names = {field.name for field in dataclasses.fields(config)}
    shared = [
        field.name
        for field in dataclasses.fields(cls)  # type: ignore[arg-type]
        if field.name in names and field.name not in more
    ]
    return cls(**{name: getattr(config, name) for name in shared}, **more)


@dataclasses.dataclass(frozen=True)
class RoundSettings(Settings):
    """Rounds: how many clients train how long."""

    num_clients: int = setting(
        None, "M: clients of the federation. Default: 100 (digits: 30).", at_least=1
    )
    cohort_size: int = setting(None, "K: clients per round. Default: 10.", at_least=1)
    cohorts: str = setting(
        "drawn",
        "drawn: every cohort is a uniform draw of its own. cyclic: the clients are "
        "dealt once into cohorts that take turns, so num_clients/cohort_size rounds "
        "lie between two uploads of a client.",
        choices=("drawn", "cyclic"),
    )
    num_rounds: int = setting(50, "T: rounds.", at_least=1)
    max_uploads: int | None = setting(
        None,
        "The most uploads of one client over the run that spend its budget; a client "
        "that has sent so many is not asked again. --solve=noise then adds the least "
        "noise for so many. Default: one in every round.",
        at_least=1,
    )
    local_epochs: int = setting(2, "E: epochs of local training per round.", at_least=1)
    batch_size: int = setting(
        None, "B: local batch size. Default: 50 (digits: 10).", at_least=1
    )
    batches: str = setting(
        "shuffled",
        "Which records a local step sees. shuffled: the next B of a random order, each "
        "once per epoch; poisson: every record with probability B/|D|, in secret, "
        "which amplifies privacy against the server too.",
        choices=("shuffled", "poisson"),
        needs=("sensitivity", ("per_example",)),
    )
    local_steps: int | None = setting(
        None,
        "Local steps per round. Default: as many as --local_epochs epochs have.",
        at_least=1,
        needs=("batches", ("poisson",)),
    )


@dataclasses.dataclass(frozen=True)
class TrainingSettings(Settings):
    """Training: the model and the steps of a client and of the server."""

    model: str = setting(
        None,
        "Model. Default: small_cnn for digits, leaf_cnn for MNIST and FEMNIST, "
        "paper_cnn for EMNIST, resnet18 for CIFAR, mlp for tables. scatter_linear is a "
        "linear layer on scattering coefficients, lite0_linear one on features of "
        "EfficientNet-Lite0 (ImageNet); both are computed once.",
        choices=(
            "mlp",
            "small_cnn",
            "paper_cnn",
            "leaf_cnn",
            "resnet18",
            "resnet18_gn",
            "vit",
            *FEATURE_MODELS,
        ),
    )
    learning_rate: float = setting(
        None, "Step size of plain SGD. Default: 0.1.", above=0
    )
    augment: bool = setting(
        None, "Random crop and flip of training images. Default: for CIFAR only."
    )
    weighting: str = setting(
        "examples",
        "Weights of the average of uploads: examples (n_i/n) or uniform (the authors' "
        "public code).",
        choices=("examples", "uniform"),
    )
    server_momentum: float = setting(
        0.0,
        "Momentum of the server's step: v <- server_momentum * v + average update, "
        "w <- w + v (0: plain averaging).",
        at_least=0,
        below=1,
    )
    proximal_weight: float = setting(
        0.0,
        "FedProx: weight mu of the term mu/2 ||w - w_global||^2 in the local loss "
        "(0: off).",
        at_least=0,
    )
    compute_dtype: str = setting(
        "float32",
        "Number format of the products in local training. bfloat16 is meant for "
        "hardware that multiplies it (TPUs, GPUs); on a CPU it gains nothing so far "
        "(docs/performance.md). Weights, clip, noise, averages, utilities and "
        "accounting stay float32.",
        choices=("float32", "bfloat16"),
    )


@dataclasses.dataclass(frozen=True)
class NoiseSettings(Settings):
    """Noise: what every mechanism reads."""

    epsilon: float = setting(
        0.5,
        "Privacy budget ε of one upload. It is not the budget of the run: see "
        "--total_epsilon.",
        above=0,
        traced=True,
    )
    delta: float = setting(
        None,
        "Failure probability δ of one upload. Default: 1/batch_size, as published, "
        "which is far too large for a real guarantee.",
        above=0,
        below=1,
        traced=True,
    )
    l2_norm_clip: float = setting(
        None,
        "C: bound on the norm that --sensitivity names. FedAvg (mechanism none) clips "
        "its gradients too, unless C is inf. Default: 20 (digits, adult: 1).",
        at_least=LEAST_CLIP,
        infinite=True,
        traced=True,
    )
    sensitivity: str = setting(
        "paper",
        "What C clips, hence the sensitivity that scales the noise. paper: the "
        "batch-mean gradient at every step, 2C/|D| (nominal, not proved); "
        "weight_clip: the uploaded weights too, 2C; update_clip: the update too, C "
        "(add or remove the client) or 2C (replace); per_example: every example's "
        "gradient, DP-SGD in the client; attribute_records: the gradient of each "
        "record of the private attribute, to --private_clip (records of other "
        "attributes are not protected).",
        choices=(
            "paper",
            "weight_clip",
            "update_clip",
            "per_example",
            "attribute_records",
        ),
    )
    relation: str = setting(
        "replace_one",
        "Neighbouring relation: replace_one or add_remove (of update_clip: a whole "
        "client; of per_example: one record, which is left out of its batches; of "
        "attribute_records: the contribution of one private record). The relation of "
        "dp_fedavg is always add_remove.",
        choices=("replace_one", "add_remove"),
        needs=("sensitivity", ("update_clip", "per_example", "attribute_records")),
    )
    noise_trust: str = setting(
        "server",
        "Whom an upload is hidden from. server: also from the server, so each client "
        "adds all of the noise. secure_aggregation: nobody sees more than a cohort's "
        "sum, so each of its K clients adds a part of std/√(K − --colluders); the "
        "average then has equal weights.",
        choices=("server", "secure_aggregation"),
    )
    noise_sampler: str = setting(
        "gaussian",
        "gaussian: noise in floating point, whose rounding no proof covers. discrete: "
        "whole numbers of a grid from an exact sampler, which are sent and added up "
        "modulo 2^b; for clipped uploads, and counted by RDP.",
        choices=("gaussian", "discrete"),
    )
    noise_bits: int = setting(
        16,
        "b: bits per number of an upload; fewer make the grid coarser.",
        at_least=8,
        at_most=24,
        needs=("noise_sampler", ("discrete",)),
    )
    colluders: int = setting(
        1,
        "h: honest-but-curious clients who pool what they know, for the guarantee "
        "against colluding clients and for the parts of noise that a cohort shares, "
        "where h counts the clients that drop out of a sum too.",
        at_least=1,
    )
    calibration: str = setting(
        "classical",
        "Gaussian noise for (ε, δ): classical (as published, proved for ε < 1) or "
        "analytic (Balle and Wang 2018).",
        choices=("classical", "analytic"),
    )
    allow_large_epsilon: bool = setting(
        False,
        "Let the classical calibration run at ε >= 1, without a proof.",
        needs=("calibration", ("classical",)),
    )
    contribution_release: str = setting(
        "none",
        "How the noise uses the contribution ratio R: none (R itself, as published: "
        "the noise leaks R), worst_case (always R = 1), laplace or "
        "randomized_response (a differentially private estimate of R).",
        choices=("none", "worst_case", "laplace", "randomized_response"),
    )
    release_epsilon: float = setting(
        0.1,
        "Budget of one release of R (laplace, randomized_response). At most 10: a draw "
        "in float32 cannot tell smaller probabilities apart.",
        above=0,
        at_most=10,
        needs=("contribution_release", ("laplace", "randomized_response")),
        traced=True,
    )
