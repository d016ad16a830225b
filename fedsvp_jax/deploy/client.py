"""A ready client for models of this package: it estimates R, trains, and asks P.

What it computes is `ClientWork.prepare`, the simulator's own.
"""

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import claims
from fedsvp_jax.config import ResolvedConfig, check_resolved
from fedsvp_jax.core import prng
from fedsvp_jax.core.files import AnyPath
from fedsvp_jax.core.structs import Array, Model, Params
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.devices.target import current_target
from fedsvp_jax.federation import checks, federated_data
from fedsvp_jax.federation import plan as plans
from fedsvp_jax.federation.federated_data import FederatedData
from fedsvp_jax.round.client_work import query_gradient
from fedsvp_jax.round.state import LocalWork, Task, initial_state
from fedsvp_jax.run.trained_model import TrainedModel

from .answer import Answer, Trained, begin_round, end_round, result_of
from .noise import SECRET, Arrays, Randomness
from .policy import Policy, check_bought
from .refusal import Refused
from .site import Site, fingerprint
from .witness import Witness


def own_data(config: ResolvedConfig, dataset: Dataset) -> FederatedData:
    """A client's own records, divided into training and validation by position.

    Args:
      config: of the federation, resolved.
      dataset: the client's records alone; its test part may be anything.
    """
    check_resolved(config)
    single = dataclasses.replace(
        config,
        num_clients=1,
        cohort_size=1,
        num_hbc_clients=0,
        partition="iid",
        split="by_position",
    )
    return federated_data.federate([single], dataset)


def data_of(simulated: FederatedData, client_id: int) -> FederatedData:
    """The data of one client of a simulated federation, without any other client's."""
    split = cell_of(cell_of(simulated.split, 0), client_id)
    train = split.train[: int(split.num_train)]
    rows = jnp.append(train, split.validation[: int(split.num_validation)])
    places = jnp.arange(len(rows), dtype=jnp.int32)
    split = dataclasses.replace(
        split, train=places[: len(train)], validation=places[len(train) :]
    )
    return simulated._replace(
        examples=cell_of(simulated.examples, rows),
        split=jax.tree.map(lambda leaf: leaf[None, None], split),
        num_train=np.full((1, 1), len(train)),
    )


class Client:
    """Answers a server's requests with its own data, model and log.

    Args:
      policy: of `make_policy`, which all clients agree on; it says what they train.
      data: `own_data` or `data_of`.
      state_path: the client's log, which `begin` begins once.
      model: built by the settings' name when None.
      randomness: `SECRET`; `Seeded` for tests.
      witness: as of a `Site`, which is bound to the data.

    Raises:
      ValueError: a model with statistics (BatchNorm's), which would leave without
        noise; a claim about one record on data whose preprocessing follows the records;
        or a person as the unit of the data, whom the policy does not hide.
    """

    def __init__(
        self,
        policy: Policy,
        data: FederatedData,
        state_path: AnyPath,
        *,
        model: Model | None = None,
        randomness: Randomness = SECRET,
        witness: AnyPath | Witness | None = None,
    ) -> None:
        self.policy, config, target = policy, policy.training, current_target()
        by_name = plans.model_by_name(config, target, data.num_classes)
        if model is not None:  # whose author nobody checks, and a clip rests on it
            model = model._replace(gradient_scale=None)
        self._model = model or by_name(data.num_classes)
        split = cell_of(cell_of(data.split, 0), 0)
        self.num_examples = int(split.num_train)
        if data.from_records and (policy.is_query or policy.config.uploads_gradient):
            raise ValueError(
                f"{', '.join(data.from_records[:4])} were taken from the records, so "
                "that one record may change the features of all: declare them in a "
                "schema (`fedsvp schema`)"
            )
        check_bought(data.bought[0])
        checks.check_unit(config, policy.mechanism, data)
        rows = policy.config.rows_per_person
        if policy.config.uploads_gradient and rows != data.rows_per_person:
            raise ValueError(
                f"make_policy(rows_per_person={rows}) must say how many rows of a "
                f"person the data keep, {data.rows_per_person}"
            )
        attributes = np.asarray(data.examples.attributes)[
            np.asarray(split.train)[: self.num_examples]
        ]
        self._num_private = int((attributes == data.counts.attributes.private).sum())
        self.site = Site(
            state_path,
            policy,
            witness=witness,
            data=fingerprint(*map(np.asarray, jax.tree.leaves(data.examples))),
            randomness=randomness,
        )
        self._data = data
        shape = data.examples.inputs.shape[1:]
        self._settings = dataclasses.asdict(config) | {
            "example_shape": shape,
            "num_classes": data.num_classes,
        }
        if policy.summed:  # on a grid that all share; a lone upload has the finest
            checks.check_grid_of(
                policy.mechanism, config.num_rounds, self._model, data, ()
            )
        self._plan = plans.make_plan(
            config,
            policy.config,
            policy.mechanism,
            data,
            target,
            plans.choose_parallelism(config, target, self._model, shape),
            plans.choose_query_parts(
                policy.config, self._model, None if model else by_name, data
            ),
        )
        self._cell = cell_of(
            plans.make_cells(
                [config],
                data,
                [jax.tree.map(np.float32, policy.config)],
                [policy.allowance],
                [prng.run_keys(config.seed, None)],  # draws come from `randomness`
            ),
            0,
        )
        self._state = jax.jit(partial(initial_state, self._model, self._plan))(
            data.example, self._cell
        )
        if jax.tree.leaves(self._state.stats):
            raise ValueError(
                f"model {config.model} keeps statistics (BatchNorm's), which would "
                "leave a client without noise; take a model without, such as "
                "resnet18_gn"
            )
        self._tree: Any = jax.tree.structure(self._state.params)
        self._work = jax.jit(self._local_work)
        self._public = jax.jit(lambda *request: self._task(*request)[1].weights.params)

    @property
    def initial_arrays(self) -> Arrays:
        """The model before round 1, and zeros for the private query's answer."""
        params = jax.tree.leaves(self._state.params)
        return [*map(np.asarray, (*params, *self._state.answer))]

    def begin(self) -> None:
        """Begins the log, once in a client's life.

        Raises:
          FileExistsError, ValueError: as `Site.begin`.
        """
        self.site.begin(
            self._num_private if self.policy.is_query else self.num_examples
        )

    def answer(self, received: Arrays, round_num: int) -> Answer:
        """The upload of a round, counted on the disk, and the client's own record.

        Raises:
          Refused, OSError: as `begin_round` and `end_round`.
          ValueError: the policy is `summed`: `flower_sums` masks what may leave.
        """
        if self.policy.summed:
            self.policy.check_takes_updates()
        shapes = [leaf.shape for leaf in self.initial_arrays]
        if [leaf.shape for leaf in received] != shapes:
            raise Refused(f"the received model must have the shapes {shapes}")

        def public() -> Trained:
            trained = self._public(*self._request(received, round_num))
            return Trained(jax.tree.leaves(jax.device_get(trained)))

        size = self._tree.num_leaves if self.policy.is_query else 0
        with self.site.opened():
            begin_round(self.site, received, round_num=round_num)
            free: Arrays = []
            if size:  # un-noised, so trained apart: no private record changes it
                free = result_of(
                    "public training", public, received[:size], round_num
                ).arrays
            upload, record = end_round(
                self.site,
                received[size:],
                partial(self.train, received, round_num),
                round_num=round_num,
            )
        if self.policy.config.uploads_gradient:  # its noise is in: a public step
            rate = self.policy.learning_rate(round_num)
            steps = zip(received, upload, strict=True)
            upload = [old - rate * gradient for old, gradient in steps]
        return [*free, *upload], record | {"num_examples": self.num_examples}

    def train(self, received: Arrays, round_num: int) -> Trained:
        """A round's training or query before clip and noise: it must not leave."""
        arrays, ratio = jax.device_get(self._work(*self._request(received, round_num)))
        return Trained(arrays, ratio, clipped=self.policy.config.uploads_gradient)

    def trained_model(self, arrays: Arrays, rounds: int) -> TrainedModel:
        """The server's arrays after so many rounds, to predict with and to save.

        Its claim is the promise, which each site keeps: what it spent, its log says.
        """
        params = self._divided(arrays)[0]
        settings = self._settings | {"agreement": self.policy.agreement}
        promises = tuple(
            claim
            for claim in claims.summary(self.policy.account)["guarantees"]
            if "promise" in claim["method"]
        )
        return TrainedModel(self._model, params, {}, rounds, settings, claims=promises)

    def _divided(self, arrays: Arrays) -> tuple[Params, Arrays]:
        """(parameters, the last answer to the private query) in the server's arrays."""
        size = self._tree.num_leaves
        return jax.tree.unflatten(self._tree, arrays[:size]), list(arrays[size:])

    def _request(self, received: Arrays, round_num: int) -> Any:
        """The arguments of the compiled work."""
        randomness = self.site.randomness
        return (
            *self._divided(received),
            randomness.training_key(round_num),
            jnp.int32(randomness.client_id),
            jnp.int32(round_num - 1),
        )

    def _local_work(self, *request: Any) -> tuple[list[Array], Array | None]:
        """(trained arrays, or the gradient that is asked for; R)."""
        task, work = self._task(*request)
        ratio = None if work.estimation is None else work.estimation.contribution_ratio
        if work.gradient is not None:
            return jax.tree.leaves(work.gradient), None
        if work.private is None:
            return jax.tree.leaves(work.weights.params), ratio
        return query_gradient(task, work.private), ratio

    def _task(
        self,
        params: Params,
        remembered: list[Array],
        key: Array,
        client_id: Array,
        round_index: Array,
    ) -> tuple[Task, LocalWork]:
        """A round's task, and the client's work on it."""
        task = Task(
            self._model,
            self._plan,
            self._cell,
            self.policy.mechanism,
            self._state.replace(params=params, answer=remembered),  # type: ignore[attr-defined]
            self._data.examples,
            cell_of(self._cell.split, 0),
            prng.Address(key, client_id, round_index),
        )
        return task, self._plan.work.prepare(task)
