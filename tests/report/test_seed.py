"""A claim of a run whose noise follows from a seed says so, wherever it is printed."""

import json
from pathlib import Path
from typing import Any

import pytest
from small_runs import digits, small

from experiments import messages
from fedsvp_jax import report, run
from fedsvp_jax.accounting.participation import SEED
from fedsvp_jax.report import headline, read

CONDITION = "proved, if the seed stays secret"
PROVED = {"clipping": "update_clip", "mechanism": "gaussian", "num_rounds": 1}


def trained(folder: Path, **changes: Any) -> dict[str, Any]:
    run.train(small(**(PROVED | changes)), folder, dataset=digits())
    return dict(json.loads((folder / "summary.json").read_text()))


@pytest.mark.hole
@pytest.mark.parametrize("secret", [False, True])
def test_proved_depends_on_the_seed_unless_the_noise_is_secret(
    secret: bool, tmp_path: Path
) -> None:
    """The terminal said "(proved)", the page of the same run "nothing is hidden"."""
    folder = tmp_path / "run"
    summary = trained(folder, secret_noise=secret)
    assert set(summary["status"].values()) == {"proved"}  # for machines
    for claim in summary["guarantees"]:
        assert (SEED in claim["assumptions"].split("; ")) != secret
    pages = [report.write_run_report(folder), folder / "protection.html"]
    texts = [
        headline.filled("privacy", summary),
        headline.filled("spent", summary),
        *(path.read_text() for path in pages),
        messages.filled("compare.txt", files=read.read_all([folder])),
    ]
    for text in (" ".join(text.split()) for text in texts):
        assert "proved" in text and (CONDITION in text) != secret
    assert ("Nobody has the seed" in texts[2]) != secret


def test_a_nominal_claim_and_none_get_no_condition(tmp_path: Path) -> None:
    changes = {
        "mechanism": "nbafl",
        "epsilon": 2.0,
        "allow_large_epsilon": True,
    }
    summary = trained(tmp_path / "run", **changes)
    spent = headline.filled("spent", summary)
    assert "(nominal), rdp" in spent and f"({CONDITION}), pld" in spent
