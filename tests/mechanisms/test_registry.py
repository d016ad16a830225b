"""Names, summaries and mechanisms from outside."""

import pytest
from published import published

from fedsvp_jax import mechanisms
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.mechanisms import fixed, registry
from fedsvp_jax.report import tables
from fedsvp_jax.run.sweep import SweepPlan

# Their places decide their colours; a new mechanism comes after them.
PUBLISHED = (
    *("none", "nbafl", "time_varying", "reestimation", "dpa"),
    *("dp_fedavg", "fedsdp", "fedsva", "gaussian"),
)


def test_every_published_name_is_there_in_order():
    assert mechanisms.mechanism_names()[: len(PUBLISHED)] == PUBLISHED


def test_reconstructions_are_named_as_such():
    named = set(filter(mechanisms.is_reconstruction, PUBLISHED))
    assert named == {"time_varying", "reestimation", "dpa", "fedsdp"}


def test_a_mechanism_from_outside_says_its_label_and_what_sets_its_noise(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    none = registry._REGISTRY["none"].factory
    mechanisms.register_mechanism(
        "mine", none, summary="mine", label="Mine", epsilon_sets_noise=False
    )
    results = [
        {"mechanism": "mine", "epsilon": epsilon, "seed": seed, "round": 1}
        | {"test_accuracy": 0.5}
        for epsilon, seed in ((0.1, 0), (0.5, 1))
    ]
    (row,) = tables.summarize(results)
    assert (row.epsilon, row.num_seeds) == (None, 2)
    assert tables.shown_cells([row])[0]["mechanism"] == "Mine"
    plan = SweepPlan(("mine",), epsilons=(0.1, 0.5), seeds=(0, 1))
    cells = plan.cells(ExperimentConfig(), "mine")
    assert [(cell.epsilon, cell.seed) for cell in cells] == [(0.1, 0), (0.1, 1)]


def test_labels_and_what_sets_the_noise_of_the_built_in_mechanisms():
    names = mechanisms.mechanism_names()
    by_epsilon = set(filter(mechanisms.epsilon_sets_noise, PUBLISHED))
    assert set(PUBLISHED) - by_epsilon == {"none", "dp_fedavg", "gaussian"}
    assert mechanisms.mechanism_label("fedsva") == "FedSVA"
    assert len({mechanisms.mechanism_label(name) for name in names}) == len(names)
    assert mechanisms.mechanism_label("unknown") == "unknown"
    assert mechanisms.epsilon_sets_noise("unknown")


def test_the_setting_that_scales_the_noise_is_known(monkeypatch: pytest.MonkeyPatch):
    assert mechanisms.noise_setting("nbafl") == ("epsilon", True)
    assert mechanisms.noise_setting("gaussian") == ("noise_std", False)
    assert mechanisms.noise_setting("dp_fedavg") == ("noise_multiplier", False)
    with pytest.raises(ValueError, match="no setting scales the noise of mechanism no"):
        mechanisms.noise_setting("none")
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    mechanisms.register_mechanism(
        "mine", registry._REGISTRY["none"].factory, summary="mine"
    )
    assert mechanisms.noise_setting("mine") == ("epsilon", True)
    mechanisms.register_mechanism(
        "other",
        registry._REGISTRY["none"].factory,
        summary="other",
        epsilon_sets_noise=False,
        noise_setting="noise_std",
    )
    assert mechanisms.noise_setting("other") == ("noise_std", False)
    assert mechanisms.mechanism_label("mine") == "mine"


def test_what_a_mechanism_does_not_read_is_known():
    unread = mechanisms.unread_settings("dp_fedavg")
    assert {"epsilon", "relation", "noise_std", "noise_floor"} <= unread
    assert not {"noise_multiplier", "adaptive_clip", "delta"} & unread
    assert mechanisms.unread_settings("unknown") == frozenset()


def test_only_what_reads_r_spends_on_its_release():
    told = {"contribution_release": "laplace", "release_epsilon": 0.25}
    spent = {
        name: mechanisms.make_mechanism(name, published(name, **told)).release_epsilon
        for name in ("fedsva", "nbafl", "dpa", "reestimation")
    }
    assert spent == {"fedsva": 0.25, "nbafl": 0, "dpa": 0, "reestimation": 0}
    free = mechanisms.make_mechanism("fedsva", published("fedsva"))
    assert free.release_epsilon == 0 and free.needs_contribution


def test_a_formula_is_explained_with_what_r_can_change():
    told = {"delta": 0.02, "noise_floor": 1e-3}
    assert registry.explained("fedsva", told) == (
        "T = R − ln δ², σ = Δ·√max(T, β)/ε and δ′ = 1.25·e^(−max(T, β)/2), with δ = "
        "0.02 and β = 0.001: R can change the noise by at most 6.2 %."
    )
    assert registry.explained("nbafl", told) == ""
    assert registry.explained("unknown", told) == ""


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match="did you mean fedsva"):
        mechanisms.make_mechanism("fedsav", published())


def test_a_former_name_means_the_mechanism_of_today():
    assert (
        resolve(ExperimentConfig(mechanism="sensitivity")).mechanism == "reestimation"
    )
    assert mechanisms.mechanism_label("sensitivity") == "Sensitivity re-estimation"
    assert "epsilon" not in mechanisms.unread_settings("sensitivity")
    with pytest.raises(ValueError, match="name must be new"):
        mechanisms.register_mechanism("sensitivity", fixed.make_none, summary="again")


def test_a_mechanism_from_outside_is_made_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    none = registry._REGISTRY["none"].factory
    mechanisms.register_mechanism("mine", none, summary="mine", reconstruction=True)
    assert mechanisms.mechanism_summary("mine") == "mine [reconstruction]"
    assert mechanisms.make_mechanism("mine", published()).server is None
    with pytest.raises(ValueError, match="name must be new"):
        mechanisms.register_mechanism("mine", none, summary="again")
    with pytest.raises(ValueError, match="identifier"):
        mechanisms.register_mechanism("a b", none, summary="bad")
