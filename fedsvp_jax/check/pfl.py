"""pfl-research: GaussianMechanism, LaplaceMechanism, and their accountants.

Source: pfl 0.6, `privacy/gaussian_mechanism.py`, `laplace_mechanism.py` and
`privacy_accountant.py`.
"""

import pathlib

from fedsvp_jax.check.noise import Facts, Noise, Setting, Stated, sampled_multiplier
from fedsvp_jax.check.python_calls import Call, calls, whole
from fedsvp_jax.mechanisms.calibration import analytic_multiplier

_ACCOUNTANTS = ("PLDPrivacyAccountant", "PRVPrivacyAccountant", "RDPPrivacyAccountant")
_FUNCTIONS = {
    "GaussianMechanism": "clipping_bound relative_noise_stddev",
    "GaussianMechanism.construct_single_iteration": "clipping_bound epsilon delta",
    "GaussianMechanism.from_privacy_accountant": "accountant clipping_bound",
    "LaplaceMechanism": "clipping_bound epsilon",
    "CentrallyAppliedPrivacyMechanism": "",
} | dict.fromkeys(
    _ACCOUNTANTS,
    "num_compositions sampling_probability mechanism epsilon delta noise_parameter "
    "noise_scale",
)


def read(path: pathlib.Path, facts: Facts) -> list[Noise]:
    """The noise of every mechanism in a file.

    Raises:
      ValueError: the file is unreadable, or a value that decides the noise is.
    """
    found = calls(path, _FUNCTIONS, config={}, overrides=facts.overrides)
    central = any(call.name.startswith("Centrally") for call in found)
    accountants = [call for call in found if call.name in _ACCOUNTANTS]
    noises: list[Noise] = []
    for call in found:
        if call.name == "LaplaceMechanism":
            noises.append(_laplace(call, central))
        elif call.name == "GaussianMechanism.from_privacy_accountant":
            noises += _accounted(call, accountants, central)
        elif call.name.startswith("GaussianMechanism"):
            noises.append(_gaussian(call, central))
    return noises


def _noise(call: Call, central: bool, multiplier: float, kind: str) -> Noise:
    """The parts that all have in common, of std z·C."""
    clip = call.number("clipping_bound", above=0)
    where = "the sum of a cohort's updates" if central else "every upload"
    return Noise(
        source=call.source,
        text=f"{kind} {multiplier * clip:.4g} on {where}, clipped to {clip:g}",
        std=multiplier * clip,
        multiplier=multiplier,
        view="observer" if central else "server",
        relation="add_remove" if central else "replace_one",
        assumptions=(
            *(("the server is trusted: it sees every update",) if central else ()),
            "a user takes part in every round",
            "what else leaves, users' metrics and weights, tells nothing",
            "the noise, floating-point numbers, is as good as real and nobody's guess",
        ),
    )


def _gaussian(call: Call, central: bool) -> Noise:
    stated = None
    if call.name == "GaussianMechanism":
        multiplier = call.number("relative_noise_stddev", at_least=0)
    else:
        epsilon, delta = call.number("epsilon", above=0), call.number("delta", above=0)
        stated = Stated(epsilon, delta, "upload")
        multiplier = float(analytic_multiplier(epsilon, delta))
    return _noise(call, central, multiplier, "Gaussian noise of std")._replace(
        stated=stated, setting=Setting("relative_noise_stddev", multiplier, 1.0)
    )


def _laplace(call: Call, central: bool) -> Noise:
    """Of scale C/ε, C an L1 norm: to replace an update moves it by twice as much."""
    pure = call.number("epsilon", above=0)
    return _noise(call, central, 1 / pure, "Laplace noise of scale")._replace(
        relation="add_remove", pure=pure, stated=Stated(pure, 0.0, "upload")
    )


def _accounted(call: Call, accountants: list[Call], central: bool) -> list[Noise]:
    """As the accountant counts it, with sampling; and without."""
    if len(accountants) != 1:
        raise ValueError(
            f"{call.source}: the file must make one accountant, got {len(accountants)}"
        )
    (told,) = accountants
    if str(told.get("mechanism")).lower() != "gaussian":
        raise ValueError(f"{told.source}: mechanism must be gaussian")
    name = "num_compositions"
    rounds = whole(told.source, name, told.get(name))
    rate = told.number("sampling_probability", above=0, at_most=1)
    scale = told.number("noise_scale", 1.0, above=0)
    stated = None
    if told.get("epsilon") is not None and told.get("delta") is not None:
        stated = Stated(told.number("epsilon"), told.number("delta", above=0), "run")
    if told.get("noise_parameter") is not None or stated is None:
        multiplier = told.number("noise_parameter", above=0)
    else:
        multiplier = sampled_multiplier(stated, rate, rounds)
    made = _noise(call, central, multiplier * scale, "Gaussian noise of std")._replace(
        rounds=rounds,
        relation="add_remove",
        stated=stated,
        setting=Setting("noise_parameter", multiplier, 1 / scale),
    )
    if rate == 1:
        return [made]
    flaw = (
        f"sampling_probability = {rate:g} is a Poisson rate, and a cohort of fixed "
        "size is none"
    )
    sampled = made._replace(rate=rate, flaws=(flaw,))
    return [sampled, made._replace(stated=None, source=f"{call.source}, unsampled")]
