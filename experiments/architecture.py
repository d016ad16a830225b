"""Draws which folders of the package import which: docs/images/architecture.svg.

  python -m experiments.architecture

Every import statement of fedsvp_jax is read with `ast`, and nothing is imported. A box
is a folder, or a module that lies beside the folders. Its layer is one above the
highest layer that it imports from (a topological sort); a circle is refused. An arrow
says how many imports lead from the modules of one box to those of the other. An arrow
A -> C is left out of the picture where A -> B -> C is in it; the command prints all of
them.

Exit status: 0 done; 2 bad input, told in one line.
"""

import ast
import graphlib
import itertools
import pathlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from absl import flags

from . import command

PACKAGE = "fedsvp_jax"
_BOX = (1.5, 0.62)  # width and height, in units of the axes
_GAP = (0.35, 0.75)  # between boxes of a layer, between layers
_LANE = 0.2  # width that an arrow takes in a layer that it passes
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: no font's outlines in the file
    "svg.hashsalt": PACKAGE,  # equal pictures have equal bytes
    "font.family": "sans-serif",
    "font.size": 11,
}

flags.DEFINE_string("package_dir", PACKAGE, "Folder of the package.")
flags.DEFINE_string("architecture_images_dir", "docs/images", "Folder of the picture.")


class Architecture(NamedTuple):
    """The boxes of the picture and the imports between them."""

    modules: dict[str, int]  # box -> modules in it
    arrows: Counter[tuple[str, str]]  # (importing box, imported box) -> imports

    def imported_by(self, box: str) -> set[str]:
        """The boxes that `box` imports directly."""
        return {target for source, target in self.arrows if source == box}


def module_name(path: pathlib.Path, package: pathlib.Path) -> str:
    """`data/sources.py` -> `data.sources`, `data/__init__.py` -> `data`."""
    name = ".".join(path.relative_to(package).with_suffix("").parts)
    return name.removesuffix(".__init__")


def imported(tree: ast.Module, modules: set[str]) -> set[str]:
    """The modules of the package that a module imports, wherever it does so."""
    prefix = f"{PACKAGE}."
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                known = inside.removeprefix(prefix) in modules
                names.add(inside if known else node.module)
    return {name.removeprefix(prefix) for name in names if name.startswith(prefix)}


def read_architecture(package: pathlib.Path) -> Architecture:
    """Reads the boxes and arrows from the package's source files.

    The package's own `__init__` is no box: it only names what the others define.

    Raises:
      ValueError: the folder holds no module.
    """
    trees = {
        module_name(path, package): ast.parse(path.read_text())
        for path in sorted(package.rglob("*.py"))
        if path != package / "__init__.py"
    }
    if not trees:
        raise ValueError(f"package_dir must be a folder of Python files, got {package}")
    arrows: Counter[tuple[str, str]] = Counter()
    for name, tree in trees.items():
        for target in imported(tree, set(trees)):
            ends = name.split(".")[0], target.split(".")[0]
            if ends[0] != ends[1]:
                arrows[ends] += 1
    return Architecture(Counter(name.split(".")[0] for name in trees), arrows)


def layers(architecture: Architecture) -> list[list[str]]:
    """The boxes by layer, from the ground up.

    Raises:
      ValueError: boxes import one another in a circle.
    """
    below = {box: architecture.imported_by(box) for box in architecture.modules}
    sorter = graphlib.TopologicalSorter(below)
    sorter.prepare()
    found = []
    while sorter:
        found.append(sorted(sorter.get_ready()))
        sorter.done(*found[-1])
    return found


def essential(architecture: Architecture) -> set[tuple[str, str]]:
    """The arrows that do not follow from two or more others (transitive reduction)."""
    reach: dict[str, set[str]] = {}  # box -> what it imports, directly or not
    drawn = set()
    for box in itertools.chain(*layers(architecture)):
        below = architecture.imported_by(box)
        through = set().union(*(reach[target] for target in below))
        reach[box] = below | through
        drawn |= {(box, target) for target in below - through}
    return drawn


class Passage(NamedTuple):
    """Where the arrow from source to target passes a layer between them."""

    source: str
    target: str
    layer: int


Point = tuple[float, float]
Node = str | Passage  # a box by its name, or a passage of an arrow


def _paths(
    rows: list[list[str]], drawn: set[tuple[str, str]]
) -> dict[tuple[str, str], list[Node]]:
    """For each arrow its box, a node in each layer that it passes, and its target."""
    level = {box: number for number, row in enumerate(rows) for box in row}
    return {
        (a, b): [a, *(Passage(a, b, n) for n in range(level[a] - 1, level[b], -1)), b]
        for a, b in sorted(drawn)
    }


def _positions(
    rows: list[list[str]], paths: Mapping[tuple[str, str], list[Node]]
) -> dict[Node, Point]:
    """The centre of each node. Within its layer a node stands above its targets."""
    nodes: list[list[Node]] = [list(row) for row in rows]
    targets: dict[Node, list[Node]] = {}
    for path in paths.values():
        for node in path:
            if isinstance(node, Passage):
                nodes[node.layer].append(node)
        for upper, lower in itertools.pairwise(path):
            targets.setdefault(upper, []).append(lower)
    place: dict[Node, Point] = {}
    for number, row in enumerate(nodes):
        mean: dict[Node, float] = {}
        for node in row:
            below = [place[t][0] for t in targets.get(node, []) if t in place]
            mean[node] = sum(below) / len(below) if below else 0.0
        row.sort(key=lambda node: (round(mean[node], 6), str(node)))
        widths = [_BOX[0] if isinstance(node, str) else _LANE for node in row]
        x = -(sum(widths) + _GAP[0] * (len(row) - 1)) / 2
        if row:
            x += sum(mean.values()) / len(row) * (number > 0)
        for node, width in zip(row, widths, strict=True):
            place[node] = (x + width / 2, number * (_BOX[1] + _GAP[1]))
            x += width + _GAP[0]
    return place


def draw(architecture: Architecture, path: pathlib.Path) -> None:
    """Writes the picture as SVG: the same bytes for the same architecture.

    Raises:
      OSError: the file cannot be written.
    """
    import matplotlib
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    rows = layers(architecture)
    paths = _paths(rows, essential(architecture))
    place = _positions(rows, paths)
    margin = _BOX[0] / 2 + 0.2
    left = min(x for x, _ in place.values()) - margin
    right = max(x for x, _ in place.values()) + margin
    bottom = -_BOX[1] / 2 - 0.2
    top = max(y for _, y in place.values()) + _BOX[1] / 2 + 0.2
    with matplotlib.rc_context(_STYLE):
        figure = Figure(figsize=(right - left, top - bottom))
        FigureCanvasSVG(figure)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(left, right)
        axes.set_ylim(bottom, top)
        axes.set_axis_off()
        for arrow, nodes in paths.items():
            _draw_arrow(axes, _line(nodes, place), architecture.arrows[arrow])
        for box, modules in architecture.modules.items():
            _draw_box(axes, place[box], box, modules)
        figure.savefig(path, metadata={"Date": None, "Creator": None})


def _line(nodes: list[Node], place: Mapping[Node, Point]) -> list[Point]:
    """The arrow's points: it passes the layers between its boxes straight down."""
    half = _BOX[1] / 2
    passes = [place[node] for node in nodes[1:-1]]
    down = [(x, y + part) for x, y in passes for part in (half, -half)]
    return [place[nodes[0]], *down, place[nodes[-1]]]


def _draw_arrow(axes: Any, points: list[Point], imports: int) -> None:
    """An arrow from the first box to the last, its number of imports beside it."""
    colour = "#607d8b"
    points[0] = (points[0][0], points[0][1] - _BOX[1] / 2)
    points[-1] = (points[-1][0], points[-1][1] + _BOX[1] / 2)
    axes.plot(*zip(*points[:-1], strict=True), color=colour, linewidth=1, zorder=1)
    axes.annotate(
        "",
        xy=points[-1],
        xytext=points[-2],
        arrowprops={"arrowstyle": "-|>", "color": colour, "shrinkA": 0, "shrinkB": 0},
        zorder=1,
    )
    (x, y), (next_x, next_y) = points[:2]
    axes.text(
        x + 0.3 * (next_x - x),
        y + 0.3 * (next_y - y),
        str(imports),
        color=colour,
        ha="center",
        va="center",
        fontsize=9,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.6},
        zorder=2,
    )


def _draw_box(axes: Any, centre: Point, box: str, modules: int) -> None:
    from matplotlib.patches import Rectangle

    corner = (centre[0] - _BOX[0] / 2, centre[1] - _BOX[1] / 2)
    folder = modules > 1
    face = "#e3f2fd" if folder else "#f5f5f5"
    axes.add_patch(
        Rectangle(corner, *_BOX, facecolor=face, edgecolor="#455a64", zorder=3)
    )
    style = {"ha": "center", "va": "center", "zorder": 4}
    name = f"{box}/" if folder else f"{box}.py"
    axes.text(centre[0], centre[1] + 0.1, name, weight="bold", **style)
    count = f"{modules} modules" if folder else "1 module"
    axes.text(centre[0], centre[1] - 0.15, count, fontsize=9, **style)


def summary(architecture: Architecture) -> str:
    """The layers and all arrows in words, a line each."""
    rows = layers(architecture)
    lines = [
        f"{len(architecture.modules)} boxes on {len(rows)} layers, "
        f"{len(architecture.arrows)} arrows"
    ]
    for number, row in reversed(list(enumerate(rows))):
        lines.append(f"layer {number}:")
        for box in row:
            used = _counts(architecture.arrows, box)
            lines.append(f"  {box} imports {used or 'nothing'}")
    return "\n".join(lines)


def _counts(arrows: Mapping[tuple[str, str], int], box: str) -> str:
    return ", ".join(f"{b} {n}" for (a, b), n in sorted(arrows.items()) if a == box)


def main(_: list[str]) -> None:
    """Draws the picture and prints what it shows."""
    values = flags.FLAGS
    architecture = read_architecture(pathlib.Path(values.package_dir))
    path = pathlib.Path(values.architecture_images_dir) / "architecture.svg"
    draw(architecture, path)
    print(summary(architecture))
    print(path)


if __name__ == "__main__":
    command.run(main, __doc__)
