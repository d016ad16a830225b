"""The picture of the package's folders: derived from the imports, and up to date."""

import pathlib

import pytest

from experiments import architecture
from experiments.architecture import (
    draw,
    essential,
    layers,
    read_architecture,
    summary,
)

ROOT = pathlib.Path(__file__).parents[2]
PICTURE = ROOT / "docs" / "images" / "architecture.svg"
PAGE = ROOT / "docs" / "architecture.md"


def package(folder: pathlib.Path, files: dict[str, str]) -> pathlib.Path:
    """A package named as the real one, with a file for each entry."""
    root = folder / "fedsvp_jax"
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


LINE = {  # top -> middle -> ground, and top -> ground as well
    "__init__.py": "from fedsvp_jax import top",
    "ground.py": "import math",
    "middle/__init__.py": "from fedsvp_jax import ground",
    "middle/one.py": "from fedsvp_jax.ground import x, y",
    "middle/two.py": "from fedsvp_jax.middle import one",
    "top.py": "from fedsvp_jax import ground\ndef f():\n    import fedsvp_jax.middle",
}


def test_an_arrow_counts_the_modules_that_import_wherever_they_do(
    tmp_path: pathlib.Path,
) -> None:
    found = read_architecture(package(tmp_path, LINE))
    assert found.modules == {"ground": 1, "middle": 3, "top": 1}
    assert found.arrows == {
        ("middle", "ground"): 2,
        ("top", "ground"): 1,
        ("top", "middle"): 1,
    }


def test_a_box_lies_above_all_that_it_imports(tmp_path: pathlib.Path) -> None:
    found = read_architecture(package(tmp_path, LINE))
    assert layers(found) == [["ground"], ["middle"], ["top"]]
    assert "top imports ground 1, middle 1" in summary(found)


def test_an_arrow_that_follows_from_others_is_not_drawn(
    tmp_path: pathlib.Path,
) -> None:
    found = read_architecture(package(tmp_path, LINE))
    assert essential(found) == {("top", "middle"), ("middle", "ground")}


def test_a_circle_is_refused(tmp_path: pathlib.Path) -> None:
    files = {"a.py": "from fedsvp_jax import b", "b.py": "from fedsvp_jax import a"}
    with pytest.raises(ValueError, match="cycle"):
        layers(read_architecture(package(tmp_path, files)))


def test_a_folder_without_modules_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="package_dir"):
        read_architecture(tmp_path)


def test_the_committed_picture_is_what_the_imports_give(
    tmp_path: pathlib.Path,
) -> None:
    """After a change of imports: python -m experiments.architecture."""
    found = read_architecture(ROOT / architecture.PACKAGE)
    draw(found, tmp_path / "drawn.svg")
    assert (tmp_path / "drawn.svg").read_bytes() == PICTURE.read_bytes()


def test_the_page_describes_every_box() -> None:
    text = PAGE.read_text()
    found = read_architecture(ROOT / architecture.PACKAGE)
    for box, modules in found.modules.items():
        name = f"{box}/" if modules > 1 else f"{box}.py"
        assert f"**`{name}`**" in text, f"docs/architecture.md does not describe {name}"
