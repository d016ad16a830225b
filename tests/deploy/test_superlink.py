"""The example over a real SuperLink and three SuperNodes on 127.0.0.1, with TLS."""

import pathlib
import threading
from collections.abc import Iterator

import jax
import numpy as np
import pytest
from deployed import opened, simulated, simulated_share
from flax import serialization
from superlink import ROOT, Federation

from fedsvp_jax.accounting import Plan, claims
from fedsvp_jax.accounting.claims import adversary
from fedsvp_jax.deploy import Seeded

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
    saved = serialization.msgpack_restore(file.read_bytes())
    return jax.tree.leaves(saved["params"])


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
    file = tmp_path / "model.msgpack"
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
    file = tmp_path / "model.msgpack"
    told = flower.run(f'method="fedsva" num-server-rounds=2 output="{file}"', file)
    arrays = model_of(file)
    assert told.count("Received 2 results and 1 failures") == 2, told
    assert "holds no entry" in told
    assert all(np.all(np.isfinite(leaf)) for leaf in arrays)
    assert (flower.state / "client-2.json").read_text() == "damaged"


PHASES = ("", "setup", "share_keys", "collect_masked_vectors", "unmask")
HOSPITALS = 5


@pytest.mark.parametrize("phase", PHASES)
def test_five_supernodes_open_the_simulators_sum_though_one_is_killed(
    phase: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tables, secure sums, and a node that dies in each phase of Flower's protocol."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "flower_sums"))
    from sums.federation import client_of, server_of  # type: ignore[import-not-found]

    made = Federation(tmp_path, "flower_sums", HOSPITALS)
    try:
        made.begin("sums.federation", str(made.state), str(HOSPITALS))
        made.start()
        if phase:
            killed = (0, PHASES.index(phase))
            threading.Thread(target=made.kill_node, args=killed, daemon=True).start()
        settings = f'hospitals={HOSPITALS} num-server-rounds=1 folder="{made.state}"'
        told = made.run(settings, made.state / "sums.npz")
    finally:
        made.stop()
    assert "Secure aggregation completed" in told, told
    monkeypatch.setenv("FEDSVP_TEST_SEED", "0")
    received = server_of(made.state, HOSPITALS).initial_arrays
    zeros = [np.zeros_like(leaf) for leaf in received]  # a gradient is no difference
    shares = []
    for number in range(0 if phase in ("", "unmask") else 1, HOSPITALS):
        client = client_of(number, made.state, HOSPITALS)
        shares.append(
            simulated_share(
                client.policy,
                zeros,
                client.train(received, 1).arrays,
                Seeded(0, number),
                num_examples=client.num_examples,
            )[0]
        )
        claim = claims.row(client.site.read().account(client.policy), last=False)
        assert claim["adversary"] == adversary(client.policy.account, "colluders")
        assert claim["epsilon_spent"]["rdp"] == pytest.approx(
            Plan(client.policy.account).promised(1), rel=1e-5
        )
    with np.load(made.state / "sums.npz") as saved:
        total = opened(
            client.policy, [sum(leaves) for leaves in zip(*shares, strict=True)]
        )
        for place, leaf in enumerate(total):
            np.testing.assert_array_equal(saved[f"1-{place}"], leaf)
    assert (made.state / "model.safetensors").is_file()
