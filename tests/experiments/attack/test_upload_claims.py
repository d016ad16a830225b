"""What stands beside the ε of an upload in the results and tables of attacks."""

import json
import pathlib
from typing import Any

import pytest
from published import make
from small_runs import digits, small

from experiments import messages, printed
from fedsvp_jax.accounting import Account, Participation, claims, composed_epsilon
from fedsvp_jax.accounting.participation import STATS_LEAVE
from fedsvp_jax.federation import build

KEPT = pathlib.Path(__file__).parents[3] / "experiments/studies/attacks"


def claim(name: str, *, keeps_stats: bool = False, **changes: Any) -> dict[str, Any]:
    mechanism = make(name, **changes)
    who = Participation(nominal=STATS_LEAVE if keeps_stats else "")
    account, most = Account.of(mechanism, who), mechanism.most_epsilon
    return claims.of_upload(account, most, mechanism.most_delta)


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
    assert claim("none") == claims.NOTHING
    assert claim_text(claim("none")) == "–"


def test_the_least_noised_upload_is_that_of_any_round_and_ratio() -> None:
    growing = claim("time_varying", epsilon=0.2, clipping="update_clip")
    assert growing["epsilon"] > 0.3 and growing["status"] == "proved"
    assert claim("fedsva")["delta"] == pytest.approx(1.25 * 0.02, rel=1e-5)


def test_the_claim_of_a_run_is_that_of_an_upload_in_every_round() -> None:
    """Tables of attacks on a model said ε of one upload, and no ceiling."""
    settings = {"num_rounds": 3, "clipping": "update_clip", "calibration": "analytic"}
    config = small(mechanism="nbafl", epsilon=0.5, delta=1e-5, **settings)
    (account,) = build([config], digits()).accounts
    row = claims.of_run(account)
    noise = float(account.mechanism.least_multiplier)
    exact = composed_epsilon("rdp", 3 / noise**2, 1e-5)
    assert (row["epsilon"], row["delta"]) == (pytest.approx(exact), 1e-5)
    assert (row["status"], row["adversary"]) == ("proved", "server")
    assert row["upload_epsilon"] == 0.5 < row["epsilon"] < 1.5
    (account,) = build([small(mechanism="none")], digits()).accounts
    assert claims.of_run(account).items() >= claims.NOTHING.items()


def of_run(kept: dict[str, Any]) -> dict[str, Any]:
    """A row as of today; it was kept when its claim was that of one upload."""
    return {"upload_epsilon": kept["epsilon"], "others": 10**6, "members": 9} | kept


def reconstructed(kept: dict[str, Any]) -> list[dict[str, Any]]:
    """Rows that were kept with the scores of every class, of which one is private."""
    return [of_run(row) | row["classes"][0] for row in kept["mechanisms"]]


def test_the_ceiling_and_the_number_of_victims_stand_in_the_tables() -> None:
    """Shadow models had no ceiling, and two victims looked like an interval."""
    claim = {"epsilon": 1.0, "delta": 1e-5, "status": "proved", "relation": "one"}
    claim |= {"adversary": "server", "mechanism": "nbafl", "clipping": "update_clip"}
    found = {"noise_over_gradient": 2.0, "match": "l2", "labels_read": 1}
    psnr = {"psnr_mean": 5.0, "psnr_min": 1.0, "psnr_max": 9.0, "psnr_half_width": 0.5}

    def row(victims: int) -> dict[str, str]:
        template, more = "attack_gradient_inversion.txt", {"victims": victims}
        (cells,) = printed.filled_rows(template, [claim | found | psnr | more], **more)
        return cells

    assert row(2)["PSNR in dB, mean of 2 (min to max)"] == "5.0 (1.0 to 9.0)"
    assert row(5)["PSNR in dB, mean of 5 (95 %)"] == "5.0 (4.5 to 5.5)"
    assert row(5)["guesses between two images, right of 100 at most"] == "73.1"
    kept = json.loads((KEPT / "membership.json").read_text())["rows"][-1]
    shadows = of_run(kept) | claim
    (cells,) = printed.filled_rows("attack_membership.txt", [shadows], run=None)
    assert cells["highest TPR at 1 % FPR that it allows"] == "2.72%"


@pytest.mark.hole
def test_the_attacks_tables_tell_delta_and_status_beside_every_epsilon() -> None:
    tables = {
        "membership": ("membership", lambda kept: map(of_run, kept["rows"])),
        "acgan_mnist": ("reconstruction", reconstructed),
        **dict.fromkeys(
            ("gradient_inversion", "gradient_inversion_mnist"),
            ("gradient_inversion", lambda kept: [*kept["defences"], {"guess": 1.0}]),
        ),
    }
    for name, (template, rows_of) in tables.items():
        rows = [*rows_of(json.loads((KEPT / f"{name}.json").read_text()))]
        options = {"before": rows[0], "run": None, "victims": 3}
        cells = [
            cell
            for row in printed.filled_rows(f"attack_{template}.txt", rows, **options)
            for column, cell in row.items()
            if "ε" in column and cell not in ("–", "")
        ]
        assert cells
        for cell in cells:
            assert " at δ = " in cell and cell.endswith((" (nominal)", " (proved)"))
