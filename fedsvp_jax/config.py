"""One experiment's settings: names, defaults, limits and help in one place."""

import dataclasses
import difflib
import math
from collections.abc import Sequence
from typing import Any

from fedsvp_jax import mechanisms


def _setting(
    default: Any,
    help: str,
    *,
    choices: Sequence[str] | None = None,
    low: float | None = None,
    high: float | None = None,
    open_interval: bool = False,
    infinite: bool = False,
) -> Any:
    limits = {"low": low, "high": high, "open": open_interval, "infinite": infinite}
    metadata = {"help": help, "choices": choices, **limits}
    return dataclasses.field(default=default, metadata=metadata)


@dataclasses.dataclass(frozen=True)
class ExperimentConfig:
    """Everything that decides a run's numbers.

    A setting whose default here is None depends on the data set; `resolve` fills it
    in, and everything below takes resolved settings.
    """

    dataset: str = _setting(
        "digits",
        "digits | mnist | fashion_mnist | emnist | cifar10 | cifar100 | femnist | "
        "npz | adult | store (clients on disk, by experiments.build_store) | tfds:NAME",
    )
    data_dir: str | None = _setting(
        None, "Folder with the standard files of the data set (digits needs none)."
    )
    model: str = _setting(
        None,
        "Model; the default depends on the data set.",
        choices=(
            "mlp",
            "small_cnn",
            "paper_cnn",
            "leaf_cnn",
            "resnet18",
            "resnet18_gn",
            "vit",
        ),
    )
    mechanism: str = _setting("fedsva", "Noise mechanism (the list stands below).")
    epsilon: float = _setting(
        0.5, "Privacy budget of one upload.", low=0, open_interval=True
    )
    delta: float = _setting(
        None,
        "Failure probability of one upload. Default: 1/batch_size, as published.",
        low=0,
        high=1,
        open_interval=True,
    )
    target_delta: float = _setting(
        1e-5,
        "Delta at which RDP and PLD report the epsilon spent.",
        low=0,
        high=1,
        open_interval=True,
    )
    l2_norm_clip: float = _setting(
        None,
        "C: bound on the norm that --sensitivity names. FedAvg (mechanism none) clips "
        "its gradients too, unless C is inf.",
        low=0,
        open_interval=True,
        infinite=True,
    )
    sensitivity: str = _setting(
        "paper",
        "What C clips, hence the sensitivity that scales the noise. paper: the "
        "batch-mean gradient at every step, 2C/|D| (nominal, not proved); "
        "weight_clip: the uploaded weights too, 2C; update_clip: the update too, C "
        "(add or remove the client) or 2C (replace); per_example: every example's "
        "gradient, DP-SGD in the client.",
        choices=("paper", "weight_clip", "update_clip", "per_example"),
    )
    relation: str = _setting(
        "replace_one",
        "Neighbouring relation of update_clip and dp_fedavg: replace_one or "
        "add_remove (a whole client).",
        choices=("replace_one", "add_remove"),
    )
    calibration: str = _setting(
        "classical",
        "Gaussian noise for (epsilon, delta): classical (as published, proved for "
        "epsilon < 1) or analytic (Balle and Wang 2018).",
        choices=("classical", "analytic"),
    )
    allow_large_epsilon: bool = _setting(
        False, "Let the classical calibration run at epsilon >= 1, without a proof."
    )
    noise_floor: float = _setting(
        0.1,
        "beta of FedSVA/FedSDP: least value of T. No published value.",
        low=0,
        open_interval=True,
    )
    num_attributes: int = _setting(
        2, "N: attributes of the Shapley game.", low=1, high=6
    )
    attributes: str = _setting(
        "class",
        "What an attribute is: class (groups of classes), column:NAME (a column of "
        "the data set, adult's sex or race), or writer_groups.",
    )
    private_attribute: int = _setting(
        None,
        "The private class (attributes=class), category of the column, or group.",
        low=0,
    )
    empty_utility: str = _setting(
        "zero",
        "Utility of the empty coalition: zero (public code) or initial (accuracy "
        "of the broadcast model).",
        choices=("zero", "initial"),
    )
    contribution_release: str = _setting(
        "none",
        "How R may reach the noise: none (the paper), worst_case (R = 1), laplace "
        "or randomized_response (R released by a DP mechanism of its own).",
        choices=("none", "worst_case", "laplace", "randomized_response"),
    )
    release_epsilon: float = _setting(
        0.1,
        "Budget of one release of R (laplace, randomized_response).",
        low=0,
        open_interval=True,
    )
    num_clients: int = _setting(None, "M: clients of the federation.", low=1)
    num_hbc_clients: int = _setting(
        None, "Honest-but-curious clients, which hold no private data.", low=0
    )
    cohort_size: int = _setting(None, "K: clients a round.", low=1)
    num_rounds: int = _setting(50, "T: rounds.", low=1)
    local_epochs: int = _setting(2, "E: local epochs a round.", low=1)
    batch_size: int = _setting(None, "B: local batch size.", low=1)
    learning_rate: float = _setting(
        None, "Step size of plain SGD.", low=0, open_interval=True
    )
    partition: str = _setting(
        None,
        "Who holds what. paper: every client draws --class_share of each class, "
        "overlapping.",
        choices=("iid", "paper", "shards", "dirichlet", "by_writer"),
    )
    class_share: float = _setting(
        None, "Share of each class a client draws (partition=paper).", low=0, high=1
    )
    dirichlet_alpha: float = _setting(
        0.5,
        "Concentration (partition=dirichlet).",
        low=0,
        open_interval=True,
    )
    shards_per_client: int = _setting(2, "Shards a client (partition=shards).", low=1)
    train_fraction: float = _setting(
        0.8,
        "Part of a client's data it trains on; the rest validates.",
        low=0,
        high=1,
        open_interval=True,
    )
    augment: bool = _setting(None, "Random crop and flip of training images.")
    weighting: str = _setting(
        "examples",
        "Average of uploads: examples (n_i/n) or uniform (the public code).",
        choices=("examples", "uniform"),
    )
    proximal_weight: float = _setting(
        0.0, "mu of the proximal term mu/2 ||w - w_prev||^2.", low=0
    )
    exposures: float = _setting(
        1.0,
        "L of nbafl: uploads of one client that epsilon must cover.",
        low=0,
        open_interval=True,
    )
    downlink_noise: bool = _setting(False, "Add nbafl's noise at the server too.")
    clip_weights: bool = _setting(
        False, "Clip nbafl's uploaded weights to C as one vector."
    )
    decay: float = _setting(
        0.995,
        "theta of time_varying: factor of the noise from round to round.",
        low=0,
        open_interval=True,
    )
    norm_mix: float = _setting(
        0.5, "gamma of sensitivity: weight of the local norm.", low=0, high=1
    )
    contraction: float = _setting(
        0.98, "c of dpa: contraction of the error a round.", low=0, open_interval=True
    )
    noise_multiplier: float = _setting(
        1.0, "z of dp_fedavg: std over clip of the cohort's sum.", low=0
    )
    adaptive_clip: bool = _setting(
        False, "Adapt dp_fedavg's clip to a quantile (Andrew et al. 2021)."
    )
    clip_quantile: float = _setting(
        0.5,
        "Share of updates that the adaptive clip leaves whole.",
        low=0,
        high=1,
        open_interval=True,
    )
    clip_learning_rate: float = _setting(
        0.2, "Step size of the adaptive clip.", low=0, open_interval=True
    )
    count_noise_std: float = _setting(
        0.5,
        "Std on the count that steers the adaptive clip.",
        low=0,
        open_interval=True,
    )
    noise_std: float = _setting(0.01, "Std of the mechanism gaussian.", low=0)
    total_epsilon: float | None = _setting(
        None,
        "A promise: no client's epsilon over the run exceeds it. Clients whose next "
        "upload would exceed it are not asked; the run stops when none is left.",
        low=0,
        open_interval=True,
    )
    total_accounting: str = _setting(
        "rdp",
        "How --total_epsilon is counted.",
        choices=("basic", "rdp", "pld"),
    )
    corruption: str = _setting(
        "random_labels",
        "What is wrong with a corrupted participant's examples: random labels "
        "(published), labels of the next class, noisy images, images under a grey "
        "square, or all labels of one class.",
        choices=(
            "random_labels",
            "flipped_pairs",
            "noisy_images",
            "occluded_images",
            "one_class",
        ),
    )
    corrupted_share: float = _setting(
        0.0, "Share of the participants (clients) that are corrupted.", low=0, high=1
    )
    corrupted_points: float = _setting(
        0.9, "Share of a corrupted participant's examples.", low=0, high=1
    )
    influence_filter: str = _setting(
        "none",
        "Lazy-influence filter of clients: none, join (before the first round) or "
        "every_k (before rounds 1, K + 1, ..., by --influence_every).",
        choices=("none", "join", "every_k"),
    )
    influence_every: int = _setting(
        10, "K: rounds between two passes of influence_filter=every_k.", low=1
    )
    warmup_examples: int = _setting(
        None,
        "Training examples of the centre, which no participant holds (filter).",
        low=2,
    )
    backbone_epochs: int = _setting(
        20,
        "Epochs of the whole model on the centre's examples, before the first pass "
        "(filter).",
        low=0,
    )
    warmup_epochs: int = _setting(
        10, "Steps of the centre's last layer on its examples (filter).", low=0
    )
    contributor_examples: int = _setting(
        None, "Most examples that a contributor's batch holds (filter).", low=1
    )
    tester_examples: int = _setting(
        None, "Most examples that a tester votes with (filter).", low=1
    )
    influence_epochs: int = _setting(
        5,
        "Steps of a contributor's last layer, each on its whole batch (filter).",
        low=1,
    )
    influence_learning_rate: float = _setting(
        5.0,
        "Step size of the last layer, on features of length 1 (filter).",
        low=0,
        open_interval=True,
    )
    influence_clip: float = _setting(
        2.0,
        "Bound on the norm of a contributed last layer's update (filter).",
        low=0,
        open_interval=True,
    )
    contribution_noise: float = _setting(
        0.1, "Std of a contribution's Gaussian noise over influence_clip.", low=0
    )
    vote_epsilon: float = _setting(
        None,
        "Published price of a vote, 2 ln((1 - f/2)/(f/2)); the exact one is half. inf "
        "tells the votes as they are (filter).",
        low=0,
        open_interval=True,
        infinite=True,
    )
    minimum_gap: float = _setting(
        0.25,
        "Share of the distance between unanimous opposite votes that must lie between "
        "the clusters, beyond what the votes' noise alone makes; 0: no minimum, as "
        "published (filter).",
        low=0,
        high=1,
    )
    seed: int = _setting(0, "Seed of everything: data, cohorts, noise.", low=0)
    client_chunk_size: int = _setting(
        None,
        "Clients that train side by side in one vmapped product; 1 maps them one by "
        "one. Another size may change the last bits.",
        low=1,
    )
    eval_every: int = _setting(1, "Rounds between evaluations on the test set.", low=1)
    max_test_examples: int | None = _setting(
        None,
        "Evaluate on so many test examples, evenly spaced in the test set; all of "
        "them by default.",
        low=1,
    )
    eval_batch_size: int = _setting(
        250, "Examples in one evaluation batch.", low=1, high=100_000
    )

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check(field, getattr(self, field.name))


_LARGEST_INT = 2**31 - 1
_LARGEST_FLOAT, _LEAST_FLOAT = 3.4e38, 1.2e-38  # float32's normal numbers


def _check(field: dataclasses.Field, value: Any) -> None:
    if value is None:
        return
    meta = field.metadata
    if meta["choices"] is not None and value not in meta["choices"]:
        near = difflib.get_close_matches(str(value), meta["choices"], n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        allowed = ", ".join(meta["choices"])
        raise ValueError(f"{field.name} must be one of {allowed}, got {value!r}{hint}")
    low, high = meta["low"], meta["high"]
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    largest = _LARGEST_INT if field.type is int else _LARGEST_FLOAT
    if largest < value < math.inf or 0 < value < _LEAST_FLOAT:
        raise ValueError(
            f"{field.name} must fit the device's 32 bits, {_LEAST_FLOAT} to {largest}, "
            f"got {value}"
        )
    too_low = low is not None and (value <= low if meta["open"] else value < low)
    too_high = high is not None and (value >= high if meta["open"] else value > high)
    finite = math.isfinite(value) or (value == math.inf and meta["infinite"])
    if too_low or too_high or not finite:
        less = "<" if meta["open"] else "<="
        limits = [f"{low} {less} " if low is not None else "", field.name]
        limits += [f" {less} {high}" if high is not None else ""]
        raise ValueError(f"{''.join(limits)} must hold, got {value}")


_COMMON = {
    "num_clients": 100,
    "num_hbc_clients": 10,
    "cohort_size": 10,
    "batch_size": 50,
    "learning_rate": 0.1,
    "l2_norm_clip": 20.0,
    "partition": "paper",
    "class_share": 0.05,
    "private_attribute": 5,
    "augment": False,
    "warmup_examples": 500,
    "contributor_examples": 100,
    "tester_examples": 50,
    "vote_epsilon": 1.0,
}
_DEFAULTS: dict[str, dict[str, Any]] = {
    "digits": {
        "model": "small_cnn",
        "num_clients": 30,
        "num_hbc_clients": 3,
        "batch_size": 10,
        "class_share": 0.1,
        "l2_norm_clip": 1.0,
        "warmup_examples": 100,
        "contributor_examples": 56,
        "tester_examples": 28,
        "vote_epsilon": math.inf,
    },
    "mnist": {"model": "leaf_cnn", "warmup_examples": 600},
    "fashion_mnist": {"model": "leaf_cnn", "warmup_examples": 600},
    "emnist": {"model": "paper_cnn"},
    "femnist": {"model": "leaf_cnn", "partition": "by_writer"},
    "cifar10": {"model": "resnet18", "augment": True},
    "cifar100": {"model": "resnet18", "augment": True},
    "adult": {
        "model": "mlp",
        "partition": "iid",
        "private_attribute": 0,
        "l2_norm_clip": 1.0,  # at the papers' 20 and |D| = 260, σ = .9 at ε = .5
    },
    "npz": {"model": "mlp", "private_attribute": 0},
    "store": {"model": "mlp", "partition": "by_writer", "private_attribute": 0},
    "tfds": {"model": "small_cnn", "private_attribute": 0},
}


def resolve(config: ExperimentConfig) -> ExperimentConfig:
    """Fills the data set's defaults in and checks the settings as a whole.

    Raises:
      ValueError: in one sentence that names the setting, its value and what is
        allowed.
    """
    family = config.dataset.split(":")[0]
    if family not in _DEFAULTS:
        near = difflib.get_close_matches(family, _DEFAULTS, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"dataset must be one of {', '.join(_DEFAULTS)} (tfds:NAME), got "
            f"{config.dataset!r}{hint}"
        )
    defaults = {**_COMMON, **_DEFAULTS[family]}
    unset = {
        name: value for name, value in defaults.items() if getattr(config, name) is None
    }
    config = dataclasses.replace(config, **unset)
    filled: dict[str, Any] = {}
    if config.delta is None:
        filled["delta"] = 1.0 / max(config.batch_size, 2)
    if config.client_chunk_size is None:
        filled["client_chunk_size"] = default_chunk_size(config)
    config = dataclasses.replace(config, **filled)
    if config.cohort_size > config.num_clients:
        raise ValueError(
            f"cohort_size must be at most num_clients = {config.num_clients}, got "
            f"{config.cohort_size}"
        )
    if config.num_hbc_clients > config.num_clients:
        raise ValueError(
            f"num_hbc_clients must be at most num_clients = {config.num_clients}, "
            f"got {config.num_hbc_clients}"
        )
    names = mechanisms.mechanism_names()
    if config.mechanism not in names:
        near = difflib.get_close_matches(config.mechanism, names, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(
            f"mechanism must be one of {', '.join(names)}, got "
            f"{config.mechanism!r}{hint}"
        )
    if math.isinf(config.l2_norm_clip) and config.mechanism != "none":
        raise ValueError(
            f"l2_norm_clip must be finite for mechanism {config.mechanism}, got inf"
        )
    return config


def default_chunk_size(config: ExperimentConfig) -> int:
    """Clients side by side: all of them for small models, one for large ones.

    One as well where clients differ in size: side by side they would all take the
    steps of the largest. Measured on 2 CPU cores (BUILD_NOTES.md); a GPU wants the
    whole cohort.
    """
    import jax

    small = config.model in ("mlp", "small_cnn")
    even = config.partition in ("iid", "paper", "shards")
    on_gpu = jax.default_backend() == "gpu"
    return config.cohort_size if on_gpu or (small and even) else 1
