"""The ε that follows from a noise, whatever its authors state.

A reader of an engine's objects or files (`flower`, `flare`, `opacus`, `settings_file`)
describes each noise as `Noise`, in the terms of this package. The rest is one
calculation: a Gaussian of multiplier z is counted exactly, Poisson batches by privacy
loss distributions, noise of pure ε by basic composition.
"""

import dataclasses
import math
from typing import NamedTuple

from scipy import optimize

from fedsvp_jax.accounting.claims import Claim
from fedsvp_jax.accounting.composition import composed_epsilon
from fedsvp_jax.accounting.views import SEEN
from fedsvp_jax.core.files import printable, toml_beside
from fedsvp_jax.mechanisms.subsampling import SampledSteps

from .components import Component

_RELATIONS = toml_beside(__file__, "engines.toml")["relations"]  # in words, by unit
_PER = ("upload", "run")
_TOLERANCE = 1e-3  # of ε: engines solve for their noise to that, or less


@dataclasses.dataclass(frozen=True)
class Stated:
    """An ε that somebody states.

    Attributes:
      epsilon, delta: the claim; δ = 0 is kept by pure noise alone.
      per: "upload" or "run".
      population_size: n, clients, or records where they are the unit. At δ >= 1/n
        nothing is reached; None compares none.

    Raises:
      ValueError: no such claim is possible.
    """

    epsilon: float
    delta: float
    per: str
    population_size: int | None = None

    def __post_init__(self) -> None:
        claim = Component("a stated claim", vars(self))
        claim.number("epsilon", at_least=0)
        claim.number("delta", at_least=0, below=1)
        if self.population_size is not None:
            claim.count("population_size")
        if self.per not in _PER:
            raise ValueError(f"per must be 'upload' or 'run', got {self.per!r}")


class Setting(NamedTuple):
    """An engine's name for the number that scales its noise.

    Attributes:
      name: of the setting.
      per_multiplier: its value where z is 1; it grows in proportion to z.
    """

    name: str
    per_multiplier: float


class Noise(NamedTuple):
    """The noise of one setting.

    Attributes:
      source: where it is written.
      text: what it does.
      std: of a coordinate's noise, in the engine's unit (b of a Laplace noise); 0 where
        there is none.
      multiplier: z, the std over the most that the part of one client, or record, moves
        what is noised. To replace it moves twice as much.
      view: who is kept from telling: "server", or the "observer" of averages.
      unit: "client" or "record".
      relation: of the claim that the authors make by such a noise.
      pure: ε of an upload at δ = 0 for that relation; None with Gaussian noise.
      stated: in the file; None where nothing is.
      steps: noised sums in an upload.
      rate: q of Poisson batches; 1 without them.
      rounds: as the engine says; None where it does not.
      setting: what to change; None where nothing helps.
      assumptions: what the numbers rest on.
      flaws: why they are nominal; () where they are proved under the assumptions.
    """

    source: str
    text: str
    std: float
    multiplier: float
    view: str = "server"
    unit: str = "client"
    relation: str = "replace_one"
    pure: float | None = None
    stated: Stated | None = None
    steps: int = 1
    rate: float = 1.0
    rounds: int | None = None
    setting: Setting | None = None
    assumptions: tuple[str, ...] = ()
    flaws: tuple[str, ...] = ()


def nothing(source: str, text: str, *why: str) -> Noise:
    """The noise of a setting from which no ε follows."""
    flaws = why or ("there is no noise",)
    return Noise(source, text, std=0.0, multiplier=0.0, flaws=flaws)


def epsilon(noise: Noise, relation: str, delta: float, uploads: int = 1) -> float:
    """ε of so many uploads of one client.

    Args:
      noise: of an upload.
      relation: "zero_out" or "replace_one".
      delta: δ in [0, 1); not read by pure noise.
      uploads: at least 1.

    Returns:
      ε; inf without noise, of Gaussian noise at δ = 0, and for what is not counted: to
      replace a record of Poisson batches.
    """
    factor = 1 if relation == "zero_out" else 2
    if noise.pure is not None:
        return noise.pure * uploads * (factor if noise.relation == "zero_out" else 1)
    number, z = uploads * noise.steps, noise.multiplier / factor
    if z * z * delta == 0 or math.isinf(precision := number / (z * z)):
        return math.inf
    if noise.rate == 1:
        return composed_epsilon("gdp", precision, delta)
    if factor == 2:
        return math.inf
    return composed_epsilon("pld", 0, delta, steps=SampledSteps(z, noise.rate, number))


def _uploads(noise: Noise, rounds: int | None) -> int:
    """Those of so many rounds; 1 where they are not known."""
    counts = Component(noise.source, {"rounds": 1 if rounds is None else rounds})
    return counts.count("rounds")


def claims(noise: Noise, delta: float, rounds: int | None) -> list[Claim]:
    """An upload's ε, and the run's where its rounds are known, by relation.

    Args:
      noise: of an upload.
      delta: δ of every row.
      rounds: in all of which the client takes part.

    Raises:
      ValueError: `rounds` is no whole number >= 1.
    """
    scopes = {"an upload": 1}
    if rounds is not None:
        scopes[f"{rounds} rounds"] = _uploads(noise, rounds)
    method = "exact" if noise.rate == 1 else "pld"
    if noise.pure is not None:
        method, delta = "basic", 0.0
    rows = []
    for scope, uploads in scopes.items():
        for relation, words in _RELATIONS[noise.unit].items():
            if relation == "replace_one" and noise.rate < 1:
                continue  # proved for a record that is left out
            if noise.pure is not None and relation != noise.relation == "replace_one":
                continue  # pure noise for a replacement
            value = epsilon(noise, relation, delta, uploads)
            rows.append(
                Claim(
                    SEEN[noise.view][0].format(1),
                    words,
                    f"{scope}, {method}",
                    value,
                    delta,
                    math.isfinite(value) and not noise.flaws,
                    "; ".join((*noise.assumptions, *noise.flaws)),
                )
            )
    return rows


def table(noise: Noise, delta: float, rounds: int | None) -> str:
    """The noise, its `claims`, and what they rest on, in lines."""
    return "\n".join(
        map(
            printable,
            (
                f"{noise.source}: {noise.text}",
                *(
                    f"{row.method:18}  ε = {row.epsilon:<9.4g}  δ = {row.delta:<9.4g}  "
                    f"{row.status:7}  {row.adversary}: {row.relation}"
                    for row in claims(noise, delta, rounds)
                ),
                *(f"assumed: {line}" for line in noise.assumptions),
                *(f"nominal: {line}" for line in noise.flaws),
            ),
        )
    )


class Change(NamedTuple):
    """The least change of a setting that makes a stated ε true."""

    setting: str
    least_value: float
    present_value: float


class Verdict(NamedTuple):
    """Whether a stated ε is reached; `str` gives it in lines.

    Attributes:
      stated: the claim.
      relation: in words.
      epsilon: what follows, at the stated δ.
      status: "proved", or "nominal": something was not understood, ε is infinite, or
        δ >= 1/n.
      reached: whether ε is proved and no more than was stated, to 0.1 %.
      least_change: None where nothing is to be changed, or no value would help.
      warning: of a δ above 0.001 or >= 1/n; "" of others.
    """

    stated: Stated
    relation: str
    epsilon: float
    status: str
    reached: bool
    least_change: Change | None
    warning: str

    def __str__(self) -> str:
        stated = self.stated
        text = (
            f"stated: ε = {stated.epsilon:g} at δ = {stated.delta:g}, {stated.per}, "
            f"{self.relation}: it {'follows' if self.reached else 'does not follow'}, "
            f"ε is {self.epsilon:.4g} ({self.status})"
        )
        if self.warning:
            text += f"\nwarning: {self.warning}"
        if self.least_change:
            name, value, present = self.least_change
            text += f"\nleast change: {name} = {value:.4g} (it is {present:g})"
        return text


def verdict(noise: Noise, stated: Stated, rounds: int | None) -> Verdict:
    """Compares the stated ε with the one that follows.

    Raises:
      ValueError: the run's ε is stated, and its rounds are not known; or `rounds` is
        no whole number >= 1.
    """
    if stated.per == "run" and rounds is None:
        raise ValueError(
            f"{noise.source}: the ε of a run needs its number of rounds; give --rounds "
            "(in Python rounds=)"
        )
    uploads = _uploads(noise, rounds)
    if stated.per == "upload":
        uploads = 1
    delta = stated.delta
    spent = epsilon(noise, noise.relation, delta, uploads)
    covers_publishing = delta * (stated.population_size or 0) >= 1
    is_sound = not (noise.flaws or covers_publishing)
    warning = ""
    if covers_publishing or delta > 1e-3:
        warning = (
            f"δ = {delta:g} is too large: who publishes one {noise.unit} of "
            f"{1 / delta:.0f} whole keeps it; take one far below 1 over their number"
        )
    is_counted = noise.rate == 1 or noise.relation == "zero_out"
    if not is_counted:
        warning = "to replace is not counted with Poisson batches: state zero_out"
    proved = math.isfinite(spent) and is_sound
    reached = proved and spent <= stated.epsilon * (1 + _TOLERANCE)
    change = None
    if (
        is_counted
        and is_sound
        and not reached
        and noise.setting
        and stated.epsilon * delta
    ):
        scale = noise.setting.per_multiplier
        z = _least_multiplier(noise, stated, uploads)
        change = Change(noise.setting.name, scale * z, scale * noise.multiplier)
    return Verdict(
        stated,
        _RELATIONS[noise.unit][noise.relation],
        spent,
        "proved" if proved else "nominal",
        reached,
        change,
        warning,
    )


def _least_multiplier(noise: Noise, stated: Stated, uploads: int) -> float:
    """The least z whose uploads keep what is stated, to 1e-4 from above.

    Raises:
      ValueError: not even z = 10,000,000 does.
    """

    def excess(z: float) -> float:
        changed = noise._replace(multiplier=z)
        value = epsilon(changed, noise.relation, stated.delta, uploads)
        return 1.0 if value > stated.epsilon else -1.0

    if excess(1e7) > 0:
        raise ValueError(
            f"no noise multiplier up to 10,000,000 gives ε = {stated.epsilon:g}"
        )
    return float(optimize.bisect(excess, 0, 1e7, rtol=1e-4)) * (1 + 1e-4)
