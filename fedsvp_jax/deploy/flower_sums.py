"""Flower's SecAgg+ around a site whose noise only the cohort's sum has enough of.

The policy has `--noise_trust=secure_aggregation --noise_sampler=discrete`: a client
adds its share of the noise in whole numbers, and Flower masks them. Flower's
quantisation is set so that whole numbers pass unchanged: the range [-2^(b-1), 2^(b-1))
in 2^b steps, one weight for all. The server gets their sum, exactly.

Three things of Flower 1.41 and 1.42 are changed. Its masks come from 32 bits of the
key, by XOR, through a Mersenne Twister: a computer tries them all. Here they are
SHAKE-256 of the whole key. Its round ends where a client dies before it shared its
keys; here the others go on. Its client answers a server that asks for both secrets of
another client; here it refuses.

What is left: a server that invents clients, or changes the keys that it hands on, is
not noticed. The claim is against one that follows the protocol.
"""

import hashlib
import io
import logging
import pathlib
import sys
import time
import types
from collections.abc import Callable
from typing import Any

import flwr.app as fl
import jax.numpy as jnp
import numpy as np
from flwr.client.mod import secaggplus_mod
from flwr.common import (
    Code,
    FitRes,
    Status,
    ndarrays_to_parameters,
    parameters_to_ndarrays,
)
from flwr.compat.common import recorddict_compat as compat
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow

from fedsvp_jax.core.files import Record, replace_file
from fedsvp_jax.core.optimizers import averages, server_optimizer
from fedsvp_jax.mechanisms.grid import grid_step
from fedsvp_jax.models.aggregation import optimizer_step

from .answer import Arrays, Trained, answer
from .flower import replied
from .noise import in_shapes_of
from .policy import MODULUS, Policy
from .refusal import Refused
from .site import Site

# Their packages hide these modules behind functions of the same names.
client_side: Any = sys.modules[secaggplus_mod.__module__]
server_side: Any = sys.modules[SecAggPlusWorkflow.__module__]
_log = logging.getLogger(__name__)
_WAITING = """\
no other site came within a minute: flwr supernode list shows which nodes are online, \
and the console of each that is not says why; this waits on, until flwr stop NUMBER \
(of flwr list) ends it"""
_CONFIGS, _STATE = client_side.RECORD_KEY_CONFIGS, client_side.RECORD_KEY_STATE


class NoSumError(RuntimeError):
    """The sentence with which a run ends for want of a sum.

    Flower logs an error's traceback, whose forty lines tell a coordinator nothing: this
    one has none, though `contextlib` sets it.
    """

    __traceback__ = property(lambda _: None, lambda *_: None)


class SumMod:
    """A mod for Flower's SecAgg+: `ClientApp(mods=[SumMod(site, train)])`.

    Args:
      site: whose policy is `summed`.
      train: `(received, round) -> Trained`; it is called once the keys are shared.
    """

    def __init__(self, site: Site, train: Callable[[Arrays, int], Trained]) -> None:
        self.site, self._train = site, train
        _mask_with_whole_keys()

    def __call__(
        self, message: fl.Message, context: fl.Context, call_next: Any
    ) -> fl.Message:
        """The protocol's reply, masked where it holds an update; or an error."""

        def reply() -> fl.Message:
            self._check(message.content.config_records.get(_CONFIGS), context)
            return client_side.secaggplus_mod(message, context, self._upload)

        return replied(message, reply)

    def _check(self, request: Any, context: fl.Context) -> None:
        """Raises Refused: a request under which the sum would show too much."""
        if request is None:
            raise Refused("this client answers within secure aggregation alone")
        policy, stage = self.site.policy, request.get("stage")
        settings, cohort = policy.protocol, policy.config.cohort_size
        threshold = settings["reconstruction_threshold"]
        if stage == "setup":
            self._check_agreement(request)
            count = request.get("sample_num")
            if not threshold <= count <= cohort:
                raise Refused(
                    f"sample_num must be {threshold} to {cohort} clients, got {count}"
                )
            expected = {
                "share_num": count,
                "threshold": threshold,
                "max_weight": settings["max_weight"],
                "clipping_range": settings["clipping_range"],
                "target_range": settings["quantization_range"],
                "mod_range": settings["modulus_range"],
            }
            if not expected.items() <= {**request}.items():
                raise Refused(f"the secure sum must have {expected}")
        if stage == "collect_masked_vectors" and len(request["ctxts"]) + 1 < threshold:
            raise Refused(f"fewer than {threshold} clients shared their keys")
        if stage == "unmask":
            active, dead = set(request["active_nids"]), set(request["dead_nids"])
            if len(active) < threshold:
                raise Refused(f"fewer than {threshold} clients are in the sum")
            if active & dead:
                raise Refused("a client is in the sum or dropped out, not both")
            state = context.state.config_records.get(_STATE, {})
            if not active | dead <= {*state.get("rd_seed_share_dict:K", [])}:
                raise Refused("the request names a client that shared no keys")

    def _check_agreement(self, request: Any) -> None:
        """Raises Refused: the server's is another; in a setup before anybody pays."""
        if request.get("agreement") != self.site.policy.agreement:
            raise Refused(
                "the server has other settings, another schema or another version of "
                "fedsvp_jax than this client agreed to"
            )

    def _upload(self, message: fl.Message, context: fl.Context) -> fl.Message:
        """The upload that the protocol masks: whole numbers, every weight being 1."""
        request = compat.recorddict_to_fitins(message.content, keep_input=True)
        received = parameters_to_ndarrays(request.parameters)
        self._check_agreement(request.config)
        round_num = int(request.config["server-round"])
        numbers, record = answer(
            self.site,
            received,
            lambda: self._train(received, round_num),
            round_num=round_num,
        )
        promise = self.site.policy.promise
        _log.warning(
            f"round {round_num} of {self.site.policy.last_round} is charged: ε = "
            f"{record['epsilon_spent'][promise.total_accounting]:.4g} of "
            f"{promise.total_epsilon}"
        )
        floats = ndarrays_to_parameters([leaf.astype(np.float64) for leaf in numbers])
        reply = FitRes(Status(Code.OK, ""), floats, 1, {})
        return fl.Message(compat.fitres_to_recorddict(reply, False), reply_to=message)


class SumWorkflow(SecAggPlusWorkflow):
    """Flower's workflow, which goes on where a client died before it shared its keys.

    Args:
      policy: of all sites.
      timeout: seconds to wait for the replies of a phase.
    """

    def __init__(self, policy: Policy, timeout: float | None = None) -> None:
        super().__init__(**policy.protocol, timeout=timeout)
        self._agreement = policy.agreement
        _mask_with_whole_keys()

    def setup_stage(self, grid: Any, context: Any, state: Any) -> bool:
        """As Flower's; its request says the agreement, which each client compares."""

        def send(messages: list[fl.Message], **options: Any) -> Any:
            for message in messages:
                message.content[_CONFIGS]["agreement"] = self._agreement
            return grid.send_and_receive(messages, **options)

        agreeing = types.SimpleNamespace(send_and_receive=send)
        return bool(super().setup_stage(agreeing, context, state))

    def share_keys_stage(self, grid: Any, context: Any, state: Any) -> bool:
        """As Flower's; clients that shared no keys are left out of the sum."""
        if not super().share_keys_stage(grid, context, state):
            return False
        shared = set(state.active_node_ids)
        state.sampled_node_ids = shared
        state.nid_to_neighbours = {
            node: state.nid_to_neighbours[node] & shared for node in shared
        }
        return True


class SumStrategy(FedAvg):  # type: ignore[misc]
    """The server: it adds the average of a cohort's updates to the model.

    Args:
      policy: of all sites.
      initial: the model before round 1.
      folder: where every round's sum is kept, so that a server goes on after those that
        were begun; a site answers each round once.

    Attributes:
      arrays: the model.
      last_round: the last that was begun, from 1; 0 before the first.
      num_sums: rounds that were opened.
      last_sum: the whole numbers that the clients of the last of them sent together.
      scores: of `policy.score_release`, once their sum is opened.
    """

    def __init__(
        self, policy: Policy, initial: Arrays, folder: pathlib.Path | None = None
    ) -> None:
        super().__init__(fraction_evaluate=0.0, on_fit_config_fn=self._begin)
        grid = policy.mechanism.grid
        assert grid is not None
        *_, info = policy.clip_and_noise(
            initial,
            {},
            key=None,
            num_examples=jnp.int32(policy.config.min_num_examples),
            contribution_ratio=jnp.float32(1),
            round_num=0,
            params=initial,
        )
        self._step = np.float32(grid_step(grid, info.noise_std))
        self.arrays: Arrays = initial
        self.last_sum: Arrays = []
        self.scores: Record | None = None
        self.num_sums = self.last_round = 0
        self._policy, settings = policy, policy.training
        self._is_open = False  # a round was begun, and its sum is not here yet
        self._optimizer, self._folder = None, folder
        if not averages(settings):
            self._optimizer = server_optimizer(settings).init(initial)
        for file in sorted(folder.glob("*.npz")) if folder else ():
            with np.load(file) as saved:
                self.last_round, (count, *numbers) = int(file.stem), saved.values()
            if count:
                self._move(int(count), numbers)

        self.initial_parameters = ndarrays_to_parameters(self.arrays)

    def num_fit_clients(self, num_available_clients: int) -> tuple[int, int]:
        """All that are there, at most K, and the least to wait for."""
        smallest = self._policy.protocol["reconstruction_threshold"]
        cohort = self._policy.config.cohort_size
        return min(max(num_available_clients, smallest), cohort), smallest

    def configure_fit(self, server_round: int, parameters: Any, manager: Any) -> Any:
        """Flower's, once enough sites are there; until then it prints how many are.

        Raises:
          NoSumError: the round before, of this server, opened no sum.
        """
        if self._is_open:
            raise NoSumError(
                f"round {self.last_round} opened no sum, though its sites may have "
                "spent it: nodes left, or refused (their own consoles say why). When "
                "they are in order, start again; the next round is played"
            )
        smallest, before, waited = self.num_fit_clients(0)[1], -1, 0
        while (present := manager.num_available()) < smallest:
            if present != before:
                waited = 0
                _log.warning(
                    f"waiting for sites: {present} of "
                    f"{self._policy.config.cohort_size} (at least {smallest})"
                )
            if waited == 60:
                _log.warning(_WAITING)
            before, waited = present, waited + 1
            time.sleep(1)
        return super().configure_fit(server_round, parameters, manager)

    def _begin(self, since_start: int) -> Record:
        """What a round's clients are told; the round counts from now on.

        Args:
          since_start: Flower's number of the round, from 1 after each start.
        """
        self._is_open = True
        self.last_round += 1
        _log.warning(
            f"round {self.last_round} of {self._policy.last_round} by the sites' logs "
            f"(by Flower's, {since_start} since its last start)"
        )
        self._keep(0, [])
        return {"server-round": self.last_round, "agreement": self._policy.agreement}

    def _keep(self, count: int, numbers: Arrays) -> None:
        if self._folder is not None:
            content = io.BytesIO()
            np.savez(content, count, *numbers)
            replace_file(self._folder / f"{self.last_round:04}.npz", content.getvalue())

    def aggregate_fit(self, server_round: int, results: Any, failures: Any) -> Any:
        """The model after a round, of the average that Flower's workflow says."""
        if not results:
            return None, {}
        count = len(results)
        numbers = [
            np.rint(np.float64(leaf) * count).astype(np.int64)
            for leaf in parameters_to_ndarrays(results[0][1].parameters)
        ]
        self._is_open = False
        self._keep(count, numbers)
        self._move(count, numbers)
        return ndarrays_to_parameters(self.arrays), {}

    def _move(self, count: int, numbers: Arrays) -> None:
        """Moves the model by the sum of so many clients, in the last round; or scores
        it, in the round after.
        """
        if self.last_round > self._policy.config.num_rounds:
            self.scores = self._policy.score_release.estimate_scores(numbers[0], count)
            return
        self.num_sums += 1
        self.last_sum = numbers
        unit = self._step / np.float32(count)
        average = [leaf.astype(np.float32) * unit for leaf in numbers]
        if self._policy.config.uploads_gradient:
            rate = self._policy.learning_rate(self.last_round)
            average = [-rate * leaf for leaf in average]
        step, self._optimizer = optimizer_step(
            average, self._optimizer, self._policy.training, anyone=jnp.bool_(True)
        )
        self.arrays = [
            old + np.asarray(leaf) for old, leaf in zip(self.arrays, step, strict=True)
        ]


def masks(
    seed: bytes, num_range: int, dimensions_list: list[tuple[int, ...]]
) -> list[np.ndarray]:
    """Uniform masks in [0, 2^32) by SHAKE-256 of the seed, in place of Flower's own.

    Raises:
      ValueError: another range.
    """
    if num_range != MODULUS:
        raise ValueError(f"the modulus must be 2^32, got {num_range}")
    like = [*map(np.empty, dimensions_list)]
    stream = hashlib.shake_256(seed).digest(4 * sum(leaf.size for leaf in like))
    return in_shapes_of(like, np.frombuffer(stream, "<u4").astype(np.int64))


def _mask_with_whole_keys() -> None:
    client_side.pseudo_rand_gen = server_side.pseudo_rand_gen = masks
