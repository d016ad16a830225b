"""The guarantees of a run as a table: against whom, at what ε, and resting on what."""

import math
from typing import NamedTuple

from fedsvp_jax.accounting.composition import check_delta
from fedsvp_jax.accounting.ledger import Ledger


class Guarantee(NamedTuple):
    """One row."""

    adversary: str
    relation: str  # neighbouring relation
    method: str  # composition
    epsilon: float  # of the client that spent most
    delta: float
    proved: bool  # false: nominal
    assumptions: str


_AVERAGED = (
    "sees the average alone, over a secure channel to an honest server; the other "
    "clients add their noise honestly"
)
_SEEN = {
    "server": ("server", "sees every upload"),
    "curious_client": (
        "honest-but-curious client",
        f"{_AVERAGED}; it knows its own noise, and is taken to see every round",
    ),
    "colluders": ("", f"{_AVERAGED}; the colluders pool their noise"),
    "observer": (
        "outside observer of the final model",
        f"{_AVERAGED}; counted as if it saw every round's model, since no gain from "
        "hiding the earlier ones is proved here",
    ),
}


def adversary_name(view: str) -> str:
    """How the rows call who has a view of `ledger.VIEWS` but the colluders'."""
    return _SEEN[view][0]


def guarantees(
    ledger: Ledger,
    delta: float,
    *,
    relation: str,
    assumptions: str,
    central: bool = False,
    against_server: bool = True,
    client_swap: float | None = None,
    any_epsilon: bool = False,
    secret_cohorts: bool = False,
    methods: tuple[str, ...] = ("rdp", "pld"),
) -> list[Guarantee]:
    """Every adversary's row by every method.

    Args:
      ledger: what was applied; unless it is `proved` all rows are nominal.
      delta: δ of the composed rows.
      relation: the mechanism's neighbouring relation.
      assumptions: what the claim rests on.
      central: the per-upload claims are made against those who see the average, so
        the basic row goes to the outside observer.
      against_server: whether any claim is made against the server.
      client_swap: L2 distance that swapping one client for another can cover, over
        the sensitivity; None where it has no bound. Amplification needs it.
      any_epsilon: whether the (ε, δ) claimed for an upload is proved at ε ≥ 1 too.
      secret_cohorts: whether cohorts are a uniform draw that nobody but the server
        sees, the same for all clients (so without participation caps), in which every
        client would weigh the same, drawn or not.
      methods: of rdp, pld, gdp.

    Returns:
      Rows in a fixed order: adversaries from the strongest to the weakest.
    """
    check_delta(delta)
    if ledger.concentrated:
        methods = tuple(method for method in methods if method == "rdp")
    rows = []
    for view, (name, sees) in _SEEN.items():
        if view == "colluders":
            name = f"honest-but-curious clients, {ledger.colluders} colluding"
        text = f"{sees}; {assumptions}"
        if view == "server" and not against_server:
            rows.append(
                Guarantee(
                    name,
                    relation,
                    "none",
                    math.inf,
                    delta,
                    False,
                    "the server is trusted: it sees more than noised uploads",
                )
            )
            continue
        if view == ("observer" if central else "server"):
            rows.append(_basic(ledger, name, relation, text, any_epsilon))
        for method in methods:
            epsilon = ledger.epsilon_spent(method, delta, view=view)
            finite = ledger.proved and math.isfinite(epsilon)
            rows.append(Guarantee(name, relation, method, epsilon, delta, finite, text))
    amplified = _amplified(ledger, delta, client_swap) if secret_cohorts else None
    if amplified is not None:
        text = (
            f"{_AVERAGED}; does not know who took part: each cohort is a uniform draw "
            f"of {ledger.even_cohort} of {ledger.num_clients}, kept secret; "
            f"{assumptions}"
        )
        rows.append(
            Guarantee(
                _SEEN["observer"][0],
                "replace a client",
                "rdp, sampled without replacement",
                amplified,
                delta,
                ledger.proved,
                text,
            )
        )
    return rows


def _basic(
    ledger: Ledger,
    name: str,
    relation: str,
    assumptions: str,
    any_epsilon: bool,
) -> Guarantee:
    """Basic composition of the claims; the classical formula's hold below ε = 1."""
    if not claims_hold(ledger, any_epsilon):
        assumptions += "; the classical formula, unproved at ε >= 1 for an upload"
    return Guarantee(
        name,
        relation,
        "basic",
        ledger.epsilon_spent("basic", 0.5),  # which reads no δ
        ledger.delta_spent(),
        basic_is_proved(ledger, any_epsilon),
        assumptions,
    )


def claims_hold(ledger: Ledger, any_epsilon: bool) -> bool:
    """Whether the (ε, δ) claimed for uploads follow, as the classical ones at ε < 1."""
    return any_epsilon or ledger.largest_claim < 1


def basic_is_proved(ledger: Ledger, any_epsilon: bool) -> bool:
    """Whether the sum of the claims is, and says anything."""
    finite = math.isfinite(ledger.epsilon_spent("basic", 0.5))
    proved = ledger.proved and claims_hold(ledger, any_epsilon)
    return proved and finite and ledger.delta_spent() < 1


def _amplified(ledger: Ledger, delta: float, client_swap: float | None) -> float | None:
    """ε with amplification by sampling, or None where it does not apply.

    Cohorts with and without a client differ by a *swap of clients*, so the gain
    needs a bound on that, which record-level sensitivities (2C/|D|, per-example) do
    not give. Weights and noise must be equal, else a swap changes them too.

    Source: Wang, Balle and Kasiviswanathan 2019 (arXiv 1808.00087), Theorem 27, by
    dp-accounting.
    """
    if ledger.concentrated:  # Theorem 27 bounds a sampled Gaussian
        return None
    if client_swap is None or ledger.even_cohort < 2 or ledger.release_epsilon > 0:
        return None
    import dp_accounting
    from dp_accounting.rdp import rdp_privacy_accountant

    multiplier = ledger.least_multiplier / client_swap
    if multiplier <= 0:
        return math.inf
    event = dp_accounting.SampledWithoutReplacementDpEvent(
        ledger.num_clients,
        ledger.even_cohort,
        dp_accounting.GaussianDpEvent(multiplier),
    )
    accountant = rdp_privacy_accountant.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    accountant.compose(event, ledger.rounds)
    return float(accountant.get_epsilon(delta))
