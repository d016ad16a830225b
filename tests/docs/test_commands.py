"""Every command and Python block of README.md and docs/ runs.

Each page is played from top to bottom in a workspace of its own: commands through a
shell, as typed but for flags at their end that make them small, and for placeholders;
Python blocks as one program. `make TARGET` runs what its recipe says in the same way.
What cannot be made small here is named below with the test that does run it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    *(
        page
        for folder in ("", "appendix", "results")
        for page in sorted((DOCS / folder).glob("*.md"))
    ),
]
FAST = {"resume.md"}  # the others are slow: a process and a compilation a command
DATA = os.environ.get("FEDSVP_DATA", "")
EIGHT_DEVICES = "--xla_force_host_platform_device_count=8"  # the last one counts

# Flags that make a command small, by its module: the last mention of a flag counts.
RUN = ("--model=mlp", "--num_rounds=2", "--cohort_size=4", "--local_epochs=1")
SMALL: dict[str, tuple[str, ...]] = {
    "experiments.attack": (
        *("--num_rounds=1", "--cohort_size=2", "--attack_steps=2", "--num_images=20"),
        *("--classifier_steps=20", "--audit_mechanisms=nbafl", "--audit_trials=40"),
        *("--inversion_victims=1", "--inversion_restarts=1", "--inversion_steps=8"),
        "--membership_shadows=5",
    ),
    "experiments.demo": (*RUN, "--seeds=0:1"),
    "experiments.report": (),
    "experiments.merge": (),
    "experiments.sweep": RUN,
    "experiments.train": (*RUN, "--client_chunk_size=1"),
}
# Commands that only a machine or hours make sense of, and the test that runs the same
# program small.
_ARRAY = "test_clusters.py::test_a_slurm_array_writes_the_sweep_of_one_process"
_TABLE = (
    "test_schema_command.py"
    "::test_a_table_becomes_a_proved_model_that_predicts_elsewhere"
)
_RUN = "python -m experiments."
ELSEWHERE = {  # in tests/experiments
    "sbatch --wait --array=1-4": _ARRAY,
    f"{_RUN}merge runs/array": _ARRAY,
    "python examples/ray_sweep.py": "test_clusters.py"
    "::test_the_example_on_ray_writes_the_sweep_of_one_process",
    # A hospital's file, which no page can bring.
    f"{_RUN}schema patients.csv": _TABLE,
    f"{_RUN}schema --confirm=schema.toml": _TABLE,
    f"{_RUN}train --data=patients.csv": _TABLE,
    f"{_RUN}predict runs/proved/model.safetensors": _TABLE,
    f"{_RUN}plan patients.csv": "test_plan_command.py"
    "::test_the_table_is_printed_and_written",
    f"{_RUN}benchmark": "benchmark/test_benchmark.py"
    "::test_the_command_prints_one_json_line_per_work",
}
_SUBCOMMAND = re.compile(r"\bfedsvp (?=\w)")
_FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def blocks(page: pathlib.Path) -> list[tuple[str, str]]:
    """The language and text of every fenced block."""
    return _FENCE.findall(page.read_text())


def commands(text: str) -> list[str]:
    """The lines of a block, joined where a backslash says so, without comments.

    `fedsvp NAME` is the program `python -m experiments.NAME`.
    """
    lines = text.replace("\\\n", " ").splitlines()
    bare = (
        re.sub(r"\s+", " ", re.sub(r"(^|\s)#.*", "", line)).strip() for line in lines
    )
    parts = [part for line in bare if line for part in line.split(" && ")]
    return [_SUBCOMMAND.sub("python -m experiments.", part) for part in parts]


def recipe(target: str) -> list[str]:
    """The experiments that `make TARGET` would run; none of a target of tests, say."""
    done = subprocess.run(
        ["make", "-n", "RUNS=runs", target], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = re.findall(r"-m experiments.*", done.stdout.replace("\\\n", " "))
    return [re.sub(r"\s+", " ", f"python {line}").strip() for line in found]


def made_small(command: str) -> list[str]:
    """What is run for a command: shell lines, none for what runs elsewhere."""
    if command.startswith(tuple(ELSEWHERE)):
        return []
    if match := re.fullmatch(r"make ([\w-]+)", command):
        return [small for line in recipe(match[1]) for small in made_small(line)]
    module = re.search(r"python -m ([\w.]+)", command)
    assert module and module[1] in SMALL, f"say in SMALL how this is run: {command}"
    line, *redirection = re.split(r"(?= > )", command.replace("=RELEASE", "=laplace"))
    small = SMALL[module[1]]
    if "--num_clients=1 " in line:  # in steps, not epochs
        small = RUN[:2]
    return [" ".join([line, *small, *redirection])]


def played(page: pathlib.Path) -> list[tuple[str, str]]:
    """(language, what is run) in the page's order; its Python is one program."""
    programs = [text for language, text in blocks(page) if language == "python"]
    lines = [
        ("bash", line)
        for language, text in blocks(page)
        if language == "bash"
        for command in commands(text)
        for line in made_small(command)
    ]
    return [("python", "\n".join(programs)), *lines] if programs else lines


@pytest.fixture
def workspace(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder that looks like the repository; docs/ may be written to."""
    for name in ("experiments", "fedsvp_jax"):
        (tmp_path / name).symlink_to(ROOT / name)
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    return tmp_path


def run(language: str, text: str, folder: pathlib.Path) -> None:
    shell = ["bash", "-euo", "pipefail", "-c", text]
    line = shell if language == "bash" else [sys.executable, "-c", text]
    environment = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(folder),
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {EIGHT_DEVICES}",
    }
    done = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{text}\n{done.stdout[-1500:]}{done.stderr[-1500:]}"


def pages() -> list[object]:
    found = []
    for page in PAGES:
        if not played(page):
            continue
        marks = [] if page.name in FAST else [pytest.mark.slow]
        if "FEDSVP_DATA" in page.read_text():
            reason = "FEDSVP_DATA does not name a folder of real data"
            marks.append(pytest.mark.skipif(not DATA, reason=reason))
        name = str(page.relative_to(ROOT))
        found.append(pytest.param(page, id=name, marks=marks))
    return found


@pytest.mark.parametrize("page", pages())
def test_a_pages_blocks_run(page: pathlib.Path, workspace: pathlib.Path) -> None:
    for language, text in played(page):
        run(language, text, workspace)


_TYPED = re.compile(
    r"^\s*(\$ |\w+=\S+ )*(make [\w-]+|python -m \S+|fedsvp \w+ --)", re.MULTILINE
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_stands_in_a_bash_block_that_the_test_above_runs(
    page: pathlib.Path,
) -> None:
    """Not in an unnamed or indented one; a `text` block is no command to type."""
    rest = _FENCE.sub("", page.read_text())
    indented = [line for line in rest.splitlines() if line.startswith("    ")]
    assert not [line for line in indented if _TYPED.match(line)]
    for language, text in blocks(page):
        assert language, f"a block of {page.name} names no language"
        if language == "python":
            compile(text, page.name, "exec")
        if language == "bash":
            assert [made_small(command) for command in commands(text)]
        if language == "text":
            assert not re.search(r"^(make |python -m )", text, re.MULTILINE)


def test_what_runs_elsewhere_is_a_test_that_exists() -> None:
    for name in ELSEWHERE.values():
        path, _, function = name.partition("::")
        file = ROOT / "tests" / "experiments" / path
        assert f"def {function}(" in file.read_text()
