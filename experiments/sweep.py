"""A comparison: mechanisms x epsilons x seeds, each mechanism one compiled program.

  python -m experiments.sweep --dataset=digits --mechanisms=none,fedsdp,fedsva \\
      --epsilons=.1,.2,.5 --seeds=0:3 --num_rounds=40 --output_dir=runs/comparison

A cell is one (epsilon, seed) of one mechanism and equals the single run with the
same flags. --mechanisms=all takes every registered one; --seeds takes a list (0,3)
or a range (0:5). Mechanisms whose noise epsilon does not set (none, dp_fedavg,
gaussian) run once a seed, gaussian once a seed and --noise_stds.

Written to --output_dir: config.json, results.jsonl (a line a cell and round),
cells.json (a summary a cell), table.md, table.csv, timing.jsonl, checkpoints/,
report.html. A killed sweep goes on where it was with --resume.

Exit status: 0 done; 2 bad input or a sweep that cannot go on, told in one line.
"""

import json

from absl import flags

from fedsvp_jax import mechanisms
from fedsvp_jax.devices import processes

from . import command

command.define_settings(without=("mechanism", "epsilon", "seed"))
command.define_output()
command.define_running()
flags.DEFINE_list("mechanisms", ["none", "fedsva"], "Names, or all.")
flags.DEFINE_list("epsilons", ["0.1", "0.2", "0.5"], "Budgets of one upload.")
flags.DEFINE_string("seeds", "0:3", "A list 0,1,2 or a range 0:3.")
flags.DEFINE_list(
    "noise_stds", [], "Standard deviations that the mechanism gaussian is swept over."
)
flags.DEFINE_integer(
    "cell_chunk_size",
    1,
    "Cells that run side by side in one vmapped product; 1 runs them in turn, as is "
    "best on a CPU.",
    lower_bound=1,
)
flags.DEFINE_integer(
    "sweep_devices",
    1,
    "Devices that share a mechanism's cells; it divides their number.",
    lower_bound=1,
)


def _numbers(
    name: str, texts: list[str], *, may_be_empty: bool = False
) -> tuple[float, ...]:
    try:
        found = tuple(float(text) for text in texts)
    except ValueError:
        raise ValueError(
            f"{name} must be numbers with commas between them, got {','.join(texts)!r}"
        ) from None
    if not found and not may_be_empty:
        raise ValueError(f"{name} must name at least one number")
    return tuple(dict.fromkeys(found))


def _seeds(text: str) -> tuple[int, ...]:
    try:
        if ":" in text:
            first, last = (int(part) for part in text.split(":"))
            found = tuple(range(first, last))
        else:
            found = tuple(int(part) for part in text.split(","))
    except ValueError:
        found = ()
    if not found or min(found) < 0:
        raise ValueError(f"seeds must be a list 0,1,2 or a range 0:3, got {text!r}")
    return tuple(dict.fromkeys(found))


def main(_: list[str]) -> None:
    """Runs what the flags name."""
    values = flags.FLAGS
    known = mechanisms.mechanism_names()
    names = tuple(dict.fromkeys(values.mechanisms))
    if names == ("all",):
        names = known
    if not names:
        raise ValueError(
            f"mechanisms must name at least one of {', '.join(known)}, or all"
        )
    epsilons = _numbers("epsilons", values.epsilons)
    seeds = _seeds(values.seeds)
    command.start_jax(values)
    command.start_processes(values)
    stds = _numbers("noise_stds", values.noise_stds, may_be_empty=True)
    if stds and "gaussian" not in names:
        raise ValueError("noise_stds is read by gaussian, which mechanisms lacks")
    for std in stds:
        command.settings_from_flags(values, noise_std=std)
    for name in names:
        for epsilon in epsilons:  # every cell's settings are checked before any runs
            base = command.settings_from_flags(
                values, mechanism=name, epsilon=epsilon, seed=seeds[0]
            )

    from fedsvp_jax.run import sweep

    sweep.sweep(
        base,
        sweep.SweepPlan(names, epsilons, seeds, stds),
        values.output_dir,
        placement=command.placement(
            values,
            sweep_devices=values.sweep_devices,
            cell_chunk_size=values.cell_chunk_size,
        ),
        resume=values.resume,
        checkpoint_every=values.checkpoint_every,
        on_divergence=values.on_divergence,
        progress=command.shows_progress(values),
        tensorboard=values.tensorboard,
    )
    if not processes.is_first():
        return
    from fedsvp_jax.report import tables

    tables.write_tables(values.output_dir)
    with open(f"{values.output_dir}/results.jsonl") as file:
        rows = tables.summarize([json.loads(line) for line in file])
    print(tables.format_table(rows))
    command.write_report(values, "sweep")


if __name__ == "__main__":
    command.run(main, __doc__)
