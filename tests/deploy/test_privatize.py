"""One upload of a deployed client: the simulator's numbers, refusals, the grid."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from deployed import UPDATE_CLIP, model, policy, trained

from fedsvp_jax import prng
from fedsvp_jax.accounting import Ledger
from fedsvp_jax.algorithm import client
from fedsvp_jax.deploy import Refused, Seeded, new_state, privatize
from fedsvp_jax.deploy.randomness import SECRET, Secret
from fedsvp_jax.mechanisms.discrete_gaussian import seeded_words

CASES = {
    "fedsva": {"mechanism": "fedsva"},
    "fedsva, release": {
        "mechanism": "fedsva",
        "contribution_release": "randomized_response",
    },
    "nbafl": {"mechanism": "nbafl"},
    "analytic": UPDATE_CLIP,
    "weight_clip": {"mechanism": "nbafl", "sensitivity": "weight_clip"},
    "query": UPDATE_CLIP | {"sensitivity": "attribute_records"},
    "time_varying": {"mechanism": "time_varying"},
}


def simulated(changes: dict[str, Any], rounds: int) -> tuple[list[np.ndarray], Ledger]:
    """The simulator's last upload after some rounds, and its ledger of the client."""
    made = policy(**changes)
    received, key = model(), prng.root_key(7)
    ledger = made.new_ledger()
    for index in range(rounds):
        now = prng.round_key(key, index)
        ratio = client.released_ratio(
            jnp.float32(0.25), made.config, key=now, client_id=jnp.int32(2)
        )
        update = [
            new - old for new, old in zip(trained(received), received, strict=True)
        ]
        upload, _, info = client.add_noise(
            made.mechanism,
            update,
            made.mechanism.init(1).of(0),
            num_examples=jnp.int32(30),
            ratio=ratio,
            round_num=jnp.int32(index),
            params=received,
            key=now,
            client_id=2,
        )
        ledger.record(
            [0],
            round_num=index + 1,
            noise_multiplier=[info.noise_multiplier],
            noise_std=[info.noise_multiplier * info.sensitivity],
            epsilon=[info.epsilon],
            delta=[info.delta],
            release_epsilon=made.release_epsilon,
        )
    return [np.asarray(leaf) for leaf in upload], ledger


@pytest.mark.parametrize("name", CASES)
def test_a_seeded_upload_and_ledger_are_the_simulators(name: str) -> None:
    changes = CASES[name]
    wanted, ledger = simulated(changes, rounds=2)
    made, received = policy(**changes), model()
    state = new_state(made)
    for round_num in (1, 2):
        upload, state, record = privatize(
            received,
            trained(received),
            state,
            policy=made,
            round_num=round_num,
            num_examples=30,
            contribution=0.25 if made.mechanism.needs_contribution else None,
            randomness=Seeded(7, 2),
        )
    for got, old, new in zip(upload, received, wanted, strict=True):
        np.testing.assert_allclose(got, old + new, rtol=1e-6, atol=1e-6)
    for key, value in ledger.state_dict().items():
        np.testing.assert_allclose(state.ledger[key], value, rtol=1e-6, err_msg=key)
    assert record["randomness"] == "not private: seeded"
    assert set(record["status"].values()) == {"nominal"}
    assert state.seeded


def asked(**changes: Any) -> Any:
    """`privatize` with one thing changed."""
    made, received = policy(**UPDATE_CLIP), model()
    named: dict[str, Any] = {
        "received": received,
        "trained": trained(received),
        "state": new_state(made),
        "policy": made,
        "round_num": 1,
        "num_examples": 30,
    } | changes
    return privatize(**named)


def test_the_noise_is_on_the_grid_of_the_asked_std_and_the_clip_is_exact() -> None:
    received = [np.zeros((200, 100), np.float32)]
    far = [np.full((200, 100), 3, np.float32)]
    upload, state, record = asked(received=received, trained=far)
    step, std = record["grid_step"], record["noise_std"]
    whole = upload[0].astype(np.float64) / step
    assert np.abs(whole - np.rint(whole)).max() < 2.0**-24 * np.abs(whole).max()
    clipped = 1.0 / math.sqrt(20_000)
    assert upload[0].mean() == pytest.approx(clipped, abs=4 * std / math.sqrt(20_000))
    assert upload[0].std() == pytest.approx(std, rel=0.02)
    assert std == pytest.approx(1.993812, rel=1e-5)  # analytic, ε = 2, δ = 1e-5
    assert record["randomness"] == "secret" and not state.seeded
    assert record["status"] == {"basic": "nominal", "rdp": "proved"}
    again = asked(received=received, trained=far)[0]
    assert not np.array_equal(upload[0], again[0])


def test_where_rounding_may_part_neighbours_the_noise_grows_by_as_much() -> None:
    made = policy(**CASES["query"])
    zeros = [np.zeros_like(leaf) for leaf in model()]
    record = privatize(
        zeros, model(), new_state(made), policy=made, round_num=1, num_examples=30
    )[2]
    moved = record["sensitivity"] + record["grid_step"] * math.sqrt(35)
    wanted = record["noise_multiplier"] * moved
    assert record["noise_std"] == pytest.approx(wanted, rel=1e-6)


def test_a_client_without_private_records_says_nothing_and_spends_nothing() -> None:
    made = policy(**CASES["query"])
    zeros = [np.zeros_like(leaf) for leaf in model()]
    upload, state, record = privatize(
        zeros, model(), new_state(made), policy=made, round_num=1, num_examples=0
    )
    assert all(not leaf.any() for leaf in upload)
    assert record["epsilon_spent"]["rdp"] == 0
    assert state.ledger["uploads"] == 1


def test_words_that_a_test_brings_are_not_called_secret() -> None:
    record = asked(randomness=Secret(seeded_words(1)))[2]
    assert record["randomness"] == "not private: seeded"
    assert SECRET.hides


NAN = [np.full_like(leaf, np.nan) for leaf in model()]
REFUSALS = {
    "another number": ({"received": model()[:1]}, "must have 1 arrays, got 2"),
    "shape": ({"trained": [model()[0].T, model()[1]]}, "must have the shape"),
    "dtype": ({"received": [leaf.astype(float) for leaf in model()]}, "be float32"),
    "received NaN": ({"received": NAN}, "received model holds NaN"),
    "round 0": ({"round_num": 0}, "not one of the 5 rounds"),
    "round 6": ({"round_num": 6}, "not one of the 5 rounds"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_what_a_server_may_not_ask_is_refused_in_one_sentence(name: str) -> None:
    changes, words = REFUSALS[name]
    with pytest.raises(Refused, match=words):
        asked(**changes)


OVERFLOW = {
    "received": [np.full_like(leaf, -3e38) for leaf in model()],
    "trained": [np.full_like(leaf, 3e38) for leaf in model()],
}


@pytest.mark.parametrize("spoilt", [{"trained": NAN}, OVERFLOW])
def test_training_that_overflowed_is_hidden_by_the_clip_or_refused_without_one(
    spoilt: dict[str, Any],
) -> None:
    """A refusal would tell the server of the client's data, and so would NaN."""
    spoilt = {"received": model(), "randomness": Seeded(7, 2)} | spoilt
    upload, state, record = asked(**spoilt)
    still, _, _ = asked(**spoilt | {"trained": spoilt["received"]})
    assert all(map(np.array_equal, upload, still)) and np.all(np.isfinite(upload[0]))
    assert record["clipped"] == 1 and state.ledger["uploads"] == 1
    unclipped = policy(mechanism="nbafl")
    with pytest.raises(Refused, match="an update that nothing clips holds NaN"):
        asked(**spoilt, policy=unclipped, state=new_state(unclipped))


def test_a_round_is_answered_once_and_rounds_only_grow() -> None:
    state = asked(round_num=3)[1]
    for replayed in (3, 2):
        with pytest.raises(Refused, match=f"round {replayed} is over"):
            asked(state=state, round_num=replayed)
    assert asked(state=state, round_num=4)[1].last_round == 4


@pytest.mark.parametrize(
    "promise", [{"max_uploads": 2}, {"total_epsilon": 3.3}], ids=str
)
def test_no_upload_exceeds_the_promise(promise: dict[str, Any]) -> None:
    made = policy(**UPDATE_CLIP | promise)
    state, total = new_state(made), promise.get("total_epsilon", math.inf)
    for round_num in (1, 3):
        _, state, record = asked(policy=made, state=state, round_num=round_num)
        assert record["epsilon_spent"]["rdp"] <= total
    with pytest.raises(Refused, match="would exceed this client's promise"):
        asked(policy=made, state=state, round_num=4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mechanism": "dp_fedavg"}, "needs secure aggregation"),
        ({"mechanism": "reestimation"}, "has a step at the server"),
        ({"sensitivity": "per_example"}, "drawn in float32 in every local step"),
        ({"total_epsilon": 9.0, "total_accounting": "pld"}, "accounting must be rdp"),
        ({"total_epsilon": 0.01}, "less than one upload"),
    ],
    ids=str,
)
def test_settings_that_cannot_be_kept_are_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        policy(**changes)


def test_laplace_is_not_drawn_in_secret() -> None:
    made = policy(mechanism="fedsva", contribution_release="laplace")
    with pytest.raises(Refused, match="laplace is drawn in floating point"):
        asked(policy=made, state=new_state(made), contribution=0.5)


def test_a_randomised_response_tells_the_truth_as_often_as_it_says() -> None:
    from fedsvp_jax.deploy.noise import released_in_secret

    config = policy(**CASES["fedsva, release"]).config
    told = [released_in_secret(1.0, config, SECRET) for _ in range(2000)]
    chance = 1 / (1 + math.exp(-config.release_epsilon))
    assert np.mean(told) == pytest.approx(chance, abs=4 * math.sqrt(0.25 / 2000))


def test_a_contribution_ratio_is_asked_for() -> None:
    made = policy(mechanism="fedsva")
    with pytest.raises(Refused, match="needs the client's contribution ratio"):
        asked(policy=made, state=new_state(made))
