"""A mechanism looks the same everywhere, and like no other mechanism."""

import pytest

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import fixed, registry
from fedsvp_jax.report import style


def test_every_registered_mechanism_has_a_look_of_its_own_and_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(registry, "_REGISTRY", dict(registry._REGISTRY))
    names = mechanisms.mechanism_names()
    first = [style.of_mechanism(name) for name in names]
    assert len({look.color for look in first}) == len({look.marker for look in first})
    assert len({look.color for look in first}) == len(names) == 9
    for number in range(27):
        mechanisms.register_mechanism(f"m{number}", fixed.make_none, summary="")
    looks = [style.of_mechanism(name) for name in mechanisms.mechanism_names()]
    assert looks[:9] == first and len({look[:2] for look in looks}) == 36
    assert style.of_mechanism("theirs") == style.of_mechanism("theirs")


def test_levels_of_epsilon_are_ordered_in_opacity_and_keep_the_colour() -> None:
    look = style.of_mechanism("fedsva")
    shades = [style.shaded(look, place, 3).color for place in range(3)]
    assert shades == [f"{look.color}FF", f"{look.color}B9", f"{look.color}73"]
    assert style.shaded(look, 0, 1).color == f"{look.color}FF"
