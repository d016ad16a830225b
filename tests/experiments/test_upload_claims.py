"""What stands beside the ε of an upload in the results and tables of attacks."""

import json
import pathlib
from typing import Any

import pytest
from published import make

from experiments import upload_claims
from experiments.attack import (
    inversion_results,
    membership_results,
    reconstruction_results,
)
from fedsvp_jax.report import figures

KEPT = pathlib.Path(__file__).parents[2] / "docs/results/attacks"


def kept(name: str) -> dict[str, Any]:
    return json.loads((KEPT / f"{name}.json").read_text())


def claim(name: str, *, keeps_stats: bool = False, **changes: Any) -> dict[str, Any]:
    mechanism = make(name, **changes)
    return upload_claims.least_noised(mechanism, keeps_stats=keeps_stats)


def test_an_epsilon_is_shown_with_its_delta_and_status() -> None:
    for sensitivity, status in (("paper", "nominal"), ("update_clip", "proved")):
        found = claim("nbafl", sensitivity=sensitivity)
        assert found["status"] == status
        told = f"{status}; against: server; neighbours: {found['relation']}"
        assert upload_claims.shown(found) == f"0.2 at δ = 0.02 ({told})"
    statistics = claim("nbafl", sensitivity="update_clip", keeps_stats=True)
    assert statistics["status"] == "nominal"


def test_a_claim_about_the_average_is_called_that() -> None:
    text = upload_claims.shown(claim("dp_fedavg"))
    assert "at δ = 0.02 (proved; against: outside observer" in text


def test_where_nothing_is_claimed_no_epsilon_is_shown() -> None:
    assert claim("none") == upload_claims.NOTHING
    assert upload_claims.shown(claim("none")) == "–"


def test_the_least_noised_upload_is_that_of_any_round_and_ratio() -> None:
    growing = claim("time_varying", epsilon=0.2, sensitivity="update_clip")
    assert growing["epsilon"] > 0.3 and growing["status"] == "proved"
    assert claim("fedsva")["delta"] == pytest.approx(1.25 * 0.02, rel=1e-5)


@pytest.mark.hole
def test_g18_the_attacks_tables_tell_delta_and_status_beside_every_epsilon() -> None:
    tables = {
        "membership": lambda kept: membership_results.table(kept["rows"]),
        "acgan_digits": reconstruction_results.table,
        **dict.fromkeys(
            ("gradient_inversion", "gradient_inversion_mnist"),
            lambda kept: inversion_results.table(kept["defences"], kept["mean_image"]),
        ),
    }
    for name, table in tables.items():
        cells = [
            cell
            for row in table(kept(name))
            for column, cell in row.items()
            if "ε" in column and cell not in ("–", "")
        ]
        assert cells
        for cell in cells:
            assert " at δ = " in cell and cell.endswith((" (nominal)", " (proved)"))


@pytest.mark.hole
def test_g18_the_curves_of_membership_tell_delta_and_status(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown: list[str] = []

    class Axes:
        xaxis = yaxis = None

        def plot(self, *_: Any, label: str, **__: Any) -> None:
            shown.append(label)

        def __getattr__(self, name: str) -> Any:
            return lambda *_, **__: None

    monkeypatch.setattr(figures, "log_axis", lambda *_: None)
    monkeypatch.setattr(
        figures, "panels", lambda _, draws: [draw(Axes()) for draw in draws]
    )
    membership_results.draw(pathlib.Path("roc.svg"), kept("membership")["rows"])
    assert "NbAFL, ε = 0.1 at δ = 1e-05 (nominal)" in shown
    for label in shown:
        assert "ε" not in label or label.endswith(" (nominal)")
