"""The policy that a client has agreed to: a mechanism, its settings and a promise."""

import dataclasses
from functools import cached_property
from typing import Any

import jax
import numpy as np

from fedsvp_jax.accounting import Account, Allowance, Participation, SpendingPlan
from fedsvp_jax.accounting.claims import adversary
from fedsvp_jax.accounting.settings import PromiseSettings
from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve
from fedsvp_jax.core.files import Record, plain
from fedsvp_jax.core.optimizers import learning_rate
from fedsvp_jax.core.settings import part
from fedsvp_jax.core.structs import Array
from fedsvp_jax.data.tables.schema import to_toml
from fedsvp_jax.federation import loading, plan
from fedsvp_jax.federation.budget import solve_noise
from fedsvp_jax.mechanisms import (
    Mechanism,
    MechanismConfig,
    make_mechanism,
    noise_setting,
)
from fedsvp_jax.mechanisms.clipping import root_sharers
from fedsvp_jax.mechanisms.grid import Grid, check_grid
from fedsvp_jax.mechanisms.noise_check import check_noise
from fedsvp_jax.mechanisms.shared_noise import least_opened
from fedsvp_jax.run.folder import identity
from fedsvp_jax.run.published_scores import SPLIT, ScoreRelease, score_relation

MODULUS = 2**32  # of secure sums
COST = ("noise_multiplier", "epsilon", "delta")  # what an account counts of an upload


@dataclasses.dataclass(frozen=True)
class Policy:
    """The mechanism of a client's uploads, and what it may spend over its lifetime.

    Attributes:
      name: the mechanism's.
      config: its settings, concrete.
      promise: --total_epsilon and how it is counted.
      training: what a round trains, resolved: the settings of `Client`.
      asked: arguments of `make_policy` as plain values: it makes the same of them.
    """

    name: str
    config: MechanismConfig
    promise: PromiseSettings
    training: ResolvedConfig = dataclasses.field(compare=False)
    asked: Record = dataclasses.field(compare=False)

    @cached_property
    def mechanism(self) -> Mechanism:
        """The simulator's, with the discrete noise that a client draws."""
        # In float32, as in a compiled round.
        config = jax.tree.map(np.float32, self.config)
        mechanism = make_mechanism(self.name, config)
        return mechanism._replace(basis=mechanism.basis._replace(discrete=True))

    @cached_property
    def account(self) -> Account:
        """One client's account before its first upload."""
        participation = part(Participation, self.config, num_clients=1)
        return Account.of(self.mechanism, participation, self.promise)

    @cached_property
    def allowance(self) -> Allowance:
        """The cost of an upload of each round, and the most that may be spent."""
        return SpendingPlan(self.account).allowance

    @property
    def last_round(self) -> int:
        """The last that a site answers: with --publish_scores that of the scores."""
        return self.config.num_rounds + self.training.publish_scores

    @cached_property
    def score_release(self) -> ScoreRelease:
        """The release of test rows after the last round (--publish_scores).

        Raises:
          ValueError: the rounds hide more than a row, or their sums are not secure; no
            schema names the classes; the grid is too coarse.
        """
        schema, config = self.training.declared(), self.config
        if self.mechanism.subsampling or not self.summed or schema is None:
            raise ValueError(
                "publish_scores needs the secure sums of a federation over tables "
                "(fedsvp site propose): leave it out"
            )
        columns = schema.features if self.training.publish_columns else {}
        relation, sensitivity = score_relation(
            self.mechanism.basis.relation,
            config.rows_per_person,
            len(schema.classes),
            len(columns),
        )
        plan = SpendingPlan(self.account)
        multiplier = plan.sums(plan.most_uploads).precision ** -0.5
        std = multiplier * sensitivity / root_sharers(config)
        # A site's numbers alone fit into b bits; Flower adds them modulo 2^32.
        grid = Grid(
            config.noise_bits, 1, config.max_num_examples, lambda _: sensitivity
        )
        release = ScoreRelease(schema.classes, multiplier, std, grid, relation, columns)
        check_grid(grid, std=std, num_examples=1, size=release.zeros.size)
        return release

    def costliest(self, round_num: int) -> dict[str, float]:
        """z, ε and δ of the costliest upload that a round, from 1, may have; z of the
        `score_release` in the round after.
        """
        mechanism, rounds = self.mechanism, self.config.num_rounds
        if round_num > rounds:
            return {COST[0]: self.score_release.multiplier}
        by_round = (
            np.broadcast_to(value, rounds)[round_num - 1]
            for value in (
                mechanism.least_multiplier,
                mechanism.most_epsilon,
                mechanism.most_delta,
            )
        )
        return dict(zip(COST, map(float, by_round), strict=True))

    @property
    def is_query(self) -> bool:
        """Whether the noise is on the private query's answer, not on the update."""
        return self.config.clip.is_query

    @property
    def summed(self) -> bool:
        """Whether only the sum of a cohort's uploads has enough noise: whole numbers,
        which may leave masked alone (`flower_sums`).
        """
        return self.mechanism.grid is not None and self.mechanism.basis.central

    @property
    def protocol(self) -> Record:
        """The arguments of Flower's workflow under which a site answers.

        All clients that are there, at most K, share keys with all, and a sum is opened
        with `least_opened` of them.

        Raises:
          ValueError: the noise is no share of a cohort's, or K is too large.
        """
        config = self.config
        kind = config.noise_trust, config.noise_sampler
        if kind != ("secure_aggregation", "discrete"):
            raise ValueError(
                "noise_trust must be secure_aggregation, and noise_sampler discrete, "
                f"for secure sums, got {' and '.join(kind)}"
            )
        cohort, bits = config.cohort_size, config.noise_bits
        steps = 2**bits
        if cohort < 3 or cohort * steps >= MODULUS:
            raise ValueError(
                f"a secure sum needs 3 to {MODULUS // steps - 1} hospitals "
                f"(--num_clients), with noise_bits = {bits}; got {cohort}"
            )
        return {
            "num_shares": 1.0,  # of all that are there
            "reconstruction_threshold": least_opened(cohort, config.colluders),
            "max_weight": 1.0,
            "clipping_range": steps / 2,
            "quantization_range": steps,
            "modulus_range": MODULUS,
        }

    def learning_rate(self, round_num: int) -> np.float32:
        """The clients' learning rate in a round, from 1."""
        config = self.training
        rate = learning_rate(
            config, config.learning_rate, config.num_rounds, round_num - 1
        )
        return np.float32(rate)

    def check_takes_updates(self, *, with_model: bool = True) -> None:
        """Checks that the policy needs the update alone, as other engines hand it on.

        Args:
          with_model: whether the adapter knows the model that was sent, too.

        Raises:
          ValueError: a private query, which needs to know the private records; a clip
            of the model, without the model; noise that only a sum has enough of.
        """
        if self.summed:
            raise ValueError(
                "noise_trust must be nobody here, where the server sees each upload: "
                "with secure_aggregation take deploy.flower_sums.SumMod"
            )
        if self.is_query or self.config.uploads_gradient:
            raise ValueError(
                f"clipping must not be {self.config.clipping} around another engine's "
                "training, which hands on an update and no gradients of single "
                "records: use deploy.Client"
            )
        if self.config.clip.of_weights and not with_model:
            raise ValueError(
                "clipping must not be weight_clip where the engine hands on the "
                "update without the model: take update_clip"
            )

    def settings(self) -> Record:
        """All settings that decide the noise and the promise, and the `run_id`."""
        values = vars(self.config) | vars(self.promise)
        values |= {"mechanism": self.name, "run_id": self.asked["run_id"]}
        if (own_settings := values.pop("settings")) is not None:
            values |= vars(own_settings)
        return plain(values)

    @property
    def schema(self) -> str | None:
        """The schema's text, of a table; it is public."""
        schema = self.training.declared()
        return None if schema is None else to_toml(schema)

    @property
    def agreement(self) -> str:
        """SHA-256 of all settings and of the schema, wherever table and schema lie.

        Server and clients of secure sums compare it before a round is charged. With a
        `run_id` it is of one training.
        """
        training = dataclasses.asdict(self.training) | {
            "data_dir": None,
            "schema": self.schema,
        }
        return identity({"training": training, "promise": self.settings()})

    @property
    def server_epsilon(self) -> float | None:
        """ε of the view "server" where the claim is of a sum: each upload is seen,
        and its client's own share of the noise alone hides it.
        """
        if not self.mechanism.basis.central:
            return None
        plan, shares = SpendingPlan(self.account), root_sharers(self.config) ** 2
        return plan.composed(self.promise.total_accounting, plan.most_uploads, shares)

    def says(self) -> Record:
        """The promise and the claim, for an auditor."""
        claim, participation = self.mechanism.basis, self.account.participation
        assumptions = [claim.assumptions]
        if self.training.schema:
            assumptions.append(loading.neighbour_assumptions(self.training))
        if self.training.publish_scores:
            assumptions.append(SPLIT)
        return {
            **vars(self.promise),
            "mechanism": self.name,
            "num_rounds": participation.num_rounds,
            "max_uploads": participation.max_uploads,
            "release_epsilon": self.account.release_epsilon,
            "adversary": adversary(self.account),
            "server_epsilon": self.server_epsilon,
            "relation": claim.relation,
            "status": "proved" if self.account.proved else "nominal",
            "assumptions": "; ".join(assumptions),
        }

    @cached_property
    def clip_and_noise(self) -> Any:
        """`Mechanism.update` of one client, compiled; without a key it clips alone.

        In the place of the state it takes the client's scalars (`ClientState.memory`).
        """

        def run(update: list[Array], memory: dict[str, Array], **request: Any) -> Any:
            state = dataclasses.replace(self.mechanism.init(1).of(0), clients=memory)
            return self.mechanism.update(update, state, **request)

        return jax.jit(run)


def check_bought(bounds: int) -> None:
    """Raises ValueError: some bounds of a schema were bought."""
    if bounds:
        raise ValueError(
            "the bounds of the schema were bought (private_bounds), and a client's "
            "log does not count their ε: state the bounds instead"
        )


def make_policy(
    config: ExperimentConfig,
    *,
    min_num_examples: float,
    max_num_examples: int | None = None,
    rows_per_person: int | None = None,
    run_id: str | None = None,
) -> Policy:
    """The policy of an experiment's settings.

    Args:
      config: as of a simulation: mechanism, ε, δ, C, --clipping, --num_rounds,
        --max_uploads, --total_epsilon and so on.
      min_num_examples: m, training examples of the federation's smallest client, which
        all clients agree on; with `attribute_records` those of the private attribute.
        A client with fewer begins no state.
      max_num_examples: the largest client's; m by default.
      rows_per_person: of one person at most, where `per_example` hides all of them.
      run_id: of the one training that the policy is for, and part of its `agreement`.

    Raises:
      ValueError: settings that cannot be kept outside the simulator: bounds that were
        bought, noise in local steps, noise on a cohort's sum that is no secure sum of
        whole numbers, a mechanism with a step at the server, no noise at all, or a
        promise that not even one upload keeps.
    """
    if schema := config.declared():
        check_bought(schema.bounds_draws)
    facts: Record = {
        "min_num_examples": min_num_examples,
        "max_num_examples": max_num_examples,
        "rows_per_person": rows_per_person,
    }
    if config.solve == "noise":  # once: Flower starts a site for every message
        solved = solve_noise(resolve(config), **facts)
        name, _ = noise_setting(config.mechanism)
        config = dataclasses.replace(
            config, solve="uploads", **{name: getattr(solved, name)}
        )
    changed = {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if getattr(config, field.name) != field.default
    }
    arguments = plain({"config": changed, "run_id": run_id, **facts})
    config = resolve(config)
    mechanism_config = plan.mechanism_settings(config, **facts)
    promise = part(PromiseSettings, config)
    policy = Policy(config.mechanism, mechanism_config, promise, config, arguments)
    mechanism = policy.mechanism
    by_ledger = ("rdp",) if policy.account.release_epsilon else ("rdp", "pld")
    if config.total_epsilon is not None and config.total_accounting not in by_ledger:
        raise ValueError(
            f"total_accounting must be {' or '.join(by_ledger)} in a deployed client: "
            f"so its auditor adds up anew, got {config.total_accounting}"
        )
    if mechanism.needs_contribution and config.contribution_release == "laplace":
        raise ValueError(
            "contribution_release must be randomized_response or worst_case in a "
            "deployed client: laplace is drawn in floating point, whose last bits tell "
            "R"
        )
    central = mechanism.basis.central
    if mechanism.grid is not None and not (
        central or mechanism_config.uploads_gradient
    ):
        raise ValueError(
            "noise_sampler must be gaussian for a deployed client, which draws "
            "discrete noise in any case, on the finest grid"
        )
    if central and (mechanism.grid is None or mechanism_config.clip.is_query):
        raise ValueError(
            f"mechanism {config.mechanism} protects a cohort's sum, which needs secure "
            "aggregation of whole numbers: noise_trust=secure_aggregation with "
            "clipping=update_clip or per_example and noise_sampler=discrete; or "
            "noise_trust=nobody"
        )
    if mechanism.step_noise_std is not None:
        raise ValueError(
            "clipping=per_example needs noise_sampler=discrete in a deployed client, "
            "for noise in float32 in every local step would tell the gradient"
        )
    if mechanism.server is not None or mechanism.init(1).shared:
        raise ValueError(
            f"mechanism {config.mechanism} has a step at the server, which an engine's "
            "server does not take; take another mechanism"
        )
    check_noise(mechanism, mechanism_config, config.mechanism)
    if np.min(mechanism.least_multiplier) <= 0:
        raise ValueError(
            f"mechanism {config.mechanism} adds no noise with these settings, and a "
            "deployed client sends nothing without any: a federation without privacy "
            "needs the engine alone"
        )
    _ = policy.allowance  # refuses a promise that cannot be kept
    _ = config.publish_scores and policy.score_release
    return policy
