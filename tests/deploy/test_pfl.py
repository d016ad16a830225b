"""The adapter to pfl-research: in the environment of test-deploy."""

import pathlib
from typing import Any

import numpy as np
import pytest
from deployed import UPDATE_CLIP, example, model, policy, simulated

pytest.importorskip("pfl")

from pfl.context import UserContext
from pfl.stats import MappedVectorStatistics

from fedsvp_jax.deploy import SECRET, Refused, Seeded, Site
from fedsvp_jax.deploy.pfl import LocalPrivacy

CONTEXT: Any = None  # of the server, which the postprocessor does not read


def statistics(weight: float) -> MappedVectorStatistics:
    named = {f"{place}": leaf for place, leaf in enumerate(model())}
    stats = MappedVectorStatistics(named, weight=1.0)
    stats.reweight(weight)
    return stats


def privacy(folder: pathlib.Path, changes: Any = None, **named: Any) -> LocalPrivacy:
    """With a log of each user; the noise is seeded unless it is said otherwise."""
    randomness = named.pop("randomness", Seeded(7, 2))
    sites = {
        user: Site(
            folder / f"{user[0]}.json",
            policy(**changes or UPDATE_CLIP),
            randomness=randomness,
        )
        for user in ("a/b", "c")
    }
    for site in sites.values():
        site.begin(30)
    return LocalPrivacy(sites.__getitem__, **named)


def processed(around: LocalPrivacy, weight: float = 1.0, user: str = "a/b") -> Any:
    return around.postprocess_one_user(
        stats=statistics(weight),
        user_context=UserContext(num_datapoints=30, seed=5, user_id=user),
    )


def test_what_leaves_is_the_private_update_by_the_declared_number_of_examples(
    tmp_path: pathlib.Path,
) -> None:
    sent, _ = processed(privacy(tmp_path), weight=17.0)
    assert sent.weight == 30
    for name, leaf in sent.items():
        moved = leaf / 30 - statistics(1)[name]
        assert 0.5 < np.std(moved) / 1.993812 < 1.5  # of the analytic noise
    file = Site(tmp_path / "a.json", policy(**UPDATE_CLIP))
    assert int(file.read().sums["uploads"][0]) == 1


@pytest.mark.hole
@pytest.mark.parametrize("weight", [0.0, 1e-3, 1.0, 17.0, 1e9, float("nan")])
def test_a_users_own_weight_does_not_leave(
    tmp_path: pathlib.Path, weight: float
) -> None:
    """It may be computed from records, and no noise hides it."""
    sent, _ = processed(privacy(tmp_path), weight=weight)
    assert sent.weight == 30
    assert all(np.all(np.isfinite(leaf)) for _, leaf in sent.items())


def test_pfls_seed_does_not_decide_the_noise(tmp_path: pathlib.Path) -> None:
    first, second = (
        processed(privacy(tmp_path / name, randomness=SECRET))[0]["0"] for name in "ab"
    )
    assert not np.allclose(first, second)


def test_a_user_s_records_are_compared_with_those_of_the_log(
    tmp_path: pathlib.Path,
) -> None:
    for user, records in (("a", "of a"), ("c", "other")):
        Site(tmp_path / user, policy(**UPDATE_CLIP), data=records).begin(30)
    around = LocalPrivacy(lambda user: Site(tmp_path / user, data=f"of {user}"))
    assert [processed(around, user=user)[0].weight for user in "ac"] == [30, 0]
    nobody: Any = None
    assert processed(around, user=nobody)[0].weight == 0  # who has no log


def test_a_user_who_refuses_is_left_out_of_the_average(tmp_path: pathlib.Path) -> None:
    around = privacy(tmp_path, UPDATE_CLIP | {"max_uploads": 1})
    sent, told = processed(around, weight=30.0)
    around.postprocess_server(
        stats=sent, central_context=CONTEXT, aggregate_metrics=told
    )
    before = (tmp_path / "a.json").read_bytes()
    refused, told = processed(around, weight=30.0)
    assert refused.weight == 0
    other, _ = processed(around, weight=10.0, user="c")
    average = refused + other
    average.average()
    for name, leaf in other.items():
        np.testing.assert_allclose(average[name], leaf / 30, rtol=1e-6)
    assert (tmp_path / "a.json").read_bytes() == before
    with pytest.raises(Refused, match="every user of round 2 refused"):
        around.postprocess_server(
            stats=refused, central_context=CONTEXT, aggregate_metrics=told
        )


@pytest.mark.hole
def test_no_ratio_that_a_user_reports_switches_the_noise_off(
    tmp_path: pathlib.Path,
) -> None:
    def raising(user: UserContext) -> float:
        raise ValueError("record 17")

    ratios: list[Any] = [float("nan"), float("-inf"), "none", raising]
    for place, ratio in enumerate(ratios):
        told = ratio if callable(ratio) else lambda user, r=ratio: r
        fedsva = {"mechanism": "fedsva"}
        sent, _ = processed(privacy(tmp_path / str(place), fedsva, contribution=told))
        assert np.std(sent["0"] / sent.weight - statistics(1)["0"]) > 0.1


@pytest.mark.parametrize("clipping", ["attribute_records", "weight_clip"])
def test_what_needs_more_than_the_update_is_refused(
    clipping: str, tmp_path: pathlib.Path
) -> None:
    changes = UPDATE_CLIP | {"clipping": clipping}
    refused, _ = processed(privacy(tmp_path, changes))
    assert refused.weight == 0


@pytest.mark.slow
@pytest.mark.parametrize("method", ["fedsva", "update_clip"])
def test_the_example_ends_with_the_simulators_model(
    method: str, tmp_path: pathlib.Path
) -> None:
    digits = example("pfl/digits.py")
    arrays, clients = digits.run(method, tmp_path, seed=0, new_state=True)
    for got, leaf in zip(arrays, simulated(digits.settings(method)), strict=True):
        np.testing.assert_allclose(got, leaf, rtol=1e-5, atol=1e-5)
    for client in clients.values():
        assert int(client.site.read().sums["uploads"][0]) == digits.ROUNDS
