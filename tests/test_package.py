"""The package as a whole: who may import whom, and what never occurs in it."""

import ast
import functools
import graphlib
import pathlib
import re

from commands import ROOT, program

PACKAGE = ROOT / "fedsvp_jax"

# The rooms of the package from the ground up. A module may import those of earlier
# rows and, within its own room, its neighbours; nothing else.
LAYERS = (
    {"core"},
    {"devices", "data"},
    {"models", "mechanisms"},
    {"accounting", "shapley"},
    {"round"},
    {"influence"},
    {"config"},
    {"federation"},
    {"run", "check"},
    {"deploy"},
    {"attacks", "report", "sklearn"},
)
TOUCH_FILES = ("attacks", "core", "data", "deploy", "models", "report", "run")


def module_name(path: pathlib.Path) -> str:
    """`data/sources.py` -> `data.sources`, `data/__init__.py` -> `data`."""
    name = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    return name.removesuffix(".__init__")


def imported(tree: ast.Module, names: set[str]) -> set[str]:
    """The modules of the package that a module imports, wherever it does so."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                found.add(inside if inside.partition(".")[2] in names else node.module)
    return {name.partition(".")[2] for name in found if name.startswith("fedsvp_jax.")}


@functools.cache
def modules() -> dict[str, ast.Module]:
    """Dotted name below the package -> syntax tree."""
    return {
        module_name(path): ast.parse(path.read_text())
        for path in sorted(PACKAGE.rglob("*.py"))
    }


def part_of(name: str) -> str:
    """`data.sources` -> `data`: the module or subpackage that a level names."""
    return name.split(".")[0]


def layer(name: str) -> int:
    part = part_of(name)
    return next(number for number, parts in enumerate(LAYERS) if part in parts)


def test_every_part_of_the_package_is_in_one_layer() -> None:
    parts = {part_of(name) for name in modules()} - {"__init__"}
    assert sorted(part for layer in LAYERS for part in layer) == sorted(parts)


def imports_of_modules() -> dict[str, set[str]]:
    trees = {name: tree for name, tree in modules().items() if name != "__init__"}
    return {name: imported(tree, set(trees)) for name, tree in trees.items()}


def test_imports_point_down() -> None:
    for name, found in imports_of_modules().items():
        for used in found:
            near = part_of(used) == part_of(name)
            assert near or layer(used) < layer(name), f"{name} imports {used}"


# Functions that take settings as a user writes them, None where data decide. All others
# take a theme or a `ResolvedConfig`.
UNRESOLVED = {
    "config _of_data",
    "config _of_size",
    "config resolve",
    "deploy.policy make_policy",
}


def test_settings_are_resolved_before_anything_reads_them() -> None:
    found = {
        f"{name} {node.name}"
        for name, tree in modules().items()
        if name != "__init__" and layer(name) <= layer("deploy")
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for one in (*node.args.args, *node.args.kwonlyargs)
        if one.annotation and "ExperimentConfig" in ast.unparse(one.annotation)
    }
    assert found == UNRESOLVED


BY_NAME = {"import_module", "__import__"}  # run.plugin reads the user's own file


def test_no_module_is_imported_by_a_string() -> None:
    for name, tree in modules().items():
        calls = [node.func for node in ast.walk(tree) if isinstance(node, ast.Call)]
        called = {ast.unparse(call).rpartition(".")[2] for call in calls}
        assert not called & BY_NAME, name


def test_no_modules_import_one_another_in_a_circle() -> None:
    found = imports_of_modules()
    names = set(found)
    edges = {name: used & names - {name} for name, used in found.items()}
    packages = {name for name in names if any(n.startswith(f"{name}.") for n in names)}
    edges = {n: {u for u in used if u not in packages} for n, used in edges.items()}
    graphlib.TopologicalSorter(edges).prepare()  # raises CycleError


WRITES = re.compile(r"(^open|\.write_text|\.write_bytes|\.mkdir|os\.replace)$")


def test_only_the_top_and_the_readers_of_data_touch_files() -> None:
    for name, tree in modules().items():
        calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
        touching = {ast.unparse(call.func) for call in calls}
        touching = {call for call in touching if WRITES.search(call)}
        assert not touching or part_of(name) in TOUCH_FILES, (name, touching)


# Importing them takes longer than the package, and few commands use any one of them.
HEAVY = (
    *("dp_accounting", "flax.nnx", "jax_privacy", "matplotlib", "orbax", "pandas"),
    *("plotly", "safetensors", "scipy", "sklearn", "tensorflow"),
    *("tensorflow_datasets", "array_record", "pyarrow", "PIL"),
)


def test_a_command_starts_without_what_it_may_not_need() -> None:
    told = f"print([name for name in {HEAVY} if name in sys.modules])"
    assert program(f"import sys, experiments.train; {told}").stdout == "[]\n"


HOSTS = re.compile(
    r"(pypi|pythonhosted|anaconda|conda-forge|npmjs|unpkg|jsdelivr|cdnjs|"
    r"huggingface|artifactory|nexus)\.(org|com|co|io|net)"
)


def test_no_registry_host_is_named_anywhere() -> None:
    texts = [*ROOT.glob("*.toml"), *ROOT.glob("*.md"), ROOT / "Makefile"]
    for folder in ("fedsvp_jax", "experiments", "tests", "requirements", "docs"):
        for ending in ("py", "txt", "in", "md", "flags"):
            texts += (ROOT / folder).rglob(f"*.{ending}")
    named = {
        str(path.relative_to(ROOT))
        for path in texts
        if HOSTS.search(path.read_text().lower())
    }
    assert not named


ELSEWHERE = {"docs", "experiments", "references"}  # tests of other folders


def test_every_test_lies_in_a_folder_of_the_package_or_of_what_it_tests() -> None:
    places = {path.parent for path in (ROOT / "tests").rglob("test_*.py")}
    names = {place.relative_to(ROOT / "tests").parts[:1] for place in places}
    for (name,) in names - {()}:
        assert (PACKAGE / name).is_dir() or name in ELSEWHERE, name


def test_all_names_of_the_package_are_listed_and_imported_at_once() -> None:
    """`dir` hid them all, and `import *` gave none."""
    (getter,) = (
        node
        for node in modules()["__init__"].body
        if isinstance(node, ast.FunctionDef) and node.name == "__getattr__"
    )
    names = {
        node.value
        for case in ast.walk(getter)
        if isinstance(case, ast.MatchValue)
        for node in [case.value]
        if isinstance(node, ast.Constant)
    }
    assert "resolve" in names
    lines = (
        "import fedsvp_jax",
        "from fedsvp_jax import *",
        f"print({sorted(names)} == sorted(fedsvp_jax.__all__))",
        f"print({names} <= {{*dir(fedsvp_jax)}}, {names} <= globals().keys())",
    )
    done = program("\n".join(lines))
    assert done.stdout == "True\nTrue True\n", done
