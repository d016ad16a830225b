"""`experiments.predict`: the accuracy, the file of predictions, the exported model."""

import csv
import shutil
from pathlib import Path

import numpy as np
from commands import command
from small_runs import digits


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


def test_a_run_predicts_its_test_set_and_new_examples(
    whole_run: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(whole_run, tmp_path / "run"))
    done = command("experiments.predict", str(folder))
    assert done.status == 0, done
    rows = read(folder / "predictions.csv")
    right = np.mean([row["label"] == row["predicted"] for row in rows])
    assert f"accuracy after 6 rounds: {right:.4f}" in done.stdout
    assert len(rows) == len(digits().test_labels)

    np.save(tmp_path / "new.npy", digits().test_inputs[:3])
    target = tmp_path / "new.csv"
    new = (f"--inputs={tmp_path / 'new.npy'}", f"--to={target}")
    assert command("experiments.predict", str(folder), *new).status == 0
    few = read(target)
    assert [row["predicted"] for row in few] == [row["predicted"] for row in rows[:3]]


def test_the_model_is_exported(whole_run: Path, tmp_path: Path) -> None:
    target = tmp_path / "model.msgpack"
    done = command("experiments.predict", str(whole_run), f"--export={target}")
    assert done.status == 0 and str(target) in done.stdout, done
    assert target.stat().st_size > 1000


def test_bad_input_ends_with_one_sentence(whole_run: Path, tmp_path: Path) -> None:
    text = tmp_path / "text.npy"
    text.write_text("1, 2")
    for line, message in {
        (): "name one folder of a run",
        (str(tmp_path),): "holds no run",
        (str(whole_run), f"--inputs={text}"): "is not an .npy file",
        (str(whole_run), "--inputs=nowhere.npy"): "nowhere.npy",
        (str(whole_run), f"--export={tmp_path}/model.pt"): ".safetensors or .msgpack",
    }.items():
        done = command("experiments.predict", *line)
        assert done.status == 2, done
        assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done
        assert message in done.stderr, done
