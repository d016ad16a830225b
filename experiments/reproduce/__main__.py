"""The papers' tables and figures: runs the presets, keeps results, rewrites the page.

  python -m experiments.reproduce --data_dir=DATA
  python -m experiments.reproduce --only=gap_digits_small
  python -m experiments.reproduce --size=full --only=fedsva_table1_cifar10
  python -m experiments.reproduce --norun

Each preset (experiments/presets/*.flags) is one sweep in a process of its own, in
--output_dir/NAME. The same command goes on where it was stopped or killed. A finished
preset becomes docs/results/reproduction/NAME.json; the measured columns of
docs/reproduction.md and its figures are then made anew from all of these files.

Data: --data_dir, or else $FEDSVP_DATA, or else what ../shared/data/prepare.py makes.

Exit status: 0 done; 2 bad input or a sweep that failed, told in one line.
"""

import os
import pathlib
import subprocess
import sys
import time

from absl import flags

from .. import command, presets
from . import results, tables
from .evidence import Evidence

ROOT = pathlib.Path(__file__).parents[2]
PREPARE = ROOT.parent / "shared" / "data" / "prepare.py"
NEEDED = ("cifar10", "femnist")

flags.DEFINE_enum("size", "small", presets.SIZES, "Which presets.")
flags.DEFINE_list("only", [], "Names of presets; all of the size by default.")
flags.DEFINE_string(
    "data_dir", None, "Folder with the data sets' standard files; $FEDSVP_DATA else."
)
flags.DEFINE_string("output_dir", "runs/reproduce", "Folder of the sweeps.")
flags.DEFINE_string("docs_dir", str(ROOT / "docs"), "Folder of the page to rewrite.")
flags.DEFINE_bool("run", True, "Run the presets; else only make the page anew.")


def chosen(size: str, only: list[str]) -> list[presets.Preset]:
    """The presets to run.

    Raises:
      ValueError: a name is no preset, or not one of the size.
    """
    known = presets.preset_names(size)
    for name in only:
        if name not in known:
            raise ValueError(
                f"only must name presets of size {size} ({', '.join(known)}), got "
                f"{name!r}"
            )
    return [presets.read_preset(name) for name in only or known]


def find_data(data_dir: str | None, output_dir: pathlib.Path) -> str:
    """The data's folder: as given, by $FEDSVP_DATA, or prepared here.

    Raises:
      ValueError: there is none and nothing to make it from.
    """
    named = data_dir or os.environ.get("FEDSVP_DATA")
    if named:
        return named
    folder = output_dir / "data"
    done = folder / "prepared"
    if not done.exists():
        if not PREPARE.is_file():
            raise ValueError(
                "data_dir must name the folder with the data sets' files, or "
                f"$FEDSVP_DATA must, since {PREPARE} is not there to make them"
            )
        print(f"preparing {', '.join(NEEDED)} in {folder}", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            [sys.executable, PREPARE.name, str(folder.resolve()), *NEEDED],
            cwd=PREPARE.parent,
            check=True,
        )
        done.touch()
    return str(folder)


def arguments(preset: presets.Preset, data_dir: str, folder: pathlib.Path) -> list[str]:
    """`experiments.sweep`'s arguments for one preset."""
    found = [
        f"--flagfile={presets.FOLDER.relative_to(ROOT)}/{preset.name}.flags"
        if presets.FOLDER.is_relative_to(ROOT)
        else f"--flagfile={presets.FOLDER}/{preset.name}.flags",
        f"--output_dir={folder}",
        "--resume",
    ]
    if preset.flags["dataset"] != "digits":
        found.insert(1, f"--data_dir={data_dir}")
    return found


def run_preset(preset: presets.Preset, data_dir: str, folder: pathlib.Path) -> None:
    """Runs one preset's sweep to its end, unless it has ended already.

    Raises:
      ValueError: the sweep failed; it has said why.
    """
    finished = folder / "finished"
    if finished.exists() and finished.read_text() == repr(preset):
        return
    line = [sys.executable, "-m", "experiments.sweep"]
    line += arguments(preset, data_dir, folder)
    ended = subprocess.run(line, cwd=ROOT)
    if ended.returncode:
        raise ValueError(
            f"preset {preset.name} ended with status {ended.returncode}; the same "
            f"command goes on where it was (its folder is {folder})"
        )
    finished.write_text(repr(preset))


def write_page(docs_dir: pathlib.Path) -> list[pathlib.Path]:
    """Rewrites the page's blocks and figures from docs/results/reproduction.

    Raises:
      ValueError: a result or the page is damaged.
    """
    from fedsvp_jax.report import read

    from . import figures

    kept = docs_dir / "results" / "reproduction"
    evidence = Evidence(results.load(kept), results.published(kept))
    page = docs_dir / "reproduction.md"
    text = tables.render(page.read_text(), evidence)
    drawn = figures.write_figures(evidence, docs_dir / "images")
    read.write_text(page, text)
    return [page, *drawn]


def main(_: list[str]) -> None:
    """Runs what the flags name."""
    values = flags.FLAGS
    docs_dir = pathlib.Path(values.docs_dir)
    if not (docs_dir / "reproduction.md").is_file():
        raise ValueError(f"docs_dir must hold reproduction.md, got {docs_dir}")
    wanted = chosen(values.size, values.only)
    output_dir = pathlib.Path(values.output_dir).absolute()
    if values.run:
        data_dir = find_data(values.data_dir, output_dir)
        for number, preset in enumerate(wanted, 1):
            started = time.perf_counter()
            print(f"[{number}/{len(wanted)}] {preset.name}: {preset.title}", flush=True)
            folder = output_dir / preset.name
            run_preset(preset, data_dir, folder)
            shown = arguments(
                preset, "$FEDSVP_DATA", pathlib.Path("runs/reproduce") / preset.name
            )
            result = results.collect(
                folder,
                name=preset.name,
                command=f"python -m experiments.sweep {' '.join(shown)}",
            )
            target = docs_dir / "results" / "reproduction" / f"{preset.name}.json"
            results.write(target, result)
            print(f"    {time.perf_counter() - started:.0f} s: {target}", flush=True)
            write_page(docs_dir)
    for path in write_page(docs_dir):
        print(path)


if __name__ == "__main__":
    command.run(main, __doc__)
