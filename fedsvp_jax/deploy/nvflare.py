"""NVIDIA FLARE: a filter that makes a client's results private (the extra `nvflare`).

A result leaves with the noised arrays and the number of training examples, nothing
else: a metric that the training reports would leave without noise. The filter stands
on both sides of the training. Before it, it charges the round or refuses the task, and
FLARE then answers with an error. Behind it, it makes the upload, of noise alone where
the result is an error or does not fit. FLARE asks no filter about an executor that
raises (ScriptRunner's returns its error): the server sees that it failed, and the round
counts.
"""

import functools
import pathlib
import urllib.parse

try:
    from nvflare.apis.dxo import DXO, DataKind, MetaKey, from_shareable
    from nvflare.apis.filter import Filter, FilterChainType, FilterContextKey
    from nvflare.apis.fl_constant import ReturnCode
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable, make_reply
    from nvflare.app_common.app_constant import AppConstants
except ImportError as error:
    raise ImportError(
        "fedsvp_jax.deploy.nvflare needs nvflare: pip install 'fedsvp_jax[nvflare]'"
    ) from error

import numpy as np

from .answer import Trained, begin_round, end_round
from .refusal import Refused, refusing
from .site import Site, fingerprint

_MODEL = "fedsvp_jax.model"  # of the task, in the context of one task


class PrivacyFilter(Filter):
    """Clips, noises and counts a client's result, a WEIGHT_DIFF of named arrays.

    It is added twice, as a filter of the task's data and of its result. The result's
    meta tells `contribution-ratio`, where the noise follows R. NVFlare writes a
    filter's arguments into the job as JSON, so they are plain values. What is promised
    stands in the site's log, and no job changes it; sites may promise different things.

    Args:
      folder: of the log SITE.json, begun once by `fedsvp site init`; it must outlive
        the job. The number of examples with which it was begun is what every result
        says.
      witness: a folder, as of `Site`.
      records: a file or folder at the site, with which the log was begun; read once in
        a filter's life.
    """

    def __init__(
        self, folder: str, witness: str | None = None, records: str | None = None
    ) -> None:
        super().__init__()
        # NVFlare reads the arguments back from attributes of these names.
        self.folder, self.witness, self.records = folder, witness, records

    @functools.cached_property
    def _data(self) -> str | None:
        return None if self.records is None else fingerprint(self.records)

    def site_of(self, site: str) -> Site:
        """A site's log.

        Raises:
          Refused: as `Site.read`.
          ValueError: its policy is `attribute_records` or `weight_clip`, which need
            more than the update.
        """
        name = urllib.parse.quote(site, safe="")
        log = pathlib.Path(self.folder) / f"{name}.json"
        opened = Site(log, witness=self.witness, data=self._data)
        opened.policy.check_takes_updates(with_model=False)
        return opened

    def process(self, shareable: Shareable, fl_ctx: FLContext) -> Shareable:
        """The task, charged, on its way in; the noised result on its way out.

        Raises:
          Refused: the task, which is then not trained on.
        """
        site = str(fl_ctx.get_identity_name())
        chain = self.get_prop(FilterContextKey.CHAIN_TYPE)
        if chain == FilterChainType.TASK_DATA_CHAIN:
            with refusing():
                model = from_shareable(shareable).data
                zeros = {name: np.zeros_like(leaf) for name, leaf in model.items()}
                index = int(shareable.get_header(AppConstants.CURRENT_ROUND))
                received = [*map(np.asarray, model.values())]
                begin_round(self.site_of(site), received, round_num=index + 1)
                fl_ctx.set_prop(_MODEL, (zeros, index), private=True, sticky=False)
            return shareable
        try:
            with refusing():
                return self._private(shareable, site, fl_ctx)
        except Refused as refusal:
            headers = {"refused": str(refusal)}
            return make_reply(ReturnCode.TASK_RESULT_FILTER_ERROR, headers)

    def _private(self, result: Shareable, site: str, fl_ctx: FLContext) -> Shareable:
        begun = fl_ctx.get_prop(_MODEL)
        if begun is None:
            raise Refused("PrivacyFilter must be a filter of the task's data too")
        zeros, round_index = begun
        upload, record = end_round(
            self.site_of(site),
            [*zeros.values()],
            lambda: _read_training(result, [*zeros]),
            round_num=round_index + 1,
        )
        private = DXO(
            DataKind.WEIGHT_DIFF,
            dict(zip(zeros, upload, strict=True)),
            {MetaKey.NUM_STEPS_CURRENT_ROUND: record["num_examples"]},
        ).to_shareable()
        private.set_header(AppConstants.CURRENT_ROUND, round_index)
        return private


def _read_training(shareable: Shareable, names: list[str]) -> Trained:
    """The training in a result; whatever it lacks raises."""
    if shareable.get_return_code() != ReturnCode.OK:
        raise ValueError(f"the training ended with {shareable.get_return_code()}")
    result: DXO = from_shareable(shareable)
    if result.data_kind != DataKind.WEIGHT_DIFF:
        raise ValueError(f"a result must be WEIGHT_DIFF, got {result.data_kind}")
    update = [np.asarray(result.data[name]) for name in names]
    return Trained(update, result.meta.get("contribution-ratio"))
