"""The settings of the influence filter."""

from typing import Protocol


class FilterSettings(Protocol):
    """What the filter reads of an experiment's settings."""

    @property
    def influence_filter(self) -> str:
        """When the filter runs: none, join or every_k."""

    @property
    def influence_every(self) -> int:
        """Rounds between two passes of every_k."""

    @property
    def warmup_examples(self) -> int:
        """Examples of the centre."""

    @property
    def backbone_epochs(self) -> int:
        """Epochs of the whole model on the centre's examples."""

    @property
    def warmup_epochs(self) -> int:
        """Steps of the centre's last layer."""

    @property
    def contributor_examples(self) -> int:
        """Most examples in a contributor's batch."""

    @property
    def tester_examples(self) -> int:
        """Most examples that a tester votes with."""

    @property
    def influence_epochs(self) -> int:
        """Steps of a contributor's last layer."""

    @property
    def influence_learning_rate(self) -> float:
        """Step size of the last layer."""

    @property
    def influence_clip(self) -> float:
        """C, the bound on a contributed update's L2 norm."""

    @property
    def contribution_noise(self) -> float:
        """z, the std of a contribution's Gaussian noise divided by C."""

    @property
    def vote_epsilon(self) -> float:
        """Published ε of one vote; inf where votes are not randomised."""

    @property
    def minimum_gap(self) -> float:
        """Share of `threshold.required_gap`; 0 sets no minimum."""
