"""Compares mechanisms x epsilons x seeds; each mechanism is one compiled program.

  fedsvp sweep --dataset=digits --mechanisms=none,fedsdp,fedsva \\
      --epsilons=.1,.2,.5 --seeds=0:3 --num_rounds=40 --output_dir=runs/comparison

A cell is one (epsilon, seed) of one mechanism; its numbers are those of the single run
with the same flags. --total_epsilons=1,3,8 names ε of the whole run in place of
--epsilons, which are ε per upload: the noise of each cell is solved for, and none
(FedAvg) runs as the reference. --mechanisms=all takes every registered mechanism.
--seeds takes a list (0,3) or a range (0:5). With --epsilons, mechanisms whose noise
does not depend on epsilon (none, dp_fedavg) run once per seed.

Written to --output_dir: config.json, results.jsonl (one line per cell and round),
cells.json (one summary per cell), table.md, table.tex (LaTeX), table.csv, checkpoints/,
report.html, and epsilon.html with epsilon.json: what every ε of the run is worth, for
those who decide on it. --resume continues a sweep that was stopped or killed, and with
longer lists adds their cells to those that are there.

--part=2/4 runs the second of four parts of the cells, in a folder of its own;
`fedsvp merge` joins the folders of all parts.

Exit status: 0 done; 2 bad input, or the sweep cannot continue (one line says why).
"""

import dataclasses
from typing import Any

from absl import flags

from fedsvp_jax import mechanisms

from . import command, flag_values, presets, printed, unread_flags

command.define_settings(without=["mechanism", "epsilon", "seed"])
command.define_output()
command.define_running()
command.define("preset", enum_values=presets.preset_names("sweep"))
command.define("sweep")


def main(_: list[str]) -> None:
    """Runs the sweep."""
    values = flags.FLAGS
    if values.preset is not None:
        preset = presets.read_preset("sweep", values.preset)
        command.default_settings(values, preset.flags)
    registered = mechanisms.mechanism_names()
    names = tuple(dict.fromkeys(values.mechanisms))
    if names == ("all",):
        names = registered
    if not names:
        raise ValueError(
            f"mechanisms must name at least one of {', '.join(registered)}, or all"
        )
    epsilons = flag_values.numbers("epsilons", values.epsilons)
    first, colon, last = values.seeds.partition(":")
    try:
        numbers = range(int(first), int(last)) if colon else map(int, first.split(","))
        seeds = tuple(dict.fromkeys(numbers))
    except ValueError:
        seeds = ()
    if not seeds or min(seeds) < 0:
        raise ValueError(
            f"seeds must be a list 0,1,2 or a range 0:3, got {values.seeds!r}"
        )
    command.start_jax()
    totals: tuple[float, ...] = ()  # ε of runs, for which the noise is solved
    if values.total_epsilons:
        why = "total_epsilons say ε of the whole run, for which the noise is solved"
        flag_values.refuse_flags(values, ("total_epsilon", "solve"), why)
        totals = flag_values.numbers("total_epsilons", values.total_epsilons)
    elif values.solve == "noise" and values.total_epsilon:
        totals = (values.total_epsilon,)
    swept: list[dict[str, Any]] = [
        {"total_epsilon": total, "solve": "noise"} for total in totals
    ] or [{"epsilon": epsilon} for epsilon in epsilons]
    for name in names:
        for cell in swept:  # all settings are checked before any cell runs
            base = command.settings_from_flags(
                values, mechanism=name, seed=seeds[0], **cell
            )
    unread_flags.refuse(values, names, base)
    if totals:  # the base keeps no promise, every cell its own
        base = dataclasses.replace(base, total_epsilon=None, solve="uploads")

    from fedsvp_jax.federation import loading
    from fedsvp_jax.run import sweep

    from . import chosen

    plan = sweep.SweepPlan(names, epsilons, seeds, values.part, totals)
    data = loading.load_dataset(base)
    print(chosen.text(base, values, data), end="")
    sweep.sweep(
        base,
        plan,
        values.output_dir,
        dataset=data,
        placement=command.placement(
            values,
            sweep_devices=values.sweep_devices,
            cell_chunk_size=values.cell_chunk_size,
        ),
        options=command.options(values),
    )
    printed.sweep_tables(values.output_dir)
    command.write_report(values)
    command.print_folder(values.output_dir)


if __name__ == "__main__":
    command.run(main, __doc__)
