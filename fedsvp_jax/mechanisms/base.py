"""A mechanism is a pair of pure functions, as an optax transformation is."""

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.core.structs import (
    Array,
    MechanismState,
    NoiseInfo,
    Number,
    Params,
    iota,
)

from . import noise
from .clipping import Clipping
from .grid import Grid, add_discrete_noise
from .release import bounded_ratio
from .subsampling import Subsampling

NOTHING_ELSE = "nothing else leaves the client (no BatchNorm statistics)"
Noised = tuple[Params, MechanismState, NoiseInfo]  # what `update` returns
_MOST_NAMED = 8  # of what was taken from the records, in one sentence


class Basis(NamedTuple):
    """The conditions of an upload's (ε, δ): relation, proof, assumptions, view."""

    relation: str  # the neighbouring relation, in words
    proved: bool  # false: the number is nominal
    assumptions: str  # in words
    # Of `accounting.views.VIEWS`: against whom the (ε, δ) is claimed.
    view: str = "server"
    against_server: bool = True  # false: the server sees more than noised uploads
    client_swap: float | None = None  # as in Clipping
    any_epsilon: bool = False  # the upload's (ε, δ) follows at ε ≥ 1 too
    discrete: bool = False  # noise in whole numbers, which has no end

    @property
    def central(self) -> bool:
        """Whether the (ε, δ) is that of a whole cohort's average, not one upload's."""
        return self.view != "server"


class UploadNoise(NamedTuple):
    """The noise that one upload gets and the claim that goes with it."""

    noise_multiplier: Array  # () float32: std over sensitivity
    counted_multiplier: Array  # () float32: what the ledger counts, at most that
    epsilon: Array  # () float32; inf without noise
    delta: Array  # () float32; 0 without noise
    risk_tolerance: Array  # () float32: T of FedSVA/FedSDP, else nan


class Mechanism(NamedTuple):
    """Noise on uploads, in the shape of an optax transformation.

    Attributes:
      init: `num_clients -> MechanismState`.
      update: one client's step, `(updates, state, *, key, num_examples,
        contribution_ratio, round_num, params) -> (updates, state, NoiseInfo)`.
        `updates` is client minus server, or the gradient or answer that is noised in
        its place, `params` the broadcast model (of an answer, the numbers asked about);
        `state.clients` holds this client's scalars; only those may change. Without a
        key nothing is drawn: the update is clipped alone, and NoiseInfo tells the
        `noise_std` that whoever asked adds (`deploy`).
      server: None, or once a round after aggregation, `(params_after,
        params_before, state, *, key, round_num, infos, valid) -> (params, state)`
        with (K,) leaves in `infos` and (K,) bool `valid`.
      step_noise_std: `(contribution_ratio, *, round_num) -> ()`: std on the
        batch-mean gradient of each local step; None unless the noise goes into
        training (clipping `per_example`).
      needs_contribution: whether `update` reads R.
      uniform_weights: whether the claim asks for equal weights in the average.
      basis: what the guarantee rests on.
      subsampling: of Poisson batches; None for other uploads, and while traced.
      grid: on which the uploads lie; None where they are not on one.
      least_multiplier: () or (T,) the least z that an upload may be counted with, of
        any round or of each. Of a central claim: z of a whole cohort's average, as
        the claim's view sees it.
      most_epsilon, most_delta: () or (T,) likewise, the largest ε and δ that an upload
        may claim. A promise rests on these three.
      follows_num_rounds: whether the noise of a round depends on how many there will
        be. Runs of other lengths then share no draw of noise (`run_digest`).
      release_epsilon: () what one upload spends on telling R; 0 where none is told.
    """

    init: Callable[[int], MechanismState]
    update: Callable[..., Noised]
    server: Callable[..., tuple[Params, MechanismState]] | None = None
    step_noise_std: Callable[..., Array] | None = None
    needs_contribution: bool = False
    uniform_weights: bool = False
    basis: Basis = Basis("", False, "")
    subsampling: Subsampling | None = None
    grid: Grid | None = None
    least_multiplier: Number = 0.0
    most_epsilon: Number = math.inf
    most_delta: Number = 1.0
    follows_num_rounds: bool = False
    release_epsilon: Number = 0.0


def stateless(num_clients: int) -> MechanismState:
    """The state of a mechanism that remembers nothing."""
    return MechanismState(clients={}, shared={})


def claimed(noise_multiplier: Array, epsilon: Number, delta: Number) -> UploadNoise:
    """An UploadNoise without a risk tolerance."""
    multiplier = jnp.float32(noise_multiplier)
    return UploadNoise(
        noise_multiplier=multiplier,
        counted_multiplier=multiplier,
        epsilon=jnp.float32(epsilon),
        delta=jnp.float32(delta),
        risk_tolerance=jnp.float32(jnp.nan),
    )


def noised_upload(
    clipped: tuple[Params, Array],
    upload_noise: UploadNoise,
    *,
    std: Array,
    sensitivity: Array,
    at_upload: bool,
    key: Array | None,
    grid: Grid | None = None,
    num_examples: Number = 1.0,
) -> tuple[Params, NoiseInfo]:
    """Adds noise of std () to a clipped update and describes it.

    Noise that went into the local steps already is not added here (`at_upload`); `std`
    and `sensitivity` then refer to a step. Nor is any without a key: `noise_l2` is NaN.
    """
    updates, was_clipped = clipped
    noise_l2 = zero = jnp.float32(0)
    if at_upload:
        if key is None:
            noise_l2 = jnp.float32(jnp.nan)
        elif grid is None:
            updates, noise_l2 = noise.add_gaussian_noise(updates, std, key=key)
        else:
            updates, noise_l2 = add_discrete_noise(
                updates, std, grid, num_examples=num_examples, key=key
            )
    info = NoiseInfo(
        noise_multiplier=upload_noise.counted_multiplier,
        noise_std=std if at_upload else zero,
        step_noise_std=zero if at_upload else std,
        noise_l2=noise_l2,
        sensitivity=sensitivity,
        epsilon=upload_noise.epsilon,
        delta=upload_noise.delta,
        risk_tolerance=upload_noise.risk_tolerance,
        clipped=was_clipped,
    )
    return updates, info


def num_uploads(valid: Array) -> Array:
    """() float32: how many places of a cohort uploaded; 1 where nobody did."""
    return jnp.maximum(jnp.sum(valid.astype(jnp.float32)), 1.0)


def free_before(mechanism: Mechanism, first: int, num_rounds: int) -> Mechanism:
    """The mechanism, when uploads of rounds before `first` are of public data alone."""
    if first == 0:
        return mechanism
    free = iota(num_rounds) < first
    return mechanism._replace(
        least_multiplier=jnp.where(free, jnp.inf, mechanism.least_multiplier),
        most_epsilon=jnp.where(free, 0.0, mechanism.most_epsilon),
        most_delta=jnp.where(free, 0.0, mechanism.most_delta),
    )


def nothing_private() -> NoiseInfo:
    """NoiseInfo of an upload made of public data alone, which costs nothing."""
    zero = jnp.float32(0)
    return NoiseInfo(
        noise_multiplier=jnp.float32(jnp.inf),
        noise_std=zero,
        step_noise_std=zero,
        noise_l2=zero,
        sensitivity=zero,
        epsilon=zero,
        delta=zero,
        risk_tolerance=jnp.float32(jnp.nan),
        clipped=zero,
    )


class Law(NamedTuple):
    """The amount of noise that an upload gets, and what that rests on.

    Attributes:
      calibrate: `(R, round) -> UploadNoise`: z and the claim from R in [0, 1] and the
        round (from 0), () each; elementwise of rounds (T,) where it reads the round.
      assumptions: in words, beside the clip's.
      proved: whether the claim follows, where the clip's bound does.
      any_epsilon: as in `Basis`.
      num_rounds: T where `calibrate` reads the round, else 1; what it makes of the
        round is taken to depend on T.
      needs_contribution: whether `calibrate` reads R. z, ε and δ are then monotone in
        it, and `counted_multiplier` is the least z.
    """

    calibrate: Callable[[Array, Array], UploadNoise]
    assumptions: tuple[str, ...] = ()
    proved: bool = True
    any_epsilon: bool = False
    num_rounds: int = 1
    needs_contribution: bool = False


def chain(clip: Clipping, law: Law) -> Mechanism:
    """Clip an update as the rule says, then add noise of std z(R, t)·Δ.

    What settings add to any mechanism follows in `registry.make_mechanism`: the release
    of R, a grid's sampler (`discrete_noise`), shares of a cohort (`shared_noise`).
    """

    def update(
        updates: Params,
        state: MechanismState,
        *,
        key: Array,
        num_examples: Array,
        contribution_ratio: Array,
        round_num: Array,
        params: Params,
    ) -> Noised:
        clipped = clip.clip(updates, params)
        bound = clip.bound(num_examples)
        upload_noise = law.calibrate(bounded_ratio(contribution_ratio), round_num)
        noised, info = noised_upload(
            clipped,
            upload_noise,
            std=upload_noise.noise_multiplier * bound,
            sensitivity=bound,
            at_upload=not clip.rule.in_steps,
            grid=clip.grid,
            num_examples=num_examples,
            key=key,
        )
        return noised, state, info

    def step_noise_std(contribution_ratio: Array, *, round_num: Array) -> Array:
        bound = clip.bound(jnp.float32(1))
        ratio = bounded_ratio(contribution_ratio)
        return law.calibrate(ratio, round_num).noise_multiplier * bound

    # On an array of rounds, and not under `vmap`: JAX keeps each call of a jitted
    # function on plain numbers under a new trace, up to 8,192 of them.
    rounds = jnp.squeeze(iota(law.num_rounds))
    least_ratio = 0 if law.needs_contribution else 1
    possible = jax.tree.map(
        lambda *ends: jnp.stack(jnp.broadcast_arrays(*ends, rounds)[:-1]),
        *(law.calibrate(jnp.float32(ratio), rounds) for ratio in (least_ratio, 1)),
    )
    return Mechanism(
        init=stateless,
        update=update,
        step_noise_std=step_noise_std if clip.rule.in_steps else None,
        needs_contribution=law.needs_contribution,
        basis=claim_of(
            clip, *law.assumptions, proved=law.proved, any_epsilon=law.any_epsilon
        ),
        grid=clip.grid,
        follows_num_rounds=law.num_rounds > 1,
        least_multiplier=jnp.min(possible.counted_multiplier, axis=0),
        most_epsilon=jnp.max(possible.epsilon, axis=0),
        most_delta=jnp.max(possible.delta, axis=0),
    )


def assuming(mechanism: Mechanism, assumption: str, **changes: Any) -> Mechanism:
    """The mechanism, whose claim rests on this too, with other fields of the basis."""
    basis = mechanism.basis
    changes["assumptions"] = f"{basis.assumptions}; {assumption}"
    return mechanism._replace(basis=basis._replace(**changes))


def nominal(mechanism: Mechanism, why: str) -> Mechanism:
    """The mechanism, whose claim is not proved, and says why."""
    return assuming(mechanism, f"nominal, because {why}", proved=False)


def claim_of(
    clip: Clipping, *assumptions: str, proved: bool = True, any_epsilon: bool = False
) -> Basis:
    """The clip's claim with further assumptions; nominal if either is."""
    return Basis(
        relation=clip.relation,
        proved=proved and not clip.rule.bound_unproved,
        assumptions="; ".join((clip.assumptions, *assumptions, NOTHING_ELSE)),
        client_swap=clip.client_swap,
        any_epsilon=any_epsilon,
    )


def over_data(mechanism: Mechanism, from_records: Sequence[str]) -> Mechanism:
    """The mechanism, nominal if the preprocessing of the data follows their records."""
    if not from_records:
        return mechanism
    names = ", ".join(from_records[:_MOST_NAMED])
    if (num_more := len(from_records) - _MOST_NAMED) > 0:
        names += f" and {num_more} more"
    return nominal(
        mechanism,
        f"{names} were taken from the records, so that one of them may change the "
        "features of all: declare them in a schema (`fedsvp schema`) or by --classes",
    )
