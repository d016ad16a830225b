"""What is installed: declared dependencies alone, typed, with its commands and data."""

import ast
import functools
import importlib.metadata
import os
import pathlib
import re
import runpy
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import fedsvp_jax

ROOT = pathlib.Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
FOLDERS = ("fedsvp_jax", "experiments")
# An adapter is of no use without its engine; pfl's extra lacks pfl itself.
ENGINES = {
    "fedsvp_jax/deploy/flower.py": "flwr",
    "fedsvp_jax/deploy/flower_sums.py": "flwr",
    "fedsvp_jax/deploy/flower_tables.py": "flwr",
    "fedsvp_jax/deploy/nvflare.py": "nvflare",
    "fedsvp_jax/deploy/pfl.py": "pfl",
}


@functools.cache
def bodies() -> dict[str, list[ast.stmt]]:
    """The statements of every module, by its path."""
    paths = (path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return {str(p.relative_to(ROOT)): ast.parse(p.read_text()).body for p in paths}


def distributions(requirements: list[str]) -> set[str]:
    return {canonicalize_name(Requirement(text).name) for text in requirements}


DECLARED = distributions(PROJECT["dependencies"])
EXTRAS = {
    name
    for requirements in PROJECT["optional-dependencies"].values()
    for name in distributions(requirements)
}
# Who owns an optional library is known without it, too.
OF_IMPORT = importlib.metadata.packages_distributions()


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
        found |= {canonicalize_name(owner) for owner in OF_IMPORT.get(name, [name])}
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


def test_every_pin_has_a_hash_and_the_makefile_installs_wheels_alone() -> None:
    """Also pip's and the build parts' own; `promise` is published as source alone."""
    pins = sorted((ROOT / "requirements").glob("*.txt"))
    unhashed = runpy.run_path(str(ROOT / "requirements" / "audit.py"))["unhashed"]
    assert {"build.txt", "audit.txt", "test.txt"} <= {path.name for path in pins}
    for path in pins:
        assert unhashed(path.read_text()) == [], path
    text = (ROOT / "requirements" / "test.txt").read_text()
    for damaged in (text.replace(" \\\n    --hash=", " # ", 1), "numpy\n" + text):
        assert unhashed(damaged)
    makefile = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    (wheels,) = re.findall(r"^WHEELS := (.*)$", makefile, re.MULTILINE)
    for flag in ("--require-hashes", "--only-binary=:all:", "--no-build-isolation"):
        assert flag in wheels
    assert "pip install" not in re.sub(r"(?m)^(WHEELS|EDITABLE) := .*$", "", makefile)
    recipes = re.findall(r"-m venv (\S+)\n\t(.*)", makefile)
    assert len(recipes) == 4
    for _, first in recipes:
        assert first.endswith("$(WHEELS) -r $(BUILD_PARTS)")


def runs_at_import(node: ast.stmt) -> bool:
    inside = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
    for_types = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
    return not inside and not for_types


def test_only_declared_dependencies_are_imported() -> None:
    """At a module's top the plain ones; an extra only where it is used."""
    assert set(ENGINES) <= set(bodies())
    for path, body in bodies().items():
        engine = {ENGINES[path]} if path in ENGINES else set()
        early = owners([node for node in body if runs_at_import(node)])
        assert early <= DECLARED | engine, path
        assert owners(body) <= DECLARED | EXTRAS | engine, path


def test_experiments_name_one_another_relatively() -> None:
    """Installed, they lie inside fedsvp_jax, and no `experiments` is to be had."""
    for path, body in bodies().items():
        inside = path.startswith("experiments/")
        assert not inside or "experiments" not in set(imported(body)), path


def test_versions_agree_and_the_licence_is_there() -> None:
    version = fedsvp_jax.__version__
    assert "version" in PROJECT["dynamic"]
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == version
    assert citation["license"] == PROJECT["license"] == "Apache-2.0"
    assert f"\n## {version} (" in (ROOT / "CHANGELOG.md").read_text()
    assert "Apache License" in (ROOT / "LICENSE").read_text()


def test_no_version_of_flower_is_installed_whose_sums_nobody_tested() -> None:
    """Ours put their functions in the place of Flower's by name, which may change."""
    pins = (ROOT / "requirements" / "deploy.txt").read_text()
    (major, minor) = map(int, re.findall(r"(?m)^flwr==(\d+)\.(\d+)\.", pins)[0])
    extra = map(Requirement, PROJECT["optional-dependencies"]["flower"])
    (allowed,) = (need.specifier for need in extra if need.name == "flwr")
    assert allowed.contains(f"{major}.{minor}.9")
    assert not allowed.contains(f"{major}.{minor + 1}.0")


def ended(*words: object, cwd: pathlib.Path) -> subprocess.CompletedProcess[str]:
    """Without PYTHONPATH, by which `make` lets a command see this folder."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    return subprocess.run(
        list(map(str, words)), cwd=cwd, env=environment, capture_output=True, text=True
    )


def run(*words: object, cwd: pathlib.Path) -> str:
    done = ended(*words, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# What a run works without: rooms of the package, and extras.
OPTIONAL = (
    *("flwr", "jax_privacy", "matplotlib", "nvflare", "pandas", "pfl"),
    "plotly",
)
NOT_NEEDED = (
    *("fedsvp_jax.attacks", "fedsvp_jax.check", "fedsvp_jax.report"),
    *("experiments", *OPTIONAL),
)


def test_a_run_needs_no_attack_no_report_and_no_extra(tmp_path: pathlib.Path) -> None:
    program = f"""if True:
        import sys
        sys.modules |= dict.fromkeys({NOT_NEEDED})
        import fedsvp_jax
        import numpy as np
        from fedsvp_jax import deploy, models
        x = np.random.default_rng(0).random((60, 4), np.float32)
        y = np.arange(60, dtype=np.int32) % 2
        data = fedsvp_jax.Dataset("own", x, y, x, y, 2)
        config = fedsvp_jax.ExperimentConfig(
            dataset="npz", num_clients=3, cohort_size=2, num_rounds=1, local_epochs=1
        )
        config = fedsvp_jax.resolve(config, data)
        fedsvp_jax.run.train(config, "run", dataset=data)
        fedsvp_jax.run.load_model("run").save("w.safetensors")
        print("sklearn" in sys.modules)
        """
    shown = run(sys.executable, "-c", program, cwd=tmp_path)
    assert (tmp_path / "w.safetensors").stat().st_size > 1000
    assert shown.endswith("False\n")


def copied(source: pathlib.Path) -> pathlib.Path:
    """What git holds."""
    names = run("git", "ls-files", "-z", cwd=ROOT).split("\0")
    for name in filter(None, names):
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    return source


def test_every_link_of_an_installed_page_leads_to_a_file(
    tmp_path: pathlib.Path,
) -> None:
    """A hospital has the wheel alone: pictures of studies and rows of results were
    linked, and the wheel has none of them.
    """
    build = "import sys; from setuptools import build_meta as built; "
    build += "built.build_wheel(sys.argv[1])"
    run(sys.executable, "-c", build, tmp_path, cwd=copied(tmp_path / "source"))
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path / "wheel")
    pages = [*(tmp_path / "wheel").rglob("*.md")]
    targets = [
        page.parent / target
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)", page.read_text())
        if "://" not in target
    ]
    assert len(pages) > 40 and len(targets) > 200
    assert [place for place in targets if not place.exists()] == []
    deploy = (tmp_path / "wheel/fedsvp_jax/docs/deploy.md").read_text()
    assert "](../experiments/studies/hospitals/README.md#twelve-nodes)" in deploy
    attacks = tmp_path / "wheel/fedsvp_jax/experiments/studies/attacks/README.md"
    assert "(picture: scores)" in attacks.read_text()


def installed(place: pathlib.Path, extra: str = "") -> pathlib.Path:
    """The python of a new environment with a wheel of what git holds, pinned."""
    source, wheels = copied(place / "source"), place / "wheels"
    run(sys.executable, "-m", "pip", "wheel", "-qq", "--no-deps", "-w", wheels, source,
        cwd=place)  # fmt: skip
    (wheel,) = wheels.glob("*.whl")
    run(sys.executable, "-m", "venv", "venv", cwd=place)
    python = place / "venv" / "bin" / "python"
    pins = place / "pins.txt"
    text = (ROOT / "requirements" / "test.txt").read_text()
    pins.write_text("\n".join(re.findall(r"^[\w.-]+==.*?(?= \\|$)", text, re.M)))
    run(python, "-m", "pip", "install", "-qq", "-c", pins, f"{wheel}{extra}", cwd=place)
    return python


@pytest.mark.slow
def test_the_cores_wheel_trains_without_extras_and_names_what_is_missing(
    tmp_path: pathlib.Path,
) -> None:
    python = installed(tmp_path)
    fedsvp = python.with_name("fedsvp")
    found = f"print([name for name in {OPTIONAL} if find_spec(name)])"
    line = f"from importlib.util import find_spec; {found}"
    assert run(python, "-c", line, cwd=tmp_path) == "[]\n"
    round_ = ("--model=mlp", "--num_clients=3", "--cohort_size=2", "--num_rounds=1")
    run(fedsvp, "train", *round_, "--num_hbc_clients=0", "--output_dir=a", cwd=tmp_path)
    assert (tmp_path / "a" / "summary.json").is_file()
    for words, extra in (
        (("report", "a"), "report"),
        (("train", *round_, "--dataset=tfds:mnist", "--output_dir=b"), "tfds"),
    ):
        done = ended(fedsvp, *words, cwd=tmp_path)
        *_, last = done.stderr.strip().splitlines()
        assert done.returncode == 2 and f"pip install 'fedsvp_jax[{extra}]'" in last
        assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_runs_the_demo(tmp_path: pathlib.Path) -> None:
    """Built from what git holds, installed with the pinned versions, run elsewhere."""
    python = installed(tmp_path, "[report]")
    tiny = ("--num_rounds=2", "--seeds=0:1", "--epsilons=.5", "--mechanisms=fedsva")
    shown = run(python.with_name("fedsvp"), "demo", *tiny, cwd=tmp_path)
    assert "FedSVA" in shown
    page = tmp_path / "runs" / "demo" / "report.html"
    assert page.stat().st_size > 1_000_000
    assert "fedsvp sweep --" in page.read_text()
    pages = run(python.with_name("fedsvp"), cwd=tmp_path).rpartition(": ")[2].strip()
    assert "own_data.md" in pathlib.Path(pages).read_text()
    manual = run(python.with_name("fedsvp"), "train", "--help", cwd=tmp_path)
    assert "fedsvp train --" in manual and "python -m" not in manual
    line = "import fedsvp_jax, importlib.util as u; print(u.find_spec('experiments'), "
    where = run(python, "-c", line + "fedsvp_jax.__file__)", cwd=tmp_path).split()
    assert where[0] == "None" and pathlib.Path(where[1]).with_name("py.typed").is_file()
