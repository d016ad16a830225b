"""A deployed federation against the simulator: five rounds on digits."""

import pathlib
from typing import Any

import jax
import numpy as np
import pytest
from deployed import UPDATE_CLIP
from small_runs import digits, small

from fedsvp_jax import federation
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.deploy import Client, Refused, Seeded, data_of, make_policy
from fedsvp_jax.federation.plan import least_examples
from fedsvp_jax.run import records
from fedsvp_jax.run.trainer import Trainer

CASES: dict[str, dict[str, Any]] = {
    "fedsva": {"mechanism": "fedsva"},
    "nbafl": {"mechanism": "nbafl"},
    "analytic": UPDATE_CLIP,
    "attribute": UPDATE_CLIP
    | {"clipping": "attribute_records", "relation": "replace_one"}
    | {"private_from": 1},
}
COUNTED = ("uploads", "epsilon", "delta")


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_seeded_clients_end_with_the_simulators_model_and_ledger(
    name: str, tmp_path: pathlib.Path
) -> None:
    sizes = {"num_clients": 3, "cohort_size": 3, "class_share": 0.1}
    config = small(**sizes | {"paired_noise": True} | CASES[name])  # as `Seeded` draws
    program = federation.build([config], digits())
    trainer = Trainer(program)
    state = trainer.initial_state()
    (account,) = program.accounts
    for index in range(config.num_rounds):
        state, metrics = trainer.advance(state, index, 1)
        account = records.record_round(account, cell_of(metrics, (0, 0)))
    least = least_examples(config, program.data)
    made, clients = make_policy(config, min_num_examples=least), []
    for number in range(3):
        log, data = tmp_path / f"{number}.json", data_of(program.data, number)
        seeded = Seeded(config.seed, number)
        clients.append(Client(made, data, log, randomness=seeded))
        clients[-1].begin()
    weights = np.asarray([client.num_examples for client in clients], np.float32)
    arrays = clients[0].initial_arrays
    for round_num in range(1, config.num_rounds + 1):
        uploads = [client.answer(arrays, round_num)[0] for client in clients]
        arrays = [
            np.tensordot(weights / weights.sum(), np.stack(leaves), axes=1)
            for leaves in zip(*uploads, strict=True)
        ]
    wanted = [np.asarray(leaf)[0] for leaf in jax.tree.leaves(state.params)]
    for got, leaf in zip(arrays, wanted, strict=False):
        np.testing.assert_allclose(got, leaf, rtol=2e-6, atol=2e-6)
    simulated = account.arrays()
    for number, client in enumerate(clients):
        own = client.site.read().sums
        for key in COUNTED:
            np.testing.assert_allclose(own[key][0], simulated[key][number], rtol=1e-6)
        seen = own["precision"][0][0], simulated["precision"][0][number]
        np.testing.assert_allclose(*seen, rtol=1e-6)
    with pytest.raises(Refused, match="not one of the 5 rounds"):
        clients[0].answer(arrays, 6)


@pytest.mark.hole
def test_a_private_query_on_scales_of_the_records_is_refused(
    tmp_path: pathlib.Path,
) -> None:
    """One private record moved the public weights, which leave without noise."""
    config = small(num_clients=3, cohort_size=3, class_share=0.1, **CASES["attribute"])
    program = federation.build([config], digits())
    made = make_policy(config, min_num_examples=least_examples(config, program.data))
    data = data_of(program.data, 0)._replace(from_records=("bounds of a",))
    with pytest.raises(ValueError, match="bounds of a were taken from the records"):
        Client(made, data, tmp_path / "log")
