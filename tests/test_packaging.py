"""What is installed: declared dependencies alone, typed, with its commands and data."""

import ast
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator

import pytest
import yaml

import fedsvp_jax

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("fedsvp_jax", "experiments")
MODULES = [p for folder in FOLDERS for p in sorted((ROOT / folder).rglob("*.py"))]


def plain(name: str) -> str:
    """A distribution's name as the packaging rules compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions(requirements: list[str]) -> set[str]:
    found = (re.match(r"[\w.-]+", text) for text in requirements)
    return {plain(match[0]) for match in found if match}


DECLARED = distributions(PROJECT["dependencies"])
EXTRAS = {
    name
    for requirements in PROJECT["optional-dependencies"].values()
    for name in distributions(requirements)
}
# Who owns an optional library is known without it, too.
OF_IMPORT = {"mlflow": ["mlflow-skinny"]} | importlib.metadata.packages_distributions()


def imported(nodes: list[ast.stmt]) -> Iterator[str]:
    """The top names of absolute imports in these statements and all below them."""
    for statement in nodes:
        for node in ast.walk(statement):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                yield str(node.module).split(".")[0]


def owners(nodes: list[ast.stmt]) -> set[str]:
    """The distributions that they need; a name that nobody owns stands for itself."""
    found: set[str] = set()
    for name in set(imported(nodes)) - sys.stdlib_module_names - set(FOLDERS):
        found |= {plain(owner) for owner in OF_IMPORT.get(name, [name])}
    return found


def test_make_test_runs_every_file_with_tests_of_bits() -> None:
    """`make test` names these files; in another one, such a test would never run."""
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    named = re.search(r"^BITS := (.*)$", makefile, re.MULTILINE)
    assert named is not None
    marked = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "tests").rglob("test_*.py")
        if "@pytest.mark." + "bits" in path.read_text()
    }
    assert set(named[1].split()) == marked


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_only_declared_dependencies_are_imported(path: pathlib.Path) -> None:
    """At a module's top the plain ones; an extra only where it is used.

    An adapter to an engine is of no use without it. pfl's extra lacks pfl itself.
    """
    body = ast.parse(path.read_text()).body
    at_top = [
        node
        for node in body
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    engines = {"flower": "flwr", "nvflare": "nvflare", "pfl": "pfl"}
    engine = engines.get(path.stem) if path.parent.name == "deploy" else None
    assert owners(at_top) <= DECLARED | {engine}
    assert owners(body) <= DECLARED | EXTRAS | {engine}


@pytest.mark.parametrize(
    "path",
    [p for p in MODULES if p.is_relative_to(ROOT / "experiments")],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_experiments_name_one_another_relatively(path: pathlib.Path) -> None:
    """Installed, they lie inside fedsvp_jax, and no `experiments` is to be had."""
    assert "experiments" not in set(imported(ast.parse(path.read_text()).body))


def test_versions_agree_and_the_licence_is_there() -> None:
    version = fedsvp_jax.__version__
    assert "version" in PROJECT["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version
    assert citation["license"] == PROJECT["license"] == "Apache-2.0"
    assert f"\n## {version} (" in (ROOT / "CHANGELOG.md").read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def run(*words: object, cwd: pathlib.Path) -> str:
    """Without PYTHONPATH, by which `make` lets a command see this folder."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    done = subprocess.run(
        list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_runs_the_demo(tmp_path: pathlib.Path) -> None:
    """Built from what git holds, installed with the pinned versions, run elsewhere."""
    source, wheels = tmp_path / "source", tmp_path / "wheels"
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    run(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", wheels, source,
        cwd=tmp_path)  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    run(sys.executable, "-m", "venv", "venv", cwd=tmp_path)
    python = tmp_path / "venv" / "bin" / "python"
    pins = tmp_path / "pins.txt"
    text = (ROOT / "requirements" / "test.txt").read_text()
    pins.write_text("\n".join(re.findall(r"^[\w.-]+==.*?(?= \\|$)", text, re.M)))
    run(python, "-m", "pip", "install", "-qq", "-c", pins, f"{wheel}[report]",
        cwd=tmp_path)  # fmt: skip
    tiny = ("--num_rounds=2", "--seeds=0:1", "--epsilons=.5", "--mechanisms=fedsva")
    shown = run(python.with_name("fedsvp"), "demo", *tiny, cwd=tmp_path)
    assert "FedSVA" in shown
    page = tmp_path / "runs" / "demo" / "report.html"
    assert page.stat().st_size > 1_000_000
    assert "fedsvp sweep --" in page.read_text()
    manual = run(python.with_name("fedsvp"), "train", "--help", cwd=tmp_path)
    assert "fedsvp train --" in manual and "python -m" not in manual
    where = run(
        python,
        "-c",
        "import importlib.util as u, fedsvp_jax, pathlib;"
        "assert u.find_spec('experiments') is None;"
        "print(pathlib.Path(fedsvp_jax.__file__).with_name('py.typed').is_file())",
        cwd=tmp_path,
    )
    assert where.strip() == "True"
