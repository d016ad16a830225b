"""experiments.reproduce: runs, keeps, goes on, and rewrites what is marked."""

import pathlib
import shutil

import pytest
from commands import ROOT

from experiments import pages, presets
from experiments.reproduce import __main__ as reproduce
from experiments.reproduce import results

TINY = """# Two rounds of a gap. Small.
# Against gap_digits.flags:
#   num_rounds: 100 -> 2
--dataset=digits
--model=mlp
--mechanisms=nbafl,fedsva
--epsilons=0.3
--seeds=0:2
--num_clients=6
--num_hbc_clients=1
--cohort_size=2
--class_share=0.03
--batch_size=5
--local_epochs=1
--num_rounds=2
"""


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A copy of the page, without results."""
    folder = tmp_path_factory.mktemp("docs")
    kept = folder / "results" / "reproduction"
    kept.mkdir(parents=True)
    shutil.copy(ROOT / "docs" / "results" / "reproduction" / "published.json", kept)
    for name in ("reproduction.md", "results/reproduction.md"):
        shutil.copy(ROOT / "docs" / name, folder / name)
    return folder


@pytest.fixture
def tiny(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> presets.Preset:
    monkeypatch.setattr(presets, "FOLDER", tmp_path)
    (tmp_path / "gap_digits_small.flags").write_text(TINY)
    return presets.read_preset("gap_digits_small")


@pytest.mark.slow
def test_a_preset_is_run_once_kept_and_shown(
    tiny: presets.Preset, docs: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "run"
    reproduce.run_preset(tiny, "", folder)
    times = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    reproduce.run_preset(tiny, "", folder)
    assert times == {path: path.stat().st_mtime_ns for path in folder.iterdir()}

    kept = results.collect(folder, name=tiny.name, command="the command")
    assert kept["device_kind"] == "cpu"
    assert {"python", "jax", "numpy"} <= set(kept["versions"])
    results.write(docs / "results" / "reproduction" / f"{tiny.name}.json", kept)
    pages.written("reproduction", docs)
    page = (docs / "results" / "reproduction.md").read_text()
    (row,) = (x for x in page.splitlines() if x.startswith("| gap_digits, small"))
    assert f"| 2 | {row.split('|')[4].strip()} |" in row and kept["date"] in row
    assert kept["settings"]["num_rounds"] == 2
    assert {g["mechanism"] for g in kept["groups"]} == {"nbafl", "fedsva"}

    # an interrupted sweep goes on: without its last mechanism and the mark of its end
    (folder / "finished").unlink()
    rows = (folder / "results.jsonl").read_text()
    shutil.rmtree(folder / "checkpoints" / "fedsva")
    reproduce.run_preset(tiny, "", folder)
    again = sorted((folder / "results.jsonl").read_text().splitlines())
    assert again == sorted(rows.splitlines())

    # other settings in the same folder are refused, not mixed
    changed = tiny._replace(flags=tiny.flags | {"num_rounds": "3"})
    presets.FOLDER.joinpath(f"{tiny.name}.flags").write_text(
        TINY.replace("--num_rounds=2", "--num_rounds=3")
    )
    with pytest.raises(ValueError, match="ended with status 2"):
        reproduce.run_preset(changed, "", folder)


def test_data_are_named_by_the_flag_or_the_environment_and_digits_need_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digits, femnist = (
        presets.read_preset(name)
        for name in ("gap_digits_small", "fedsva_table1_leaf_small")
    )
    monkeypatch.setenv("FEDSVP_DATA", "/from/environment")
    assert reproduce.find_data("/named", [femnist]) == "/named"
    assert reproduce.find_data(None, [femnist]) == "/from/environment"
    monkeypatch.delenv("FEDSVP_DATA")
    assert reproduce.find_data(None, [digits]) == ""
    with pytest.raises(
        ValueError, match="femnist, which preset fedsva_table1_leaf_small"
    ):
        reproduce.find_data(None, [digits, femnist])


def test_only_digits_goes_without_data() -> None:
    lines = {
        name: reproduce.arguments(
            presets.read_preset(name), "DATA", pathlib.Path("folder")
        )
        for name in ("gap_digits_small", "fedsva_table1_leaf_small")
    }
    assert "--data_dir=DATA" not in lines["gap_digits_small"]
    assert "--data_dir=DATA" in lines["fedsva_table1_leaf_small"]
    for name, line in lines.items():
        assert f"--flagfile=experiments/presets/{name}.flags" in line
        assert "--resume" in line
