"""Names, summaries and mechanisms from outside."""

import pytest
from published import published

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import registry


def test_every_published_name_is_there_in_order():
    names = "none nbafl time_varying sensitivity dpa dp_fedavg fedsdp fedsva gaussian"
    assert mechanisms.mechanism_names() == tuple(names.split())


def test_reconstructions_are_named_as_such():
    named = {
        name
        for name in mechanisms.mechanism_names()
        if mechanisms.mechanism_summary(name).endswith("[reconstruction]")
    }
    assert named == {"time_varying", "sensitivity", "dpa", "fedsdp"}


def test_an_unknown_name_is_refused_with_the_nearest_one():
    with pytest.raises(ValueError, match="did you mean fedsva"):
        mechanisms.make_mechanism("fedsav", published())


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
