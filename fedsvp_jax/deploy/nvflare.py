"""NVIDIA FLARE: a filter that makes a client's results private (the extra `nvflare`).

A result leaves with the noised arrays and the number of training examples, nothing
else: a metric that the training reports would leave without noise. A result that the
filter refuses becomes an error.
"""

import pathlib
from typing import Any

try:
    from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
    from nvflare.apis.filter import Filter
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable, make_reply
    from nvflare.app_common.app_constant import AppConstants
except ImportError as error:
    raise ImportError(
        "fedsvp_jax.deploy.nvflare needs nvflare: pip install 'fedsvp_jax[nvflare]'"
    ) from error

import numpy as np

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.deploy.policy import make_policy
from fedsvp_jax.deploy.privatize import Trained, answer
from fedsvp_jax.deploy.randomness import SECRET, Randomness
from fedsvp_jax.deploy.refusal import Refused, refusing
from fedsvp_jax.deploy.state import StateFile


class PrivacyFilter(Filter):
    """Clips, noises and counts a client's result, a WEIGHT_DIFF of named arrays.

    The result's meta tells the number of training examples (NUM_STEPS_CURRENT_ROUND)
    and, where the noise follows R, `contribution-ratio`. The state is in
    `folder`/SITE.json. NVFlare writes a filter's arguments into the job as JSON, so
    they are plain values.

    Args:
      settings: fields of `ExperimentConfig`, as of a simulation.
      min_num_examples: as in `make_policy`, which all clients agree on.
      folder: of the state file; it must outlive the job.

    Raises:
      ValueError: as `make_policy`; `attribute_records` or `weight_clip`, which need
        more than the update.
    """

    def __init__(
        self, settings: dict[str, Any], min_num_examples: float, folder: str
    ) -> None:
        super().__init__()
        # NVFlare reads the arguments back from attributes of these names.
        self.settings, self.folder = settings, folder
        self.min_num_examples = min_num_examples
        self._policy = make_policy(
            ExperimentConfig(**settings), min_num_examples=min_num_examples
        )
        self._policy.check_takes_updates(with_model=False)

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """The result that leaves, or an error."""
        if shareable.get_return_code() != ReturnCode.OK:
            return make_reply(shareable.get_return_code())
        try:
            with refusing():
                return self._private(shareable, str(fl_ctx.get_identity_name()))
        except Refused as refusal:
            headers = {"refused": str(refusal)}
            return make_reply(ReturnCode.TASK_RESULT_FILTER_ERROR, headers)

    def randomness(self, site: str) -> Randomness:
        """Of the client's noise: `SECRET`; tests bring another."""
        del site
        return SECRET

    def _private(self, shareable: Shareable, site: str) -> Shareable:
        result: DXO = from_shareable(shareable)
        if result.data_kind != DataKind.WEIGHT_DIFF:
            raise Refused(f"a result must be WEIGHT_DIFF, got {result.data_kind}")
        update = [np.asarray(leaf) for leaf in result.data.values()]
        zeros = [np.zeros_like(leaf) for leaf in update]
        num_examples = int(result.meta[MetaKey.NUM_STEPS_CURRENT_ROUND])
        ratio = result.meta.get("contribution-ratio")
        upload, _ = answer(
            StateFile(pathlib.Path(self.folder) / f"{site}.json", self._policy),
            zeros,
            lambda: Trained(zeros, update, num_examples, ratio),
            round_num=int(shareable.get_header(AppConstants.CURRENT_ROUND)) + 1,
            randomness=self.randomness(site),
        )
        private = DXO(
            DataKind.WEIGHT_DIFF,
            dict(zip(result.data, upload, strict=True)),
            {MetaKey.NUM_STEPS_CURRENT_ROUND: num_examples},
        ).to_shareable()
        for name in (AppConstants.CURRENT_ROUND, AppConstants.START_ROUND):
            private.set_header(name, shareable.get_header(name))
        return private
