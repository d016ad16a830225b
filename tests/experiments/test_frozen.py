"""Finished studies: their frozen code makes their pages of the rows that are kept."""

import pathlib
import re
import subprocess

import pytest
from commands import ROOT, assert_sentence, command, typed

from experiments import frozen

FASTEST = "mixed_baselines"
PAGES = sorted((ROOT / "docs").rglob("*.md"))


def git(*words: str) -> str | None:
    """What git says of this checkout; None where it fails or is not there."""
    line = ["git", "-C", str(ROOT), *words]
    try:
        done = subprocess.run(line, capture_output=True, text=True)
    except FileNotFoundError:
        return None
    return None if done.returncode else done.stdout.strip()


def started() -> set[tuple[str, str]]:
    """Commits of finished studies, each with a module that a page starts there."""
    found = set()
    for page in PAGES:
        for block in re.findall(r"^```text\n(.*?)^```$", page.read_text(), re.M | re.S):
            block = block.replace("\\\n", " ")
            found |= {*re.findall(r"frozen (\w+) --\s+python -m ([\w.]+)", block)}
            for commit in re.findall(r"git worktree add --detach \S+ (\w+)", block):
                of_block = re.findall(r"python -m ([\w.]+)", block)
                found |= {(commit, module) for module in of_block}
    known = frozen.STUDIES
    return {(known[at].commit if at in known else at, what) for at, what in found}


history = pytest.mark.skipif(
    git("rev-parse", "--is-shallow-repository") != "false",
    reason="no history of the code: an archive or a shallow clone",
)


def test_each_page_names_its_command_and_main_has_its_commit() -> None:
    for name, study in frozen.STUDIES.items():
        words = " ".join((ROOT / "docs" / study.page).read_text().split())
        assert f"python -m experiments.frozen {name}" in words, name
        if not history.args[0]:
            assert git("merge-base", "--is-ancestor", study.commit, "HEAD") is not None


@history
def test_a_commit_has_the_code_that_a_page_starts_or_names_there() -> None:
    """As `COMMIT:PATH`, or as a command in a block of text."""
    modules = started()
    assert len(modules) >= 15
    for commit, module in modules:
        files = (f"{module.replace('.', '/')}{end}" for end in (".py", "/__main__.py"))
        assert git("ls-tree", "--name-only", commit, *files), (commit, module)
    named = re.findall(
        r"`([0-9a-f]{7}:[\w/.]+)`", "".join(page.read_text() for page in PAGES)
    )
    assert len(named) >= 5
    for path in named:
        assert git("cat-file", "-t", path), path


@history
@pytest.mark.parametrize(
    "name",
    [
        name if name == FASTEST else pytest.param(name, marks=pytest.mark.slow)
        for name in frozen.STUDIES
    ],
)
def test_a_page_is_what_the_frozen_code_makes_of_its_rows(name: str) -> None:
    assert frozen.difference(name, ROOT / "docs") == ""


@history
def test_a_page_that_its_rows_do_not_give_is_shown_as_a_patch(
    tmp_path: pathlib.Path,
) -> None:
    results = tmp_path / "docs" / "results"
    results.mkdir(parents=True)
    for name in (f"{FASTEST}.md", f"{FASTEST}.json"):
        text = (ROOT / "docs" / "results" / name).read_text()
        results.joinpath(name).write_text(text.replace("| CNN @ FEMNIST", "| nothing"))
    lines = frozen.difference(FASTEST, results.parent).splitlines()
    assert lines[0] == f"--- a/docs/results/{FASTEST}.md"
    assert any(line.startswith("-| nothing |") for line in lines)
    assert any(line.startswith("+| CNN @ FEMNIST |") for line in lines)


@history
def test_a_command_runs_the_frozen_code_where_it_is_typed_and_leaves_no_worktree() -> (
    None
):
    asked = "import os, experiments.decisive as d; print(os.getcwd(), d.__file__)"
    line = ["decisive", "--", "python", "-c", f"{asked}; raise SystemExit(3)"]
    ended = typed("experiments.frozen", *line)
    folder, file = ended.stdout.split()
    assert (ended.status, folder) == (3, str(ROOT))
    assert not file.startswith(str(ROOT)) and not pathlib.Path(file).exists()
    assert str(pathlib.Path(file).parents[2]) not in str(git("worktree", "list"))


def test_what_cannot_be_run_is_said_in_a_sentence(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for words in ([], ["decisiv"], ["0f645f2"]):
        assert_sentence(command("experiments.frozen", *words), "study must be one of")
    if not history.args[0]:
        ended = command("experiments.frozen", "0000000", "--", "true")
        assert_sentence(ended, "lacks commit 0000000, as shallow ones do")
    monkeypatch.setattr(frozen, "ROOT", tmp_path)
    with pytest.raises(ValueError, match="must be a clone of the repository"):
        frozen.difference("decisive", ROOT / "docs")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ValueError, match="git, which keeps the frozen code, is not"):
        frozen.difference("decisive", ROOT / "docs")
