"""The planned account of a run that released models ended before its last round.

When a run ends by patience or by a hook, the number of its rounds follows the data, and
the ε of the rounds that were run is a tally. The others are counted as they would have
been: a run that may stop is a post-processing of the one that does not.
"""

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax.accounting import Account
from fedsvp_jax.core.structs import Array, NoiseInfo
from fedsvp_jax.federation import Program
from fedsvp_jax.mechanisms.played import player
from fedsvp_jax.models import aggregation
from fedsvp_jax.round import cohort


def planned_account(program: Program, account: Account, spent: np.ndarray) -> Account:
    """The account after all planned rounds, of a run of one cell.

    Cohorts are those that the seed draws, which no data decides without the influence
    filter. An upload counts at the R at which its noise is least. `account` is that
    after the rounds that were run, and so is `spent`, (M,) int32 as in `ServerState`.
    """
    plan, costs = program.plan, program.cells.allowance.costs[0]
    mechanism = program.mechanism
    ratios = jnp.asarray([0.0, 1.0] if mechanism.needs_contribution else [1.0])
    upload = player(mechanism)

    @jax.jit
    def round_of(spent: Array, round_num: Array) -> tuple[Array, NoiseInfo, Array]:
        clients = cohort.cohort_of_round(
            program.cells.root.shared[0],
            jax.tree.map(lambda leaf: leaf[0], program.cells.allowance),
            spent,
            round_num,
            cohort_size=plan.cohort_size,
            cohorts=plan.cohorts,
        )
        sizes = jnp.asarray(program.data.num_train[0])[clients]
        by_ratio = jax.vmap(upload, (None, 0, None))
        noise = jax.vmap(by_ratio, (0, None, None))(sizes, ratios, round_num)
        least_noise = jnp.argmin(noise.noise_multiplier, axis=1)
        weights = aggregation.client_weights(
            sizes, clients >= 0, uniform=program.uniform_weights
        )

        def at_least(leaf: Array) -> Array:
            return jnp.take_along_axis(leaf, least_noise[:, None], axis=1)[:, 0]

        return clients, jax.tree.map(at_least, noise), weights

    account, spent = account.copy(), np.array(spent)
    for round_num in range(account.rounds, plan.num_rounds):
        clients, noise, weights = jax.device_get(round_of(spent, np.int32(round_num)))
        spent[clients[clients >= 0]] += costs[round_num]
        account = account.record(clients, noise, weights)
    return account
