"""experiments.train as a user types it, and `kill -9`."""

import pathlib
import re
import time
import types

from commands import SMALL_RUN, assert_same_bytes, start, succeeds

from experiments import messages


def arguments(folder: pathlib.Path) -> tuple[str, ...]:
    return (
        "experiments.train",
        *SMALL_RUN,
        "--mechanism=nbafl",
        "--num_rounds=40",
        f"--output_dir={folder}",
        "--rounds_per_call=1",
        "--checkpoint_every=3",
        "--noreport",
    )


def test_a_killed_run_resumes_to_the_same_bytes_as_an_uninterrupted_one(
    tmp_path: pathlib.Path,
) -> None:
    whole, folder = tmp_path / "whole", tmp_path / "run"
    succeeds(*arguments(whole))
    with start(*arguments(folder)) as process:
        deadline = time.monotonic() + 600
        while not (folder / "checkpoints" / "6").exists():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.01)
        process.kill()
    assert not (folder / "summary.json").exists()
    resumed = succeeds(*arguments(folder), "--resume").stderr
    assert re.search(r"warning: goes on at round \d+ of \d+\n", resumed), resumed
    assert_same_bytes(folder, whole)


def test_the_result_stands_first_and_every_weaker_claim_below_it() -> None:
    """One paragraph mixed verdict, ε, a broken sum and advice, in lines of 300."""
    row = {"adversary": "server", "relation": "replace one record of a client"}
    row |= {"method": "rdp", "epsilon": 3.0, "delta": 1e-5, "status": "proved"}
    row |= {"assumptions": "secure aggregation shows the sum"}
    broken = row | {"epsilon": 40.0, "adversary": "postman"}
    bare = row | {"method": "none", "epsilon": None, "adversary": "milkman"}
    summary = {"guarantees": [row, broken, bare], "relation": row["relation"]}
    summary |= {"adversary": "server", "stopped_by": None, "params_sha256": "ab"}
    summary |= {"status": {"rdp": "proved"}, "test_scores": {"auc": 0.7}}
    config = {"clipping": "per_example", "num_clients": 4, "influence_filter": "none"}
    config |= {"mechanism": "gaussian", "total_epsilon": 3.0, "secret_noise": True}
    text = messages.filled(
        "train.txt",
        config=types.SimpleNamespace(**config),
        filter_cost=None,
        goal="proved",
        summary=summary,
        sentences={
            **{"quality": "Better. Right more often.", "privacy": "Against x: y"},
            **{"published": "", "together": "Beside.", "details": "Shares."},
            **{"unprotected": "No ε covers 3 rows.", "alone": "", "leak": ""},
        },
        spent="",
        place="DIR",
        names=[],
    )
    first, notes = text.split("\nWarnings and notes:\n")
    assert first.startswith("Better.\nRight more often.\nAgainst the server")
    assert "ε = 3 at δ = 1e-05" in first and "guesses are right" in first
    assert "postman" not in first and "milkman" not in first
    for note in (
        "Against postman: ε = 40, which promises no protection.",
        "Against milkman: nothing is hidden.",
        *("Beside.", "No ε covers 3 rows.", "All clients were simulated"),
        "What the claim rests on, and more: DIR/report.html",
    ):
        assert f"\n- {note}" in "\n" + notes, note
    assert max(map(len, (first + notes.split("fedsvp sweep")[0]).split("\n"))) <= 100
