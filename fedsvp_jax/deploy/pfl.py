"""pfl-research: a postprocessor that makes users' statistics private (the extra `pfl`).

It takes the place of pfl's LocalPrivacyMechanism. It is none, since `privatize`,
`constrain_sensitivity` and `add_noise` are told neither whose statistics they get nor
in which round, so they could not count them or refuse.
"""

from collections.abc import Callable

import numpy as np

try:
    from pfl.context import CentralContext, UserContext
    from pfl.internal.ops.selector import get_default_framework_module as get_ops
    from pfl.metrics import Metrics
    from pfl.postprocessor.base import Postprocessor
    from pfl.stats import WeightedStatistics
except ImportError as error:
    raise ImportError(
        "fedsvp_jax.deploy.pfl needs pfl: pip install 'fedsvp_jax[pfl]', then "
        "pip install --no-deps pfl"
    ) from error

from .answer import Trained, answer
from .refusal import Refused, refusing
from .site import Site


class LocalPrivacy(Postprocessor):
    """Clips, noises and counts the statistics of every user.

    It stands behind the weighting among the backend's `postprocessors`, whose weight
    does not leave: what a user counts in the average is the number of training examples
    that its log declares, which is public. The statistics of a user who refuses become
    zeros of weight 0: they are left out of the average.

    pfl simulates: a user has trained before any postprocessor is called, so a training
    that raises ends the simulation and is not counted. Metrics of the users' own, such
    as a loss, are pfl's matter: they leave without noise.

    Args:
      site_of: the log of a user by its id, begun once, as by `fedsvp site init`. What
        is promised stands there; users may promise different things.
      contribution: R of a user, where the noise follows it.
      first_round: number of the first round that the run has, from 1; of a run that
        goes on, the first that the users have not answered.

    A user whose policy is `attribute_records` or `weight_clip`, which need more than
    the update, refuses.
    """

    def __init__(
        self,
        site_of: Callable[[str], Site],
        *,
        contribution: Callable[[UserContext], float | None] = lambda user: None,
        first_round: int = 1,
    ) -> None:
        self._site_of, self._contribution = site_of, contribution
        self._round = first_round

    def postprocess_one_user(
        self, *, stats: WeightedStatistics, user_context: UserContext
    ) -> tuple[WeightedStatistics, Metrics]:
        """The statistics as they leave the user, and no metric."""
        ops = get_ops()
        own_weight, (_, sums) = np.float32(stats.weight), stats.get_weights()
        with np.errstate(divide="ignore", invalid="ignore"):  # of a weight 0
            update = [np.asarray(ops.to_numpy(leaf)) / own_weight for leaf in sums]
        zeros = [*map(np.zeros_like, update)]
        try:
            with refusing():
                if user_context.user_id is None:
                    raise Refused("pfl's users must have ids: each has its own log")
                site = self._site_of(user_context.user_id)
                site.policy.check_takes_updates(with_model=False)
                upload, record = answer(
                    site,
                    zeros,
                    lambda: Trained(update, self._contribution(user_context)),
                    round_num=self._round,
                )
                weight = record["num_examples"]  # which the log declares
        except Refused:
            upload, weight = zeros, 0
        private = stats.from_weights(
            ops.to_tensor([float(weight)]),
            [ops.to_tensor(leaf * np.float32(weight)) for leaf in upload],
        )
        return private, Metrics()

    def postprocess_server(
        self,
        *,
        stats: WeightedStatistics,
        central_context: CentralContext,
        aggregate_metrics: Metrics,
    ) -> tuple[WeightedStatistics, Metrics]:
        """The sum as it is; the next round begins.

        Raises:
          Refused: every user of the cohort refused, so there is nothing to average.
        """
        if not stats.weight:
            raise Refused(
                f"every user of round {self._round} refused; the log says why"
            )
        self._round += 1
        return stats, Metrics()
