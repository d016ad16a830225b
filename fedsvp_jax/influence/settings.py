"""Settings of the lazy-influence filter, and of the corruption that it is to find."""

import dataclasses
from functools import partial

from fedsvp_jax.core.settings import LEAST_CLIP, Settings, setting

_of_filter = partial(setting, needs="influence_filter=join")


@dataclasses.dataclass(frozen=True)
class FilterSettings(Settings):
    """Influence filter: private votes on who may take part."""

    influence_filter: str = setting(
        "none",
        "Lazy-influence filter of clients: none, or join (before the first round).",
        choices=("none", "join"),
    )
    warmup_examples: int | None = _of_filter(
        None,
        "Training examples of the centre, which no client holds. "
        "Default: 500 (digits: 100, MNIST: 600).",
        at_least=2,
    )
    backbone_epochs: int = _of_filter(
        20,
        "Epochs of the whole model on the centre's examples, before the first pass.",
        at_least=0,
    )
    warmup_epochs: int = _of_filter(
        10, "Steps of the centre's last layer on its examples.", at_least=0
    )
    contributor_examples: int | None = _of_filter(
        None,
        "Most examples in a contributor's batch. Default: 100 (digits: 56).",
        at_least=1,
    )
    tester_examples: int | None = _of_filter(
        None,
        "Most examples that a tester votes with. Default: 50 (digits: 28).",
        at_least=1,
    )
    influence_epochs: int = _of_filter(
        5, "Steps of a contributor's last layer, each on its whole batch.", at_least=1
    )
    influence_learning_rate: float = _of_filter(
        5.0, "Learning rate of the last layer (mean squared feature norm 1).", above=0
    )
    influence_clip: float = _of_filter(
        2.0,
        "Bound on the norm of a contributed last layer's update.",
        at_least=LEAST_CLIP,
    )
    contribution_noise: float = _of_filter(
        0.1,
        "Std of a contribution's Gaussian noise divided by --influence_clip.",
        at_least=0,
    )
    vote_epsilon: float | None = _of_filter(
        None,
        "Budget ε of one vote as defined in the paper, "
        "2 ln((1 - f/2)/(f/2)); the tight value is half of it. At most 20, above which "
        "float32's draws would never flip a vote, or inf: no randomisation. Default: 1 "
        "(digits: inf).",
        above=0,
        at_most=20,
        infinite=True,
    )
    minimum_gap: float = _of_filter(
        0.25,
        "Reject nobody unless the two clusters of votes are at least "
        "this share of the largest possible gap apart, beyond what the votes' noise "
        "explains; 0 reproduces the paper.",
        at_least=0,
        at_most=1,
    )


@dataclasses.dataclass(frozen=True)
class CorruptionSettings(Settings):
    """Corruption: clients whose data are bad."""

    corruption: str = setting(
        "random_labels",
        "What is wrong with a corrupted client's examples: random_labels (as "
        "published), flipped_pairs (labels of the next class), or one_class (all "
        "labels the same).",
        choices=("random_labels", "flipped_pairs", "one_class"),
        needs="corrupted_share",
    )
    corrupted_share: float = setting(
        0.0, "Share of the clients that are corrupted.", at_least=0, at_most=1
    )
    corrupted_points: float = setting(
        0.9,
        "Share of a corrupted client's examples that are bad.",
        at_least=0,
        at_most=1,
        needs="corrupted_share",
    )
