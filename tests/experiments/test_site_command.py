"""`fedsvp site init` and `fedsvp ledger`: a log is begun once, and shown."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest
from commands import ROOT, assert_sentence, command, environment
from deployed import model, trained

from fedsvp_jax.deploy import Site, private_round

SETTINGS = (
    *("--dataset=digits", "--mechanism=nbafl", "--clipping=update_clip"),
    *("--relation=add_remove", "--calibration=analytic", "--num_rounds=5"),
    *("--total_epsilon=3", "--solve=noise", "--delta=1e-6"),
)


def beginning(
    tmp_path: pathlib.Path, log: pathlib.Path, witness: pathlib.Path
) -> tuple[str, ...]:
    """The command that begins a log of records of their own."""
    records = tmp_path / "records.csv"
    records.write_text(f"age,finding\n50,{tmp_path.name}\n")
    places = (f"--log={log}", f"--witness={witness}", f"--records={records}")
    sizes = ("--num_examples=30", "--min_num_examples=20")
    return ("experiments.site", "init", *places, *sizes, *SETTINGS)


@pytest.mark.hole
def test_the_help_of_a_verb_is_its_own() -> None:
    """That of `join` had the flags of all verbs, and 120 settings that it refuses."""
    join = command("experiments.site", "join", "--help").stdout
    assert "fedsvp site join FOLDER --records=TABLE" in join and "--witness " in join
    assert "propose FOLDER" not in join and "init" not in join
    assert "--num_rounds" not in join and "Mechanisms:" not in join
    propose = command("experiments.site", "propose", "--help").stdout
    assert "--max_num_examples " in propose and "--num_rounds" in propose
    assert "--witness" not in propose and "--partition" not in propose
    # It named a hundred settings of research, and described none that it needs.
    assert propose.count("\n") < 40 and "Mechanisms:" not in propose
    whole = command("experiments.site", "propose", "--helpfull").stdout
    described = re.findall(r"(?m)^  --(\w+)", propose)
    of_verb = re.findall(r"(?m)^  --(?:\[no\])?(\w+):", whole)
    assert len(described) == 10 and {*described} < {*of_verb}
    for verb in ("join", "node", "test", "abandon"):
        text = command("experiments.site", verb, "--help").stdout
        described = re.findall(r"(?m)^  --(\w+)", text)
        (usage,) = re.findall(rf"(?s)  fedsvp site {verb} (.*?)\n\n", text)
        assert {*described} == {*re.findall(r"--(\w+)", usage)}, verb
    init = command("experiments.site", "init", "--helpfull").stdout
    assert "--partition: " in init and "--min_num_examples: " in init


@pytest.mark.hole
def test_a_site_with_a_training_of_its_own_names_no_data_set(
    tmp_path: pathlib.Path,
) -> None:
    """Without --dataset=npz it got the defaults of digits, such as δ = .1."""
    sizes = ("--num_examples=30", "--min_num_examples=20")
    line = ("experiments.site", "init", f"--log={tmp_path / 'log'}", *sizes)
    ended = command(*line, *SETTINGS[1:-1])
    assert ended.status == 0, ended
    assert Site(tmp_path / "log").policy.asked["config"]["dataset"] == "npz"


def test_a_log_is_begun_once_and_a_loop_of_ones_own_goes_on_with_it(
    tmp_path: pathlib.Path,
) -> None:
    log, witness = tmp_path / "north", tmp_path / "elsewhere"
    begin = beginning(tmp_path, log, witness)
    shown = command(*begin)
    assert shown.status == 0 and "site north: public key" in shown.stdout, shown
    assert "at δ = 1e-06" in shown.stdout and "solve" not in shown.stdout
    again = command(*begin)
    assert_sentence(again, "it has begun already")
    site = Site(log, witness=witness)
    with private_round(site, model(), round_num=1) as private:
        upload = private(trained(model()))
    assert [leaf.shape for leaf in upload] == [leaf.shape for leaf in model()]
    told = f"--witness={witness}"
    page = tmp_path / "page.html"
    shown = command("experiments.ledger", str(log), told, f"--page={page}")
    assert shown.status == 0 and "verdict: in order" in shown.stdout, shown
    assert page.is_file()
    log.write_bytes(log.read_bytes().replace(b'"round":1', b'"round":2'))
    shown = command("experiments.ledger", str(log), told)
    assert shown.status == 1
    assert "NOT IN ORDER: entry 2 of north was changed" in shown.stdout


@pytest.mark.hole
def test_a_log_without_a_round_is_abandoned_and_one_that_answered_stays(
    tmp_path: pathlib.Path,
) -> None:
    """Its line in budgets.jsonl, key and witness's file were to be deleted by hand."""
    log, witness = tmp_path / "west", tmp_path / "elsewhere"
    begin = beginning(tmp_path, log, witness)
    abandon = ("experiments.site", "abandon", f"--log={log}", f"--witness={witness}")
    assert command(*begin).status == 0
    refused = command(*beginning(tmp_path, tmp_path / "other", witness))
    assert_sentence(refused, f"deleted by fedsvp site abandon --log={log}")
    ended = command(*abandon)
    assert ended.status == 0 and "nothing was spent" in ended.stdout, ended
    left = [*tmp_path.glob("west*"), *witness.glob("*.seen.json")]
    assert not left
    assert command(*begin).status == 0
    site = Site(log, witness=witness)
    with private_round(site, model(), round_num=1) as private:
        private(trained(model()))
    assert_sentence(command(*abandon), "has answered a round")
    assert log.exists()
    log.write_bytes(log.read_bytes().splitlines(keepends=True)[0])
    assert_sentence(command(*abandon), "has answered a round")  # the witness knows


def test_the_program_around_a_loop_of_ones_own_runs_as_it_says(
    tmp_path: pathlib.Path,
) -> None:
    """`examples/private_round.py`: the lines of its docstring."""
    file = ROOT / "examples" / "private_round.py"
    text = ast.get_docstring(ast.parse(file.read_text())) or ""
    (typed,) = re.findall(r"^  for .*?witness-1$", text, re.DOTALL | re.MULTILINE)
    lines = typed.replace("fedsvp ", "python -m experiments.")
    lines = lines.replace("=sites", f"={tmp_path}").replace(" sites", f" {tmp_path}")
    line = ("bash", "-euc", lines.replace("python ", f"{sys.executable} "))
    ended = subprocess.run(
        line, cwd=ROOT, env=environment(), capture_output=True, text=True
    )
    assert ended.returncode == 0, ended
    assert "round 5: weights" in ended.stdout and "verdict: in order" in ended.stdout
    again = subprocess.run(
        [sys.executable, file, tmp_path], env=environment(), capture_output=True
    )
    assert again.returncode and b"round 1 is over" in again.stderr
    bare = subprocess.run(
        [sys.executable, file], env=environment(), capture_output=True
    )
    assert bare.returncode and b"name the folder of the three sites" in bare.stderr
    assert b"Traceback" not in bare.stderr
