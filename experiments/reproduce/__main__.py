"""Reproduces the papers' tables and figures and writes docs/reproduction.md.

  python -m experiments.reproduce --data_dir=DATA
  python -m experiments.reproduce --only=gap_digits_small
  python -m experiments.reproduce --size=full --only=fedsva_table1_cifar10

Each preset (experiments/presets/*.flags) is one sweep in a process of its own, which
writes to --output_dir/NAME. The same command continues where it was stopped or killed.
When a preset is finished, its result is written to docs/results/reproduction/NAME.json,
and the measured tables and figures of docs/reproduction.md are made again from all of
these files, as `python -m experiments.pages reproduction` does without a run. The cells
of the presets *_medium.flags are all kept; any of them is a run of experiments.sweep.

Exit status: 0 done; 2 bad input, or a sweep failed (one line says why).
"""

import os
import pathlib
import subprocess
import sys
import time

from absl import flags

from .. import command, flag_values, pages, presets, subcommands
from . import results

ROOT = pathlib.Path(__file__).parents[2]

flags.DEFINE_enum("size", "small", ("small", "full"), "Size of the presets to run.")
flags.DEFINE_list("only", [], "Presets to run. Default: all presets of --size.")
flags.DEFINE_string(
    "data_dir",
    None,
    "Folder with the standard files of the data sets. Default: $FEDSVP_DATA.",
)
flags.DEFINE_string("output_dir", "runs/reproduce", "Folder for the sweeps.")


def chosen(size: str, only: list[str]) -> list[presets.Preset]:
    """The presets to run.

    Raises:
      ValueError: a name is not a preset of that size.
    """
    known = presets.preset_names(size)
    flag_values.refuse_unknown(f"only, of size {size},", only, known)
    return [presets.read_preset(name) for name in only or known]


def find_data(data_dir: str | None, wanted: list[presets.Preset]) -> str:
    """The folder of the data sets: --data_dir or $FEDSVP_DATA; may be empty for digits.

    Raises:
      ValueError: there is none, and a preset needs one.
    """
    folder = data_dir or os.environ.get("FEDSVP_DATA", "")
    for preset in wanted:
        if not folder and _needs_data(preset):
            raise ValueError(
                "data_dir (or $FEDSVP_DATA) must name the folder with the standard "
                f"files of {preset.flags['dataset']}, which preset {preset.name} needs"
            )
    return folder


def _needs_data(preset: presets.Preset) -> bool:
    return preset.flags["dataset"] != "digits"


def arguments(preset: presets.Preset, data_dir: str, folder: pathlib.Path) -> list[str]:
    """The flags of `experiments.sweep` for one preset."""
    line = [
        f"--flagfile={presets.FOLDER.relative_to(ROOT)}/{preset.name}.flags"
        if presets.FOLDER.is_relative_to(ROOT)
        else f"--flagfile={presets.FOLDER}/{preset.name}.flags",
        f"--output_dir={folder}",
        "--resume",
    ]
    if _needs_data(preset):
        line.insert(1, f"--data_dir={data_dir}")
    return line


def run_preset(preset: presets.Preset, data_dir: str, folder: pathlib.Path) -> None:
    """Runs the sweep of one preset to its end, unless it is finished.

    Raises:
      ValueError: the sweep failed; it has printed why.
    """
    finished = folder / "finished"
    if finished.exists() and finished.read_text() == repr(preset):
        return
    line = [sys.executable, "-m", subcommands.module("sweep")]
    line += arguments(preset, data_dir, folder)
    ended = subprocess.run(line, cwd=ROOT)
    if ended.returncode:
        raise ValueError(
            f"preset {preset.name} ended with status {ended.returncode}; the same "
            f"command continues it (its folder is {folder})"
        )
    finished.write_text(repr(preset))


def main(_: list[str]) -> None:
    """Runs the chosen presets and writes the page."""
    values = flags.FLAGS
    docs_dir = ROOT / "docs"
    if not (docs_dir / "reproduction.md").is_file():
        raise ValueError(
            f"{docs_dir} must hold reproduction.md and results/, as a clone of the "
            "repository has them"
        )
    wanted = chosen(values.size, values.only)
    output_dir = pathlib.Path(values.output_dir).absolute()
    data_dir = find_data(values.data_dir, wanted)
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
        command.print_files(pages.written("reproduction", docs_dir))


if __name__ == "__main__":
    command.run(main, __doc__)
