"""What stands beside the ε of an upload in the results and tables of attacks."""

import json
import pathlib
from typing import Any

import pytest
from published import make

from experiments import messages, printed
from experiments.attack import upload_claims
from fedsvp_jax.accounting import Account, Participation
from fedsvp_jax.accounting.participation import STATS_LEAVE

KEPT = pathlib.Path(__file__).parents[3] / "experiments/studies/attacks"


def claim(name: str, *, keeps_stats: bool = False, **changes: Any) -> dict[str, Any]:
    mechanism = make(name, **changes)
    who = Participation(nominal=STATS_LEAVE if keeps_stats else "")
    return upload_claims.least_noised(Account.of(mechanism, who))


def claim_text(row: dict[str, Any]) -> str:
    macros = messages._templates().get_template("attack_claim.txt").module
    return str(macros.claim(row))


def test_an_epsilon_is_shown_with_its_delta_and_status() -> None:
    for clipping, status in (("paper", "nominal"), ("update_clip", "proved")):
        found = claim("nbafl", clipping=clipping)
        assert found["status"] == status
        told = f"{status}; against: server; neighbours: {found['relation']}"
        assert claim_text(found) == f"0.2 at δ = 0.02 ({told})"
    statistics = claim("nbafl", clipping="update_clip", keeps_stats=True)
    assert statistics["status"] == "nominal"
    average = claim_text(claim("dp_fedavg"))
    assert "at δ = 0.02 (proved; against: outside observer" in average
    assert claim("none") == upload_claims.NOTHING
    assert claim_text(claim("none")) == "–"


def test_the_least_noised_upload_is_that_of_any_round_and_ratio() -> None:
    growing = claim("time_varying", epsilon=0.2, clipping="update_clip")
    assert growing["epsilon"] > 0.3 and growing["status"] == "proved"
    assert claim("fedsva")["delta"] == pytest.approx(1.25 * 0.02, rel=1e-5)


def reconstructed(kept: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows that were kept with the scores of every class, of which one is private."""
    return [row | row["classes"][0] for row in kept["mechanisms"]]


@pytest.mark.hole
def test_the_attacks_tables_tell_delta_and_status_beside_every_epsilon() -> None:
    tables = {
        "membership": (  # rows of today say how many others there are
            "membership",
            lambda kept: [{"others": 10**6} | row for row in kept["rows"]],
        ),
        "acgan_mnist": ("reconstruction", reconstructed),
        **dict.fromkeys(
            ("gradient_inversion", "gradient_inversion_mnist"),
            ("gradient_inversion", lambda kept: [*kept["defences"], {"guess": 1.0}]),
        ),
    }
    for name, (template, rows_of) in tables.items():
        rows = rows_of(json.loads((KEPT / f"{name}.json").read_text()))
        options = {"before": rows[0], "run": None}
        cells = [
            cell
            for row in printed.filled_rows(f"attack_{template}.txt", rows, **options)
            for column, cell in row.items()
            if "ε" in column and cell not in ("–", "")
        ]
        assert cells
        for cell in cells:
            assert " at δ = " in cell and cell.endswith((" (nominal)", " (proved)"))
