"""pfl-research: mechanisms among a backend's postprocessors.

Source: pfl 0.6, `privacy/gaussian_mechanism.py`, `laplace_mechanism.py`, and
`aggregate/simulate.py`: each user's statistics pass the postprocessors in their order,
and their sum in the reverse order.
"""

from collections.abc import Sequence
from typing import Any

from fedsvp_jax.core.files import toml_beside

from .components import Component, ask, ask_all, unknown
from .noise import Noise, Setting, Stated, nothing

_KNOWN = toml_beside(__file__, "engines.toml")["pfl"]
_NORM_LEAVES = (
    "pfl's own metric, each user's norm before clipping, leaves without noise"
)


def live(postprocessors: Sequence[Any]) -> list[Noise]:
    """The noise of the one mechanism in a backend's list, which must be its last.

    What a user's statistics meet behind a mechanism would undo its clip, and what their
    sum meets before its noise would see the bare sum. Nothing is sampled: pfl's
    accountants count Poisson samples, which a cohort of fixed size is not.
    """
    mechanisms = _KNOWN["mechanisms"]
    things = ask_all(postprocessors, mechanisms + _KNOWN["others"])
    order = "postprocessors: " + ", ".join(thing.source for thing in things)
    private = [thing for thing in things if not thing.name.startswith("Weight")]
    if not private or private != things[-1:]:
        return [nothing(order, "one mechanism is read, which is the last of them")]
    (mechanism,) = private
    central = mechanism.name == "CentrallyAppliedPrivacyMechanism"
    if central:
        mechanism = ask(mechanism.values["underlying_mechanism"], mechanisms)
        things.append(mechanism)
    if lines := unknown(things):
        return [nothing(order, "no noise is understood", *lines)]
    return [_noise(mechanism, central)]


def _noise(mechanism: Component, central: bool) -> Noise:
    """Gaussian noise of std z·C; Laplace noise of scale C/ε, where C is an L1 norm."""
    clip = mechanism.number("clipping_bound", above=0)
    pure: float | None = None
    if mechanism.name.startswith("L"):
        pure = mechanism.number("epsilon", above=0)
        multiplier = 1 / pure
    else:
        multiplier = mechanism.number("relative_noise_stddev", at_least=0)
    kind = "Laplace noise of scale" if pure else "Gaussian noise of std"
    where = "the sum of a cohort's updates" if central else "every upload"
    return Noise(
        source=mechanism.source,
        text=f"{kind} {multiplier * clip:.4g} on {where}, clipped to {clip:g}",
        std=multiplier * clip,
        multiplier=multiplier,
        view="observer" if central else "server",
        relation="zero_out" if central or pure else "replace_one",
        pure=pure,
        stated=Stated(pure, 0.0, "upload") if pure else None,
        setting=None if pure else Setting("relative_noise_stddev", 1.0),
        flaws=() if central else (_NORM_LEAVES,),
        assumptions=(*_KNOWN["trusted"] * central, *_KNOWN["assumptions"]),
    )
