"""One upload of a deployed client: the simulator's numbers, refusals, the grid."""

import dataclasses
import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from deployed import ROWS, SUMS, UPDATE_CLIP, model, policy, privatize, trained
from dp_accounting import GaussianDpEvent
from dp_accounting.rdp import RdpAccountant

from fedsvp_jax import mechanisms
from fedsvp_jax.core import prng
from fedsvp_jax.core.prng import Address
from fedsvp_jax.deploy import Refused, Seeded
from fedsvp_jax.deploy.answer import charge
from fedsvp_jax.deploy.noise import SECRET, Secret, released
from fedsvp_jax.deploy.state import new_state
from fedsvp_jax.mechanisms import fixed, registry
from fedsvp_jax.mechanisms.discrete_gaussian import seeded_words
from fedsvp_jax.round import client_work


def asked(**changes: Any) -> Any:
    """`privatize` with some things changed."""
    made, received = changes.get("policy", policy(**UPDATE_CLIP)), model()
    named = {"received": received, "trained": trained(received), "policy": made}
    if "state" not in changes:
        named["state"] = new_state(made, 30)
    return privatize(**{"round_num": 1} | named | changes)


CASES = {
    "fedsva": {"mechanism": "fedsva"},
    "fedsva, release": {
        "mechanism": "fedsva",
        "contribution_release": "randomized_response",
    },
    "nbafl": {"mechanism": "nbafl"},
    "analytic": UPDATE_CLIP,
    "weight_clip": {"mechanism": "nbafl", "clipping": "weight_clip"},
    "query": UPDATE_CLIP | {"clipping": "attribute_records"},
    "time_varying": {"mechanism": "time_varying"},
    "rows": ROWS,
}


@pytest.mark.parametrize("name", CASES)
def test_a_seeded_upload_and_ledger_are_the_simulators(name: str) -> None:
    made, received = policy(**CASES[name]), model()
    state, account = new_state(made, 30), made.account
    update = [new - old for new, old in zip(trained(received), received, strict=True)]
    for round_num in (1, 2):
        at = Address(
            prng.round_key(prng.root_key(7), round_num - 1),
            jnp.int32(2),
            jnp.int32(round_num - 1),
        )
        wanted, _, info = client_work.add_noise(
            made.mechanism,
            update,
            made.mechanism.init(1).of(0),
            num_examples=jnp.int32(30),
            ratio=client_work.released_ratio(jnp.float32(0.25), made.config, at),
            params=received,
            at=at,
        )
        one = jax.tree.map(lambda leaf: np.full(1, leaf), info)
        account = account.record([0], one)
        upload, state, record = asked(
            policy=made,
            state=state,
            round_num=round_num,
            contribution=0.25 if made.mechanism.needs_contribution else None,
            randomness=Seeded(7, 2),
        )
        for got, old, new in zip(upload, received, wanted, strict=True):
            np.testing.assert_allclose(got, old + new, rtol=1e-6, atol=1e-6)
    for key, value in account.arrays().items():
        np.testing.assert_allclose(state.sums[key], value, rtol=1e-6, err_msg=key)
    assert record["randomness"] == "not private: seeded"
    assert set(record["status"].values()) == {"nominal"}
    assert state.seeded


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
    granted = record["noise_multiplier"] * record["sensitivity"]
    assert std == pytest.approx(granted, rel=3e-7)  # rounding needs no more of it here
    assert record["randomness"] == "secret" and not state.seeded
    assert record["status"] == {"basic": "proved", "rdp": "proved"}
    again = asked(received=received, trained=far)[0]
    assert not np.array_equal(upload[0], again[0])


def test_a_share_of_a_cohorts_noise_is_whole_numbers_claimed_against_colluders() -> (
    None
):
    made = policy(**SUMS)
    received = [np.zeros(shape, np.float32) for shape in ((100, 100), (50, 200))]
    far = [leaf + 3 for leaf in received]
    upload, state, record = asked(policy=made, received=received, trained=far)
    whole = np.stack([part.reshape(100, 100) for part in upload])
    assert whole.dtype == np.int64 and np.abs(whole).max() < 2**15
    std = record["grid_step"] * whole.std()
    assert std == pytest.approx(record["noise_std"], rel=0.02)
    # Three of five shares are the noise of an upload that stands alone.
    assert record["noise_std"] == pytest.approx(1.993812 / math.sqrt(3), rel=1e-5)
    alone = asked(received=received, trained=far)[2]
    assert record["noise_multiplier"] == pytest.approx(alone["noise_multiplier"])
    assert record["epsilon_spent"]["rdp"] == pytest.approx(
        alone["epsilon_spent"]["rdp"]
    )
    assert record["status"]["rdp"] == "proved" and "2" in record["adversary"]
    assert record["adversary"] != alone["adversary"]
    with pytest.raises(Refused, match="round 1 is over"):
        asked(policy=made, state=state)


def test_five_gradients_cost_what_a_second_accountant_says_of_the_noise_drawn() -> None:
    made, spent = policy(**ROWS), RdpAccountant()
    zeros, state = [np.zeros((100, 100), np.float32)], new_state(made, 30)
    for round_num in range(1, 6):
        upload, state, record = privatize(
            zeros, zeros, state, policy=made, round_num=round_num
        )
        std = upload[0].std()  # of 10,000 numbers; C/B is 1/40
        assert std == pytest.approx(record["noise_std"], rel=0.03)
        spent.compose(GaussianDpEvent(record["noise_std"] * 40))
    wanted = spent.get_epsilon(made.promise.target_delta)
    assert record["epsilon_spent"]["rdp"] == pytest.approx(wanted, rel=1e-3)


def test_no_site_has_more_rows_than_its_gradient_is_divided_by() -> None:
    made = policy(**ROWS)
    assert new_state(made, 40).num_examples == 40
    with pytest.raises(ValueError, match=r"from 20 to 40, .* got 41"):
        new_state(made, 41)


@pytest.mark.parametrize("name", ["query", "rows"])
def test_where_rounding_may_part_neighbours_the_noise_grows_by_as_much(
    name: str,
) -> None:
    made = policy(**CASES[name])
    zeros = [np.zeros_like(leaf) for leaf in model()]
    record = asked(received=zeros, trained=model(), policy=made)[2]
    moved = record["sensitivity"] + record["grid_step"] * math.sqrt(35)
    wanted = record["noise_multiplier"] * moved
    assert record["noise_std"] == pytest.approx(wanted, rel=1e-6)


def test_a_share_of_gradients_is_shrunk_so_that_rounding_parts_no_neighbours() -> None:
    made = policy(**SUMS | ROWS | {"noise_bits": 20})
    zeros = [np.zeros((100, 100), np.float32)]
    far = [np.full((100, 100), 1, np.float32)]
    upload, _, record = asked(policy=made, received=zeros, trained=far)
    step, std = record["grid_step"], record["noise_std"]
    bound = 1 / 40  # C/B, of which z times, over √(5 − 2), is the share's std
    z = record["noise_multiplier"]
    assert std == pytest.approx(z * bound / math.sqrt(3), rel=1e-5)
    assert step * upload[0].std() == pytest.approx(std, rel=0.03)
    shrunk = 1 - 100 * step / bound
    assert shrunk < 0.99
    assert step * upload[0].mean() == pytest.approx(shrunk, abs=4 * std / 100)
    assert record["status"]["rdp"] == "proved"


def test_a_client_without_private_records_says_nothing_and_spends_nothing() -> None:
    made = policy(**CASES["query"])
    zeros = [np.zeros_like(leaf) for leaf in model()]
    upload, state, record = asked(
        received=zeros, trained=model(), state=new_state(made, 0), policy=made
    )
    assert all(not leaf.any() for leaf in upload)
    assert record["epsilon_spent"]["rdp"] == 0
    assert state.sums["uploads"] == [1]


def test_what_an_engine_hands_on_must_be_enough_for_the_clip() -> None:
    for with_model in (True, False):
        policy(**UPDATE_CLIP).check_takes_updates(with_model=with_model)
        with pytest.raises(ValueError, match="no gradients of single records"):
            policy(**CASES["query"]).check_takes_updates(with_model=with_model)
        with pytest.raises(ValueError, match="must not be per_example around"):
            policy(**ROWS).check_takes_updates(with_model=with_model)
    policy(**CASES["weight_clip"]).check_takes_updates()
    with pytest.raises(ValueError, match="hands on the update without the model"):
        policy(**CASES["weight_clip"]).check_takes_updates(with_model=False)


def test_words_that_a_test_brings_are_not_called_secret() -> None:
    record = asked(randomness=Secret(seeded_words(1)))[2]
    assert record["randomness"] == "not private: seeded"
    assert SECRET.hides


NAN = [np.full_like(leaf, np.nan) for leaf in model()]
OVERFLOW = {
    "received": [np.full_like(leaf, -3e38) for leaf in model()],
    "trained": [np.full_like(leaf, 3e38) for leaf in model()],
}


@pytest.mark.parametrize("spoilt", [{"trained": NAN}, OVERFLOW])
@pytest.mark.parametrize("clipped", [True, False])
def test_training_that_overflowed_is_an_update_of_zero(
    spoilt: dict[str, Any], clipped: bool
) -> None:
    """A refusal would tell the server of the client's data, and so would NaN."""
    made = policy(**UPDATE_CLIP) if clipped else policy(mechanism="nbafl")
    spoilt = {"received": model(), "randomness": Seeded(7, 2), "policy": made} | spoilt
    upload, state, record = asked(**spoilt)
    still, _, _ = asked(**spoilt | {"trained": spoilt["received"]})
    assert all(map(np.array_equal, upload, still)) and np.all(np.isfinite(upload[0]))
    assert "clipped" not in record and state.sums["uploads"] == [1]


def test_no_upload_exceeds_the_promise() -> None:
    made = policy(**UPDATE_CLIP | {"max_uploads": 2})
    state = new_state(made, 30)
    for round_num in (1, 3):
        _, state, _ = asked(policy=made, state=state, round_num=round_num)
    with pytest.raises(Refused, match="would exceed this client's promise"):
        asked(policy=made, state=state, round_num=4)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"mechanism": "dp_fedavg"}, "needs secure aggregation"),
        (SUMS | {"noise_sampler": "gaussian"}, "secure aggregation of whole numbers"),
        ({"mechanism": "reestimation"}, "has a step at the server"),
        ({"clipping": "per_example"}, "noise in float32 in every local step"),
        ({"total_epsilon": 9.0, "total_accounting": "basic"}, "must be rdp or pld in"),
        (
            CASES["fedsva, release"]
            | {"total_epsilon": 90.0, "total_accounting": "pld"},
            "total_accounting must be rdp in",
        ),
        ({"total_epsilon": 0.01}, "less than one upload"),
        (
            {"mechanism": "fedsva", "contribution_release": "laplace"},
            "laplace is drawn in floating point",
        ),
    ],
    ids=str,
)
def test_settings_that_cannot_be_kept_are_refused(
    changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        policy(**changes)


def test_a_mechanism_from_outside_that_adds_no_noise_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    mechanisms.register_mechanism("plain", fixed.make_none, summary="ours")
    with pytest.raises(ValueError, match="mechanism plain adds no noise"):
        policy(mechanism="plain")


def test_a_randomised_response_tells_the_truth_as_often_as_it_says() -> None:
    config = policy(**CASES["fedsva, release"]).config
    told = [released(1.0, config, SECRET, 1) for _ in range(2000)]
    chance = 1 / (1 + math.exp(-config.release_epsilon))
    assert np.mean(told) == pytest.approx(chance, abs=4 * math.sqrt(0.25 / 2000))


GUIDED = [
    {"mechanism": mechanism, "contribution_release": release}
    for mechanism in ("fedsva", "fedsdp")
    for release in ("raw", "randomized_response", "worst_case")
]
FIXED = [{"mechanism": name} for name in ("nbafl", "dpa", "gaussian")]
FIXED += [CASES[name] for name in ("analytic", "weight_clip", "query", "rows")]
FIXED += [CASES["time_varying"] | {"total_epsilon": 2.0}]  # no round costs the same


@pytest.mark.parametrize("changes", [*GUIDED, *FIXED], ids=str)
def test_no_upload_costs_more_than_its_round_was_charged(
    changes: dict[str, Any],
) -> None:
    made = policy(**changes)
    for round_num in (1, made.config.num_rounds):
        start = new_state(made, 20)  # the least of all clients
        charged = charge(start, model(), policy=made, round_num=round_num)
        assert charged.spent == made.allowance.costs[round_num - 1]
        spent = asked(policy=made, state=start, round_num=round_num, contribution=0.0)
        for name in ("basic", "rdp"):
            value = charged.account(made).epsilon_spent(name)
            found = spent[1].account(made).epsilon_spent(name)
            assert found == pytest.approx(value, rel=1e-5)
        free = asked(policy=made, state=start, round_num=round_num, contribution=1.0)
        assert free[1].account(made).epsilon_spent("rdp") <= value * (1 + 1e-5)


def test_no_upload_of_a_mechanism_without_noise_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last gate, should a mechanism say a σ that is none after all."""
    made = policy(**UPDATE_CLIP)
    for std in (0.0, -1.0, math.nan, math.inf):
        broken = dataclasses.replace(made)

        def spoilt(*given: Any, std: float = std, **request: Any) -> Any:
            *others, info = made.clip_and_noise(*given, **request)
            return *others, dataclasses.replace(info, noise_std=jnp.float32(std))

        monkeypatch.setitem(vars(broken), "clip_and_noise", spoilt)
        with pytest.raises(Refused, match="must be positive and finite"):
            asked(policy=broken)


@pytest.mark.hole
def test_the_ledger_is_compared_with_the_promise_before_an_upload_leaves() -> None:
    """Though the allowance, which was planned, has room."""
    made = policy(**UPDATE_CLIP, total_epsilon=9.0)
    state = asked(policy=made)[1]
    spent = state.account(made).epsilon_spent("rdp")
    assert int(made.allowance.budget) == 0  # five uploads keep it, so none is limited
    more = [[20 * each for each in view] for view in state.sums["precision"]]
    full = dataclasses.replace(state, sums=state.sums | {"precision": more})
    assert full.account(made).epsilon_spent("rdp") > 9 > spent
    with pytest.raises(Refused, match="would exceed this client's promise"):
        asked(policy=made, state=full, round_num=2)
