"""The example over a real SuperLink and three SuperNodes on 127.0.0.1, with TLS."""

import pathlib
import threading
from collections.abc import Iterator

import jax
import numpy as np
import pytest
from commands import command
from deployed import example, opened, simulated, simulated_share
from superlink import ROOT, Federation

from fedsvp_jax import run
from fedsvp_jax.accounting import SpendingPlan, claims
from fedsvp_jax.accounting.claims import adversary
from fedsvp_jax.deploy import Seeded, tables
from fedsvp_jax.report import ledger

pytest.importorskip("flwr")

EXAMPLE = ROOT / "examples" / "flower"

pytestmark = pytest.mark.slow


@pytest.fixture
def flower(tmp_path: pathlib.Path) -> Iterator[Federation]:
    made = Federation(tmp_path, "flower", 3)
    try:
        yield made
    finally:
        made.stop()


def model_of(file: pathlib.Path) -> list[np.ndarray]:
    return jax.tree.leaves(run.load_model(file).params)


@pytest.mark.parametrize("method", ["fedsva", "attribute"])
def test_three_supernodes_end_with_the_simulators_model(
    flower: Federation,
    method: str,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from digits.federation import settings  # type: ignore[import-not-found]

    flower.begin("digits.begin", f"--state={flower.state}", f"--method={method}")
    flower.start()
    file = tmp_path / "model.safetensors"
    told = flower.run(f'method="{method}" output="{file}"', file)
    arrays = model_of(file)
    assert told.count("Received 3 results and 0 failures") == 5, told
    wanted = simulated(settings(method))
    for got, leaf in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(got, leaf, rtol=2e-6, atol=2e-6)


def test_a_client_that_refuses_is_left_out_and_the_run_goes_on(
    flower: Federation, tmp_path: pathlib.Path
) -> None:
    flower.begin("digits.begin", f"--state={flower.state}")
    (flower.state / "client-2.json").write_text("damaged")
    flower.start()
    file = tmp_path / "model.safetensors"
    told = flower.run(f'method="fedsva" num-server-rounds=2 output="{file}"', file)
    arrays = model_of(file)
    assert told.count("Received 2 results and 1 failures") == 2, told
    assert "holds no entry" in told
    assert all(np.all(np.isfinite(leaf)) for leaf in arrays)
    assert (flower.state / "client-2.json").read_text() == "damaged"


PHASES = ("", "setup", "share_keys", "collect_masked_vectors", "unmask")
HOSPITALS = 5


def joined(
    folder: pathlib.Path, hospitals: int = HOSPITALS, *flags: str, most: int = 100
) -> None:
    """A proposal, and the logs of the hospitals that joined."""
    example("flower_sums/deal.py").deal(folder, hospitals)
    words = ("experiments.site", "propose", str(folder / "federation"))
    counts = ("--num_examples=450", f"--max_num_examples={most}", "--total_epsilon=3")
    told = (f"--schema={folder / 'schema.toml'}", f"--num_clients={hospitals}")
    ended = command(*words, *told, *counts, "--num_rounds=2", *flags)
    assert ended.status == 0, ended
    for number in range(hospitals):
        table = folder / f"hospital-{number}.csv"
        made = tables.read_policy(folder / "federation", table)
        tables.table_client(folder / f"log-{number}", made).begin()


@pytest.mark.parametrize("phase", PHASES)
def test_five_supernodes_open_the_simulators_sum_though_one_is_killed(
    phase: str, tmp_path: pathlib.Path
) -> None:
    """Tables, secure sums, and a node that dies in each phase of Flower's protocol.

    With no phase the server is started twice, for a round each.
    """
    made = Federation(tmp_path, "flower_sums", HOSPITALS)
    place = made.state / "federation"
    joined(made.state)
    try:
        made.start()
        if phase:
            killed = (0, PHASES.index(phase))
            threading.Thread(target=made.kill_node, args=killed, daemon=True).start()
        told = made.run(f'rounds=1 folder="{place}"', place / "model.safetensors")
        if not phase:
            first = (place / "rounds" / "0001.npz").read_bytes()
            again = made.run(f'folder="{place}"', place / "rounds" / "0002.npz")
            assert again.count("Secure aggregation completed") == 1, again
            assert (place / "rounds" / "0001.npz").read_bytes() == first
    finally:
        made.stop()
    assert "Secure aggregation completed" in told, told
    received = tables.server_client(place).initial_arrays
    zeros = [np.zeros_like(leaf) for leaf in received]  # a gradient is no difference
    shares = []
    for number in range(0 if phase in ("", "unmask") else 1, HOSPITALS):
        seeded = Seeded(0, number)
        client = tables.table_client(made.state / f"log-{number}", randomness=seeded)
        shares.append(
            simulated_share(
                client.policy,
                zeros,
                client.train(received, 1).arrays,
                seeded,
                num_examples=client.num_examples,
            )[0]
        )
        state = client.site.read()
        assert state.last_round == (1 if phase else 2)
        claim = claims.row(state.account(client.policy), last=False)
        assert claim["adversary"] == adversary(client.policy.account, "colluders")
        assert claim["epsilon_spent"]["rdp"] == pytest.approx(
            SpendingPlan(client.policy.account).promised(state.last_round), rel=1e-5
        )
    with np.load(place / "rounds" / "0001.npz") as saved:
        count, *found = saved.values()
    total = opened(client.policy, [sum(leaves) for leaves in zip(*shares, strict=True)])
    assert count == len(shares)
    for got, leaf in zip(found, total, strict=True):
        np.testing.assert_array_equal(got, leaf)


def test_three_supernodes_end_with_scores_over_all_their_test_rows(
    tmp_path: pathlib.Path,
) -> None:
    """Two rounds, and the count after them, which every log has charged."""
    made = Federation(tmp_path, "flower_sums", 3)
    place = made.state / "federation"
    joined(made.state, 3, "--publish_scores", "--colluders=1", most=160)
    try:
        made.start()
        told = made.run(f'rounds=3 folder="{place}"', place / "scores.json")
    finally:
        made.stop()
    assert "finished: 3 of 3 rounds, of which 3 opened a sum" in told, told
    assert "3 of 3 hospitals, about " in told and "included: AUC 0." in told
    for number in range(3):
        log = made.state / f"log-{number}"
        assert [row.round for row in ledger.audit(log).counts] == [3]
