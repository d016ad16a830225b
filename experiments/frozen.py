"""Runs the code of a finished study, which git keeps: its rows and its page are here.

  python -m experiments.frozen decisive
  python -m experiments.frozen decisive -- python -m experiments.decisive --part=H1

The first lets the study's frozen code write its page anew from the rows of this
folder's docs/results, in a copy, and says whether docs/ holds the same; a difference is
printed as a patch. The second runs any command with the frozen code in the folder where
it is typed; rows of older code name its commit, which stands in the study's place then.
The code lies in a git worktree meanwhile, which is removed at the end.

Exit status: 0 the same, or what COMMAND ends with; 1 a difference; 2 bad input.
"""

import contextlib
import difflib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fedsvp_jax.settings import unknown

from . import command, docs_blocks

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Study(NamedTuple):
    """A study that is over."""

    page: str  # in docs/, which names this command
    commit: str = "0f645f2"  # the last with its code
    writer: str = "experiments.pages"  # its module that writes the pages named to it


_COMMIT = re.compile("[0-9a-f]{7,40}")
STUDIES = {
    "attacks": Study("results/attacks.md"),
    "data": Study("results/data.md"),
    "data_value": Study("results/data_value.md"),
    "decisive": Study("decisive.md"),
    "features": Study("results/features.md"),
    "guarantees": Study("results/guarantees.md", "8e72fbb"),
    "influence": Study("results/influence.md"),
    "mixed_baselines": Study("results/mixed_baselines.md"),
    "one_attribute": Study("results/one_attribute.md"),
    "own_data": Study("results/own_data.md"),
    "performance": Study("results/performance.md"),
    "registered_resnet": Study(
        "appendix/registered_resnet.md", "1424498", "experiments.registered_resnet"
    ),
    "reproduction": Study("reproduction.md"),
    "shapley": Study("results/shapley.md", "b89461f", "experiments.shapley.docs_page"),
    "testing": Study("results/testing.md", "1424498", "tests.mutants.page"),
    "utility": Study("results/utility.md"),
}


def _git(*words: str) -> bool:
    """Whether git did what it was asked to.

    Raises:
      ValueError: git is not installed.
    """
    try:
        done = subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True)
    except FileNotFoundError:
        raise ValueError("git, which keeps the frozen code, is not installed") from None
    return done.returncode == 0


@contextlib.contextmanager
def worktree(commit: str) -> Iterator[pathlib.Path]:
    """A folder with the code of a commit.

    Raises:
      ValueError: this is no clone, or one without that commit.
    """
    if not _git("rev-parse", "--git-dir"):
        raise ValueError(
            f"{ROOT} must be a clone of the repository, whose history has the code of "
            "finished studies"
        )
    if not _git("cat-file", "-e", f"{commit}^{{commit}}"):
        raise ValueError(
            f"this clone lacks commit {commit}, as shallow ones do: "
            "`git fetch --unshallow` brings it"
        )
    with tempfile.TemporaryDirectory() as scratch:
        code = pathlib.Path(scratch, "code")
        if not _git("worktree", "add", "--detach", str(code), commit):
            raise ValueError(f"git could not make a worktree of {commit} in {scratch}")
        try:
            yield code
        finally:
            _git("worktree", "remove", "--force", str(code))


def run(code: pathlib.Path, words: Sequence[str], folder: pathlib.Path) -> int:
    """The exit status of a command, which imports `code` and works in `folder`."""
    python = pathlib.Path(sys.executable).parent
    environment = os.environ | {
        "PATH": f"{python}{os.pathsep}{os.environ.get('PATH', '')}",
        "PYTHONPATH": str(code),
        "PYTHONSAFEPATH": "1",  # or `python -m` would take the code of the folder
    }
    return subprocess.run(words, cwd=folder, env=environment).returncode


def difference(name: str, docs: pathlib.Path) -> str:
    """What the frozen code writes otherwise than `docs` has it, as a patch.

    Raises:
      ValueError: as `worktree`, or the frozen code refuses the rows or the page.
    """
    patch: list[str] = []
    with worktree(STUDIES[name].commit) as code:
        copy = shutil.copytree(docs, code.parent / "docs")
        writer = STUDIES[name].writer
        named = [name] if writer == Study._field_defaults["writer"] else []
        if run(code, ["python", "-m", writer, *named], copy.parent):
            raise ValueError(f"the frozen code of {name} could not write its page")
        for page in sorted(copy.rglob("*.md")):
            path = page.relative_to(copy)
            both = ((docs / path).read_text(), page.read_text())
            before, after = (text.splitlines(keepends=True) for text in both)
            names = f"a/docs/{path}", f"b/docs/{path}"
            patch += difflib.unified_diff(before, after, *names)
    return "".join(patch)


def main(arguments: list[str]) -> None:
    """Compares a page, or runs what stands after `--`."""
    name, *words = arguments[1:] or [""]
    if not (words and _COMMIT.fullmatch(name)) and name not in STUDIES:
        raise ValueError(unknown("study", name, tuple(STUDIES)))
    if words:
        with worktree(STUDIES[name].commit if name in STUDIES else name) as code:
            sys.exit(run(code, words, pathlib.Path.cwd()))
    if patch := difference(name, docs_blocks.DOCS):
        print(patch, end="")
        sys.exit(1)
    print(f"docs/{STUDIES[name].page} is what the frozen code makes of its rows")


if __name__ == "__main__":
    command.run(main, __doc__, takes_arguments=True)
