"""Settings of the lazy-influence filter."""

import dataclasses

from fedsvp_jax.core.settings import LEAST_CLIP, Settings, setting

_FILTERED = "influence_filter=join"


@dataclasses.dataclass(frozen=True)
class FilterSettings(Settings):
    """Influence filter: private votes on who may take part."""

    influence_filter: str = setting(
        "none",
        "Lazy-influence filter of clients: none, or join (before the first round).",
        choices=("none", "join"),
    )
    warmup_examples: int | None = setting(
        None,
        "Training examples of the centre, which no client holds. "
        "Default: 500 (digits: 100, MNIST: 600).",
        at_least=2,
        needs=_FILTERED,
    )
    backbone_epochs: int = setting(
        20,
        "Epochs of the whole model on the centre's examples, before the first pass.",
        at_least=0,
        needs=_FILTERED,
    )
    warmup_epochs: int = setting(
        10,
        "Steps of the centre's last layer on its examples.",
        at_least=0,
        needs=_FILTERED,
    )
    contributor_examples: int | None = setting(
        None,
        "Most examples in a contributor's batch. Default: 100 (digits: 56).",
        at_least=1,
        needs=_FILTERED,
    )
    tester_examples: int | None = setting(
        None,
        "Most examples that a tester votes with. Default: 50 (digits: 28).",
        at_least=1,
        needs=_FILTERED,
    )
    influence_epochs: int = setting(
        5,
        "Steps of a contributor's last layer, each on its whole batch.",
        at_least=1,
        needs=_FILTERED,
    )
    influence_learning_rate: float = setting(
        5.0,
        "Learning rate of the last layer (features are L2-normalised).",
        above=0,
        needs=_FILTERED,
    )
    influence_clip: float = setting(
        2.0,
        "Bound on the norm of a contributed last layer's update.",
        at_least=LEAST_CLIP,
        needs=_FILTERED,
    )
    contribution_noise: float = setting(
        0.1,
        "Std of a contribution's Gaussian noise divided by --influence_clip.",
        at_least=0,
        needs=_FILTERED,
    )
    vote_epsilon: float | None = setting(
        None,
        "Budget ε of one vote as defined in the paper, "
        "2 ln((1 - f/2)/(f/2)); the tight value is half of it. At most 20, above which "
        "float32's draws would never flip a vote, or inf: no randomisation. Default: 1 "
        "(digits: inf).",
        above=0,
        at_most=20,
        infinite=True,
        needs=_FILTERED,
    )
    minimum_gap: float = setting(
        0.25,
        "Reject nobody unless the two clusters of votes are at least "
        "this share of the largest possible gap apart, beyond what the votes' noise "
        "explains; 0 reproduces the paper.",
        at_least=0,
        at_most=1,
        needs=_FILTERED,
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
