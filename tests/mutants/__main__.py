"""The mutation run: which small mistakes in the code would the tests notice?

  make mutants                          all parts, all mutants (hours)
  make mutants PART=accounting          one part of tests/mutants/parts.py
  make mutants PART=round SAMPLE=40     at most 40 mutants per module, drawn by a seed
  make mutants AGAIN=1                  once more those that survived, after new tests

mutmut makes the mutants and runs the tests, in runs/mutants/PART. A run that was
stopped goes on. What it showed is kept in docs/results/testing/mutants.json, and the
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
from typing import Any

from mutmut.mutation.data import SourceFileMutationData
from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name, mangled_name_from_mutant_name

from .page import DOCS, MUTANTS, write_pages
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


def mutants(module: str) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """(what each mutant changes, by mutmut's names; a hash of each function) now."""
    path = PACKAGE / module
    made = mutate_file_contents(str(path), path.read_text())
    lines = made.code.splitlines()

    def source(name: str) -> list[str]:
        span = made.line_span_by_function_name[name]
        text = "\n".join(lines[span.start - 1 : span.end])
        return re.sub(r"(def \w+__mutmut)_\w+", r"\1", text).splitlines()

    changes = {}
    for name in made.mutant_names:
        function = mangled_name_from_mutant_name(name)
        diff = list(difflib.ndiff(source(f"{function}__mutmut_orig"), source(name)))
        before, after = (
            " ".join(line[2:].strip() for line in diff if line.startswith(sign))
            for sign in ("- ", "+ ")
        )
        if essence(before) != essence(after):
            changes[get_mutant_name(path, name)] = {
                "module": module,
                "function": re.sub(r"^x_?ǁ?", "", function).replace("ǁ", "."),
                "before": before,
                "after": after,
            }
    return changes, made.hash_by_function_name


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


def chosen(module: str, sample: int | None) -> dict[str, dict[str, str]]:
    """The mutants of a module that count, each with its "status".

    They are all, or as many as a seed draws, and those that ran before and whose
    function is the same.
    """
    changes, hashes = mutants(module)
    data = SourceFileMutationData(path=PACKAGE / module)
    data.load()
    known = {}
    for name, code in data.exit_code_by_key.items():
        function = mangled_name_from_mutant_name(name).rpartition(".")[2]
        if hashes.get(function) == data.hash_by_function_name.get(function):
            known[name] = status_by_exit_code[code]
    drawn = sorted(changes)
    random.Random(SEED).shuffle(drawn)
    ran = {name for name, status in known.items() if status != NOT_RUN}
    names = sorted(changes.keys() & (ran | set(drawn[:sample])))
    return {n: changes[n] | {"status": known.get(n, NOT_RUN)} for n in names}


def run(part: str, *, sample: int | None, again: bool) -> None:
    """Runs the mutants of a part that have not been run, with `again` the survivors."""
    waiting = [
        name
        for module in PARTS[part].modules
        for name, mutant in chosen(module, sample).items()
        if mutant["status"] == NOT_RUN or (again and mutant["status"] not in NOTICED)
    ]
    if not waiting:
        return
    # Which test calls which function is noted anew, and that all pass.
    pathlib.Path("mutants/mutmut-stats.json").unlink(missing_ok=True)
    mutmut = [sys.executable, "-c", _MUTMUT]
    done = subprocess.run([*mutmut, "run", "--max-children=1", *waiting])
    if done.returncode:
        raise SystemExit(f"mutmut failed on part {part}; its output is above")


def collect(part: str, sample: int | None) -> dict[str, Any]:
    """What is known about the modules of a part, by module, and the code's commit."""
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True, check=True).stdout
    results = {}
    for module in PARTS[part].modules:
        known = chosen(module, sample).values()
        ran = [mutant for mutant in known if mutant["status"] != NOT_RUN]
        left = [mutant for mutant in ran if mutant["status"] not in NOTICED]
        results[module] = {
            "commit": commit.strip(),
            "mutants": len(mutants(module)[0]),
            "run": len(ran),
            "killed": len(ran) - len(left),
            "left": left,
        }
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m tests.mutants")
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--sample", type=int)
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    for part in asked.part or PARTS:
        os.chdir(prepare(part))
        run(part, sample=asked.sample, again=asked.again)
        results = json.loads(RESULTS.read_text()) | collect(part, asked.sample)
        text = json.dumps(results, indent=1, ensure_ascii=False)
        RESULTS.write_text(text + "\n")
        write_pages(DOCS)
