"""The example over a real SuperLink and three SuperNodes on 127.0.0.1, with TLS."""

import pathlib
import threading
from collections.abc import Iterator

import jax
import numpy as np
import pytest
from deployed import simulated
from flax import serialization
from superlink import ROOT, Federation

from fedsvp_jax import prng
from fedsvp_jax.deploy import Client
from fedsvp_jax.mechanisms.grid import residues

pytest.importorskip("flwr")

EXAMPLE = ROOT / "examples" / "flower"

pytestmark = [
    pytest.mark.across("the example, over servers and clients that are processes"),
    pytest.mark.slow,
]


@pytest.fixture
def flower(tmp_path: pathlib.Path) -> Iterator[Federation]:
    made = Federation(tmp_path, "flower", 3)
    try:
        yield made
    finally:
        made.stop()


def model_of(flower: Federation) -> list[np.ndarray]:
    saved = serialization.msgpack_restore(
        (flower.folder / "model.msgpack").read_bytes()
    )
    return jax.tree.leaves(saved["params"])


@pytest.mark.parametrize("method", ["fedsva", "attribute"])
def test_three_supernodes_end_with_the_simulators_model(
    flower: Federation, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from digits.federation import settings  # type: ignore[import-not-found]

    flower.begin("digits.begin", f"--state={flower.state}", f"--method={method}")
    flower.start()
    told = flower.run(f'method="{method}"', "model.msgpack")
    arrays = model_of(flower)
    assert told.count("Received 3 results and 0 failures") == 5, told
    wanted = simulated(settings(method))
    for got, leaf in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(got, leaf, rtol=2e-6, atol=2e-6)


def test_a_client_that_refuses_is_left_out_and_the_run_goes_on(
    flower: Federation,
) -> None:
    flower.begin("digits.begin", f"--state={flower.state}")
    (flower.state / "client-2.json").write_text("damaged")
    flower.start()
    told = flower.run('method="fedsva" num-server-rounds=2', "model.msgpack")
    arrays = model_of(flower)
    assert told.count("Received 2 results and 1 failures") == 2, told
    assert "holds no entry" in told
    assert all(np.all(np.isfinite(leaf)) for leaf in arrays)
    assert (flower.state / "client-2.json").read_text() == "damaged"


PHASES = ("", "setup", "share_keys", "collect_masked_vectors", "unmask")


@pytest.mark.parametrize("phase", PHASES)
def test_five_supernodes_open_the_simulators_sum_though_one_is_killed(
    phase: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Secure aggregation, and a node that dies in each phase of Flower's protocol."""
    monkeypatch.syspath_prepend(str(ROOT / "examples" / "flower_sums"))
    from sums.federation import CLIENTS, client_of  # type: ignore[import-not-found]

    made = Federation(tmp_path, "flower_sums", CLIENTS)
    try:
        made.begin("sums.federation", str(made.state))
        made.start()
        if phase:
            killer = threading.Thread(
                target=made.kill_node, args=(0, PHASES.index(phase))
            )
            killer.start()
        told = made.run("num-server-rounds=1", "sums.npz")
    finally:
        made.stop()
    assert "Secure aggregation completed" in told, told
    first = 0 if phase in ("", "unmask") else 1
    monkeypatch.setenv("FEDSVP_TEST_SEED", "0")
    total: list[np.ndarray] | None = None
    for number in range(first, CLIENTS):
        client = client_of(number, tmp_path / "again")
        received = client.initial_arrays
        sent = whole_numbers_of(client, received, client.train(received, 1).arrays)
        total = sent if total is None else list(map(np.add, total, sent))
    with np.load(tmp_path / "sums.npz") as saved:
        for place, leaf in enumerate(total or []):
            np.testing.assert_array_equal(saved[f"sum-1-{place}"], leaf)


def whole_numbers_of(
    client: Client, received: list[np.ndarray], trained: list[np.ndarray]
) -> list[np.ndarray]:
    """As the simulator's mechanism draws them, with the simulator's key."""
    made, seeded = client.policy, client._randomness
    update = [new - old for new, old in zip(trained, received, strict=True)]
    upload, _, info = made.clip_and_noise(
        update,
        received,
        {},
        np.int32(client.num_examples),
        np.float32(1),
        np.int32(0),
        seeded.key(1, prng.Stream.NOISE),
    )
    sent = residues(upload, made.mechanism.grid, std=info.noise_std)
    half = 1 << (made.mechanism.grid.bits - 1)
    return [(np.asarray(leaf, np.int64) + half) % (2 * half) - half for leaf in sent]
