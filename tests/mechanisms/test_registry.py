"""Names, what is known of a mechanism before it is made, and what it is made from."""

import dataclasses

import pytest
from published import SET_UP, make, published

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import fixed, registry

# Their places decide their colours; a new mechanism comes after them.
PUBLISHED = (
    *("none", "nbafl", "time_varying", "reestimation", "dpa"),
    *("dp_fedavg", "fedsdp", "fedsva", "gaussian"),
)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three mechanisms that a plugin has registered."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    for name, more in {
        "plain": {},
        "silent": {"label": "Silent", "noise_setting": None},
        "own": {"noise_setting": "noise_multiplier"},
    }.items():
        mechanisms.register_mechanism(name, fixed.make_none, summary="ours", **more)


def test_the_built_in_mechanisms_are_there_in_order_with_labels_of_their_own():
    names = mechanisms.mechanism_names()
    assert names[: len(PUBLISHED)] == PUBLISHED
    assert mechanisms.about("fedsva").label == "FedSVA"
    assert len({mechanisms.about(name).label for name in names}) == len(names)
    rebuilt = {"time_varying", "reestimation", "dpa", "fedsdp"}
    marked = {n for n in PUBLISHED if "[rec" in mechanisms.about(n).summary}
    assert marked == rebuilt


@pytest.mark.usefixtures("outside")
def test_the_setting_that_scales_the_noise_is_known():
    for name, scaled_by in {
        "nbafl": ("epsilon", True),
        "gaussian": ("epsilon", True),
        "dp_fedavg": ("noise_multiplier", False),
        "plain": ("epsilon", True),
        "own": ("noise_multiplier", False),
    }.items():
        assert mechanisms.noise_setting(name) == scaled_by
        assert mechanisms.about(name).epsilon_sets_noise == scaled_by[1]
    for name in ("none", "silent"):
        assert not mechanisms.about(name).epsilon_sets_noise
        with pytest.raises(ValueError, match=f"no setting scales .* mechanism {name}"):
            mechanisms.noise_setting(name)


@pytest.mark.usefixtures("outside")
def test_a_name_from_outside_is_new_and_an_identifier():
    assert mechanisms.make_mechanism("plain", published()).server is None
    with pytest.raises(ValueError, match="name must be new"):
        mechanisms.register_mechanism("plain", fixed.make_none, summary="again")
    with pytest.raises(ValueError, match="identifier"):
        mechanisms.register_mechanism("a b", fixed.make_none, summary="bad")


@pytest.mark.hole
def test_code_from_outside_is_never_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody can play all that a clip or a noise of one's own may do."""
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    mechanisms.register_mechanism("ours", fixed.make_gaussian, summary="ours")
    told = published(clipping="update_clip")
    assert mechanisms.make_mechanism("gaussian", told).basis.proved
    claim = mechanisms.make_mechanism("ours", told).basis
    assert not claim.proved
    assert "code from outside, which nothing here proves" in claim.assumptions


def test_what_a_mechanism_does_not_read_is_known():
    unread = mechanisms.unread_settings("dp_fedavg")
    assert {"epsilon", "relation", "exposures", "noise_floor"} <= unread
    assert not {"noise_multiplier", "adaptive_clip", "delta"} & unread
    assert mechanisms.unread_settings("unknown") == frozenset()
    assert mechanisms.about("unknown").label == "unknown"
    assert mechanisms.about("unknown").epsilon_sets_noise
    assert {mechanisms.about(name).explain({}) for name in ("unknown", "nbafl")} == {""}


def test_only_what_reads_r_spends_on_its_release():
    told = {"contribution_release": "laplace", "release_epsilon": 0.25}
    names = ("fedsva", "nbafl", "dpa", "reestimation")
    spent = {name: make(name, **told).release_epsilon for name in names}
    assert spent == {"fedsva": 0.25, "nbafl": 0, "dpa": 0, "reestimation": 0}
    for release in ("raw", "worst_case"):
        assert make("fedsva", contribution_release=release).release_epsilon == 0


def test_a_formula_is_explained_with_what_r_can_change():
    told = {"delta": 0.02, "noise_floor": 1e-3}
    assert mechanisms.about("fedsva").explain(told) == (
        "T = R − ln δ², σ = Δ·√max(T, β)/ε and δ′ = 1.25·e^(−max(T, β)/2), with δ = "
        "0.02 and β = 0.001: R can change the noise by at most 6.2 %."
    )


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean fedsva"):
        make("fedsav")


def test_settings_that_a_mechanism_cannot_be_made_from_are_refused():
    for name, value in (("min_num_examples", 0.0), ("cohort_size", 101)):
        with pytest.raises(ValueError, match=f"^{name} must be"):
            make("nbafl", **{name: value})
    with pytest.raises(ValueError, match="delta must be given"):
        mechanisms.make_mechanism("nbafl", dataclasses.replace(SET_UP, delta=None))
    with pytest.raises(ValueError, match="epsilon must be greater than 0"):
        published(epsilon=-0.1)
    assert make("nbafl", cohort_size=100, num_clients=100).least_multiplier > 0
