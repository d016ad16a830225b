"""`--attack=audit`, as typed: what is proved holds, what is nominal is shown broken."""

import pathlib

import pytest
from commands import assert_resumed, results, succeeds

TINY = (
    "experiments.attack",
    "--attack=audit",
    "--audit_mechanisms=dp_fedavg,nbafl",
    "--audit_trials=400",
    "--num_rounds=2",
)


@pytest.mark.slow
def test_claims_are_audited_and_resume_repeats_the_bytes(tmp_path: pathlib.Path):
    folder = tmp_path / "run"
    done = succeeds(*TINY, f"--output_dir={folder}")
    rows = results(folder)["rows"]
    seen = {(r["mechanism"], r["clipping"], r["worlds"], r["uploads"]) for r in rows}
    assert ("dp_fedavg", "update_clip", "presence", 2) in seen
    assert ("nbafl", "per_example", "record", 1) in seen
    for row in rows:
        trained = row["clipping"] == "paper" and row["worlds"] != "granted"
        expected = "holds"
        if trained:
            expected = "VIOLATED" if row["worlds"] == "record" else "no claim"
        assert row["status"] == expected, row
        assert row["proved"] == (row["clipping"] != "paper")
        kinds = {"basic", "rdp", "pld", "basic_delta"}
        assert set(row["claims"]) - {"promise"} == kinds
    assert "VIOLATED" in done.stdout

    assert_resumed(TINY, folder, "dp_fedavg-update_clip-presence")
