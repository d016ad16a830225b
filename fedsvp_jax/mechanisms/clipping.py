"""Bounds on how far one neighbour can move an upload, by name, with their relations.

| name          | clips                     | bound Δ          | proved |
|---------------|---------------------------|------------------|--------|
| `paper`       | gradient, in training     | 2C/(s·|D|)       | no     |
| `weight_clip` | the weights to C          | 2C               | yes    |
| `update_clip` | the update to C           | C or 2C          | yes    |
| `per_example` | every example's gradient  | sqrt(n)·mC/B or twice that | yes   |
| `attribute_records` | each private record's gradient | C/|P| or twice that | yes |

s, `noise_examples_scale`, is 1 unless the noise is to be that of a client with s times
the examples. m is 1, or the most rows of one person where a person is the unit (P21).

The number of training examples |D_i| is public throughout; P, the training records of
the private attribute, has a C of its own (`private_query`).
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from fedsvp_jax.core.clips import CLIPS, Clip
from fedsvp_jax.core.structs import Array, Number, Params

from . import noise, subsampling
from .config import MechanismConfig
from .grid import Grid

# In a mean: C/2^20 then moves it, and noise of an eighth of that, the least that any
# claim has (`accounting.noise_ends`), is the last digit of a float32 number up to C.
_MOST_RECORDS = 2**20


# In relations of claims that protect a person, whose rows one client holds.
OF_A_PERSON, OF_A_CLIENT = "all rows of a person", "replace all records of a client"


class Clipping(NamedTuple):
    """A clipping rule and the L2 sensitivity that follows from it.

    Attributes:
      rule: its name, and what follows from the name alone.
      clip: `(updates, params) -> (updates, clipped)`; `updates` is client minus
        server, `params` the broadcast model, `clipped` () float32 in {0, 1}.
      bound: `num_examples -> ()` float32, the L2 sensitivity Δ: of an upload, or of a
        local step where the noise goes into these. Of `attribute_records` the number
        is |P|, that of the private attribute's.
      relation: the neighbouring relation, in words.
      assumptions: what the bound rests on, in words.
      client_swap: how far apart two clients' uploads can be, over Δ; None where
        nothing bounds it. Amplification by client sampling rests on it.
      grid: on which discrete noise is drawn; None with Gaussian noise, and where there
        is no grid for this rule.
    """

    rule: Clip
    clip: Callable[[Params, Params], noise.Measured]
    bound: Callable[[Number], Array]
    relation: str
    assumptions: str
    client_swap: float | None = None
    grid: Grid | None = None


def no_clip(updates: Params, params: Params) -> noise.Measured:
    """The identity, with `clipped` 0."""
    return updates, jnp.float32(0)


def clip_weights(updates: Params, params: Params, bound: Number) -> noise.Measured:
    """The update to the weights w/max(1, ‖w‖/bound), w = params + updates.

    Clipped as one vector (NbAFL, Wei et al. 2020, Algorithm 1). Where nothing was
    to clip the update keeps its bits.
    """
    weights = jax.tree.map(jnp.add, params, updates)
    shrunk, clipped = noise.clip_into_ball(weights, bound)
    shrunk_updates = jax.tree.map(
        lambda new, old, update: jnp.where(clipped > 0, new - old, update),
        shrunk,
        params,
        updates,
    )
    return shrunk_updates, clipped


def record_bound(clip: Number, num_examples: Number, factor: float = 2.0) -> Array:
    """f·C/|D|, () float32: how far one record moves a mean of clipped gradients.

    f is 2 where a record is replaced by another, 1 where it is left out of the sum and
    the divisor stays |D|. NbAFL (Wei et al. 2020) and FedSVA, sec. 3.2, say 2C/|D| of a
    whole upload.
    """
    size = jnp.maximum(jnp.float32(num_examples), 1.0)
    return factor * jnp.float32(clip) / size


def scaled_size(config: MechanismConfig, num_examples: Number) -> Number:
    """The |D| that the noise is computed with: `noise_examples_scale` times a client's.

    At scale 1 it is the number itself.
    """
    scale = config.noise_examples_scale
    if scale == 1:
        return num_examples
    return jnp.float32(num_examples) * scale


def root_sharers(config: MechanismConfig) -> float:
    """√(K − h): into so many parts z·Δ is divided; 1 where each upload is protected.

    Raises:
      ValueError: nobody is left beside the colluders.
    """
    if config.noise_trust == "nobody":
        return 1.0
    if config.colluders >= config.cohort_size:
        raise ValueError(
            "colluders must be fewer than cohort_size = "
            f"{config.cohort_size} with noise_trust=secure_aggregation, got "
            f"{config.colluders}; a sum needs more clients (--num_clients, or a client "
            "column)"
        )
    return math.sqrt(config.cohort_size - config.colluders)


def make_clipping(config: MechanismConfig) -> Clipping:
    """The config's choice. Its numbers may be tracers.

    Where the cohort shares its noise, the bound is that of the smallest client for all
    clients, over √(K − h): `shared_noise`.
    """
    clipping = _own_clipping(config)
    smallest = jnp.float32(config.min_num_examples)

    def largest(_: Number) -> Array:
        return clipping.bound(smallest)

    if config.noise_trust == "nobody":
        return clipping._replace(grid=_grid(config, clipping.bound, summed=1))
    return clipping._replace(
        bound=lambda _: largest(_) / root_sharers(config),
        grid=_grid(config, largest, summed=config.cohort_size),
    )


def _grid(
    config: MechanismConfig, bound: Callable[[Number], Array], summed: int
) -> Grid | None:
    """The grid of clipped updates or of gradients, which lie Δ apart at any length."""
    if config.noise_sampler == "gaussian":
        return None
    norm = config.private_clip if config.clip.is_query else config.l2_norm_clip
    if config.clip.is_query or config.uploads_gradient:
        return Grid(config.noise_bits, summed, norm, bound)
    if config.clip.in_ball and not config.clip.of_weights:
        return Grid(config.noise_bits, summed, norm)
    return None


def check_clips_update(config: MechanismConfig, name: str) -> None:
    """Refuses another clip for a mechanism that clips the update itself, as one vector.

    Raises:
      ValueError: the clipping is neither paper nor update_clip.
    """
    if config.clip not in (CLIPS["paper"], CLIPS["update_clip"]):
        raise ValueError(
            f"clipping must be paper or update_clip for {name}, which clips the "
            f"update itself, got {config.clipping!r}"
        )


def _own_clipping(config: MechanismConfig) -> Clipping:
    """The clipping rule before a cohort shares the noise."""
    rule, c = config.clip, config.l2_norm_clip
    left_out, scale = config.relation == "add_remove", config.noise_examples_scale
    factor = 1.0 if left_out else 2.0
    if rule.bound_unproved:
        assumption = (
            "granted, not proved: that 2C/|D| bounds an upload when batch-mean "
            "gradients are clipped to C at every step"
        )
        if scale != 1:
            assumption += (
                f"; said of clients with {scale:g} times the examples that these have "
                "(noise_examples_scale), whose own records this noise hides less"
            )
        return Clipping(
            rule,
            no_clip,
            lambda size: record_bound(c, scaled_size(config, size)),
            "replace one record of a client",
            assumption,
        )
    if scale != 1:
        raise ValueError(
            "noise_examples_scale must be 1 unless clipping is paper: it makes the "
            "noise of other clients than there are, of which nothing is proved, got "
            f"{scale:g} with clipping {config.clipping}"
        )
    summed = config.batch_size if rule.in_steps else config.max_num_examples
    if (rule.is_query or rule.in_steps) and summed > _MOST_RECORDS:
        name = "batch_size" if rule.in_steps else "the examples of a client"
        raise ValueError(
            f"{name} must be at most {_MOST_RECORDS} with clipping="
            f"{config.clipping}, got {summed}: noise for one of so many records is "
            "lost in the rounding of float32"
        )
    if rule.is_query:
        changed = (
            "leave one record of the private attribute out of a client's query"
            if left_out
            else "replace one record of the private attribute of a client by another "
            "of that attribute"
        )
        return Clipping(
            rule,
            no_clip,
            lambda count: record_bound(config.private_clip, count, factor),
            f"{changed}; records of other attributes are not protected",
            "which records have the private attribute, and how many, is public; the "
            "gradient of each of them is clipped",
        )
    if rule.in_steps:
        return _per_example(config, left_out, factor)
    protected = "one record" if config.rows_per_person is None else OF_A_PERSON
    whole_client = f"{OF_A_CLIENT} ({protected} among them)"
    if rule.of_weights:
        return Clipping(
            rule,
            lambda updates, params: clip_weights(updates, params, c),
            lambda _: 2.0 * jnp.float32(c),
            whole_client,
            "the weights, as one vector, lie in a ball of radius C",
            client_swap=1.0,
        )
    return Clipping(
        rule,
        lambda updates, params: noise.clip_into_ball(updates, c),
        lambda _: factor * jnp.float32(c),
        "add or remove a client (its update against zero)"
        if left_out
        else whole_client,
        "the update, as one vector, lies in a ball of radius C",
        client_swap=2.0 / factor,
    )


def _per_example(config: MechanismConfig, left_out: bool, factor: float) -> Clipping:
    """The clipping of a local step that clips each example's gradient.

    sqrt(n)·2C/B: what the n steps with a record amount to. Half of it where neighbours
    are two worlds, in one of which a record's clipped gradient is left out of the sums:
    that moves a sum by at most C.

    A person's rows, m at most, are shuffled into the batches of each of the n epochs.
    Within an epoch the moves of the batches' sums add up to mC at most (twice that if
    replaced), and so does the root of the sum of their squares. A Poisson batch holds
    all of a person's rows or none.

    A record is in at most n batches: one of each epoch where they are shuffled (the
    shuffle does not look at the data), all where they are drawn by Poisson sampling.
    To replace it changes at most n of the clipped sums, each by at most 2C. With std s
    on a batch *mean* (divisor B, a constant) that is n adaptively chosen Gaussians of
    multiplier s·B/(2C), which compose to exactly one of multiplier s·B/(2C·sqrt(n)).
    The other steps and the upload are post-processing.

    With discrete noise the one step takes all rows, and the noise is on its gradient,
    which is the upload: n is 1, and nothing is drawn.
    """
    poisson, all_rows = subsampling.is_poisson(config), config.uploads_gradient
    largest = config.max_num_examples
    if all_rows and (config.local_steps != 1 or config.batch_size < largest):
        raise ValueError(
            "noise_sampler=discrete with clipping=per_example takes all rows of a "
            "client in one step: give batches=poisson, local_steps=1 and a batch_size "
            f"of at least {largest}, the rows of the largest client; got local_steps="
            f"{config.local_steps} and batch_size={config.batch_size}"
        )
    if poisson and not left_out:
        raise ValueError(
            "relation must be add_remove with batches=poisson, whose amplification is "
            f"proved for a record that is left out, got {config.relation}"
        )
    if all_rows:
        batches, steps = "all of a client's rows in its one step", 1
    elif poisson:
        batches = "secret Poisson batches, drawn with probability B/|D|"
        if config.batch_size >= largest:
            batches = "all of a client's rows in each of its steps"
        steps = subsampling.most_steps(config)
    else:
        batches, steps = "a shuffle that ignores the data", config.local_epochs
    root = math.sqrt(steps) / config.batch_size
    limit, changed, persons = config.rows_per_person, "one record", ""
    if limit is not None:
        root, changed = root * limit, f"{OF_A_PERSON} (at most {limit})"
        persons = "whose a row is, is given, and nobody has rows at two clients; "
    return Clipping(
        config.clip._replace(in_steps=not all_rows),
        no_clip,
        lambda _: factor * jnp.float32(config.l2_norm_clip) * root,
        f"leave {changed} of a client out of its batches, whose other records and "
        "divisors stay"
        if left_out
        else f"replace {changed} of a client",
        f"{persons}every example's gradient is clipped to C, batches have the constant "
        f"divisor B and {batches}, and the model keeps no statistics across examples "
        "(no BatchNorm)",
    )
