"""The mutation run: which small mistakes in the code would the tests notice?

  make mutants                          all parts, all mutants (hours)
  make mutants PART=accounting          one part of tests/mutants/parts.py
  make mutants PART=round SAMPLE=40     at most 40 mutants per module, drawn by a seed
  make mutants AGAIN=1                  once more those that survived, after new tests
  make mutants SINCE=c035aaa            only of lines that are new since a commit
  make mutants TABLES=1                 only the page

mutmut makes the mutants and runs the tests, in runs/mutants/PART. A run that was
stopped goes on. What it found is kept in docs/results/testing/mutants.json, and the
tables of docs/results/testing.md are written from it. tests/mutants/equivalent.toml
lists mutants that no test can notice, with the reason. Left out are mutants in a
`raise`, those that change nothing but a text, and those that leave out a dtype: JAX
makes float32 and int32 by itself, and the tests run with strict promotion.
"""

import argparse
import difflib
import json
import os
import pathlib
import random
import re
import subprocess
import sys
from typing import Any, NamedTuple

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.file_mutation import MutatedFile, mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name, mangled_name_from_mutant_name

from .page import DOCS, MUTANTS, key, reasons, write_pages
from .parts import PARTS

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = pathlib.Path("fedsvp_jax")
RESULTS = DOCS / MUTANTS
SEED = 0
NOT_RUN = "not checked"
NOTICED = ("killed", "timeout")  # a mutant that never ends is noticed by who waits
# No settings of the run: how mutmut copies, forks, and what it leaves alone.
CONFIG = """
[tool.mutmut]
source_paths = ["{package}"]
only_mutate = {modules}
also_copy = ["experiments", "docs"]
pytest_add_cli_args = ["-p", "tests.mutants.plugin", "-k", {left_out}]
pytest_add_cli_args_test_selection = {tests}
do_not_mutate_patterns = ['raise \\w+']
process_isolation = "forkserver"
use_git_change_detection = false
timeout_multiplier = 5.0
timeout_constant = 12.0
"""
# mutmut without its run of the tests on code without mutants: they have passed when it
# noted which of them call which function.
_MUTMUT = """
from mutmut.__main__ import cli
from mutmut.workers.isolation import ForkServerRunner
ForkServerRunner.run_clean_tests = lambda runner, tests: 0
cli()
"""
_TEXT = re.compile(r"""[rf]?("(\\.|[^"\\])*"|'(\\.|[^'\\])*')""")
_DTYPE = re.compile(  # an argument, or a line of its own
    r"(,\s*|^|(?<=astype\())(dtype=)?"
    r"((jnp|np)\.(bool|float|int|uint)\d*_?|float|int|bool|[\w.]+\.dtype|None)"
    r"(?=\s*([,)]|$))"
)


class Change(NamedTuple):
    """What a mutant changes."""

    module: str  # its path below fedsvp_jax
    function: str
    before: str
    after: str
    lines: tuple[str, ...]  # of `before`


def mutated(module: str) -> MutatedFile:
    """A module with all its mutants, as it is now."""
    path = PACKAGE / module
    return mutate_file_contents(str(path), path.read_text())


def changes(module: str) -> dict[str, Change]:
    """The mutants of a module, by mutmut's names, without those of texts."""
    made, path = mutated(module), PACKAGE / module
    lines = made.code.splitlines()

    def source(name: str) -> list[str]:
        span = made.line_span_by_function_name[name]
        text = "\n".join(lines[span.start - 1 : span.end])
        return re.sub(r"(def \w+__mutmut)_\w+", r"\1", text).splitlines()

    found = {}
    for name in made.mutant_names:
        function = mangled_name_from_mutant_name(name)
        diff = list(difflib.ndiff(source(f"{function}__mutmut_orig"), source(name)))
        gone, come = (
            tuple(line[2:].strip() for line in diff if line.startswith(sign))
            for sign in ("- ", "+ ")
        )
        before, after = " ".join(gone), " ".join(come)
        if essence(before) != essence(after):
            key = get_mutant_name(path, name)
            called = function.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
            found[key] = Change(module, called, before, after, gone)
    return found


def essence(code: str) -> str:
    """Code without its texts and without dtypes among the arguments."""
    code = _TEXT.sub('""', code)
    return re.sub(r",\s*\)", ")", _DTYPE.sub("", code)).rstrip(" ,)")


def prepare(part: str) -> pathlib.Path:
    """The folder in which mutmut works on a part."""
    folder = ROOT / "runs/mutants" / part
    folder.mkdir(parents=True, exist_ok=True)
    for name in (str(PACKAGE), "tests", "experiments", "docs"):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(ROOT / name)
    config = CONFIG.format(
        package=PACKAGE,
        modules=json.dumps([str(PACKAGE / module) for module in PARTS[part].modules]),
        tests=json.dumps(PARTS[part].tests),
        left_out=json.dumps(" and ".join(f"not {w}" for w in PARTS[part].left_out)),
    )
    (folder / "pyproject.toml").write_text(
        (ROOT / "pyproject.toml").read_text() + config
    )
    for module in PARTS[part].modules:  # half written, if mutmut was stopped then
        made = folder / "mutants" / PACKAGE / module
        if not made.with_name(f"{made.name}.meta").exists():
            made.unlink(missing_ok=True)
    return folder


def statuses(module: str) -> dict[str, str]:
    """What became of each mutant of a module: "killed", "survived", "no tests"...

    A function that was changed since is left out.
    """
    data = SourceFileMutationData(path=PACKAGE / module)
    data.load()
    now, then = mutated(module).hash_by_function_name, data.hash_by_function_name

    def is_current(name: str) -> bool:
        function = mangled_name_from_mutant_name(name).rpartition(".")[2]
        return now.get(function) == then.get(function)

    return {
        name: status_by_exit_code[code]
        for name, code in data.exit_code_by_key.items()
        if is_current(name)
    }


def new_lines(module: str, since: str) -> set[str]:
    """The lines of a module that are not in a commit, without what is around them."""
    diff = subprocess.run(
        ["git", "diff", "-U0", since, "--", str(ROOT / PACKAGE / module)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    added = re.findall(r"^\+(?!\+\+ )(.*)$", diff.stdout, re.MULTILINE)
    return {line.strip() for line in added}


def chosen(
    module: str, sample: int | None, since: str | None = None
) -> dict[str, tuple[Change, str]]:
    """The mutants of a module that count, and what became of them.

    They are all, or as many as a seed draws, and those that ran before. With `since`
    only those of which a line is new.
    """
    found, known = changes(module), statuses(module)
    if since is not None:
        new = new_lines(module, since)
        found = {name: one for name, one in found.items() if new & set(one.lines)}
    drawn = sorted(found)
    random.Random(SEED).shuffle(drawn)
    ran = {name for name, status in known.items() if status != NOT_RUN}
    names = found.keys() & (ran | set(drawn[:sample]))
    return {name: (found[name], known.get(name, NOT_RUN)) for name in sorted(names)}


def run(part: str, *, sample: int | None, again: bool, since: str | None) -> None:
    """Runs the mutants of a part that have not been run, with `again` the survivors."""
    os.chdir(prepare(part))
    waiting = [
        name
        for module in PARTS[part].modules
        for name, (_, status) in chosen(module, sample, since).items()
        if status == NOT_RUN or (again and status not in NOTICED)
    ]
    if not waiting:
        return
    # Which test calls which function is noted anew, and that all pass.
    pathlib.Path("mutants/mutmut-stats.json").unlink(missing_ok=True)
    mutmut = [sys.executable, "-c", _MUTMUT]
    done = subprocess.run([*mutmut, "run", "--max-children=1", *waiting])
    if done.returncode:
        raise SystemExit(f"mutmut failed on part {part}; its output is above")


def collect(part: str, sample: int | None, since: str | None) -> dict[str, Any]:
    """What is known about the modules of a part, by module, and the code's commit."""
    os.chdir(prepare(part))
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout
    results = {}
    for module in PARTS[part].modules:
        ran = {
            name: found
            for name, found in chosen(module, sample, since).items()
            if found[1] != NOT_RUN
        }
        results[module] = {
            "commit": commit.strip(),
            "mutants": len(changes(module)),
            "run": len(ran),
            "killed": sum(status in NOTICED for _, status in ran.values()),
            "left": [
                {
                    **{k: v for k, v in change._asdict().items() if k != "lines"},
                    "status": status,
                }
                for change, status in ran.values()
                if status not in NOTICED
            ],
        }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--since", metavar="COMMIT")
    parser.add_argument("--tables", action="store_true")
    asked = parser.parse_args()
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    since = asked.since
    for part in [] if asked.tables else asked.part or PARTS:
        run(part, sample=asked.sample, again=asked.again, since=since)
        found = collect(part, asked.sample, since)
        if since is not None:  # a part of a module has no score of its own
            print_left(found)
            continue
        results |= found
        RESULTS.parent.mkdir(parents=True, exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    if since is None:
        write_pages(DOCS)


def print_left(found: dict[str, Any]) -> None:
    """How many mutants of each module ran, and those that a test could have noticed."""
    known = reasons()
    for module, told in found.items():
        left_over = [left for left in told["left"] if key(left) not in known]
        equivalent = len(told["left"]) - len(left_over)
        print(
            f"{module}: {told['killed']} of {told['run']} noticed, {equivalent} "
            "equivalent"
        )
        for left in left_over:
            print(f"  {left['function']}: {left['before']}  ->  {left['after']}")


if __name__ == "__main__":
    main()
