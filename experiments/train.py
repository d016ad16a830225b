"""Runs one federated training with a noise mechanism, and reports on it.

Of a table, with a proved promise, by fixed defaults (docs/own_data.md):

  fedsvp train --data=DATA.csv --schema=schema.toml --goal=proved \\
      --total_epsilon=3 --output_dir=runs/proved

Beside these a hospital may need --noise_trust=secure_aggregation (the server sees sums
alone), --colluders, --class_weights, and --publish_scores or --test_data for scores
that may be published; all others stay with you. The folder has model.safetensors too,
which `fedsvp predict` takes anywhere.

As in the papers, where --epsilon is of one upload and not proved:

  fedsvp train --dataset=digits --mechanism=fedsva --epsilon=0.5 \\
      --num_rounds=50 --seed=0 --output_dir=runs/fedsva

In every round, K of M clients train the broadcast model for E local epochs. FedSVA and
FedSDP clients also train one copy per coalition of attributes, compute the private
attribute's contribution ratio R from the Shapley values, and add Gaussian noise whose
scale depends on R. The server averages the uploads and tests the model.

Written to --output_dir: config.json, metrics.jsonl (one line per round), clients.jsonl
(one line per client and round), summary.json, checkpoints/, report.html.
The same command gives the same bytes on any --num_devices, on one kind of machine with
as many CPU threads. --resume continues a run that was stopped or killed. Data sets
other than digits are read from --data_dir.

--preset=NAME sets flags that are not named (docs/useful_model.md):

  fedsvp train --preset=proved_mnist --data_dir=FOLDER \\
      --total_epsilon=2 --output_dir=runs/proved

--dry_run keeps no model: it shows who holds what, the noise, the ε of the whole run,
and last, within a minute, how long it would take, by timing a few rounds.
--config=runs/a/config.json takes the settings of a run, and --flagfile=FILE flags from
a file.

Exit status: 0 done; 2 bad input, or the run cannot continue (one line says why).
"""

import os
import pathlib

from absl import flags

from . import command, goal, messages, presets, unread_flags

command.define_settings()
command.define_output()
command.define_running()
command.define("preset", enum_values=presets.preset_names("train"))
command.define("train")


def main(_: list[str]) -> None:
    """Runs the training."""
    values = flags.FLAGS
    command.start_jax()
    if values.data is not None:
        kind = "npz" if values.data.endswith(".npz") else "csv"
        command.default_settings(values, {"dataset": kind, "data_dir": values.data})
    if values.goal is not None:
        command.default_settings(values, goal.settings(values.goal, values))
    if values.preset is not None:
        preset = presets.read_preset("train", values.preset)
        command.default_settings(values, preset.flags)
        if values.solve == "noise" and values.total_epsilon is None:
            raise ValueError(
                f"preset {values.preset} needs total_epsilon, the ε of the whole run "
                "(epsilon is that of one upload, and is solved for)"
            )
    config = command.settings_from_flags(values)
    unread_flags.refuse(values, [config.mechanism], config)

    from fedsvp_jax import federation, run
    from fedsvp_jax.core.files import write_json
    from fedsvp_jax.data.dataset import Dataset
    from fedsvp_jax.federation import federated_data
    from fedsvp_jax.run import noise_key, trained_model

    from . import chosen, dry_run

    data = federated_data.load_data(config)
    messages.check_units("train", data, data.schema, values)
    print(chosen.text(config, values, data), end="")
    if values.goal is not None:
        print(f"route of --goal: clipping {config.clipping}, model {config.model}")
    if values.dry_run:
        secret = noise_key.fresh() if config.secret_noise else None
        program = federation.build([config], data, noise_key=secret)
        print(dry_run.summary(program, data), flush=True)
        text = messages.filled(
            "dry_run_time.txt",
            num_rounds=config.num_rounds,
            seconds=dry_run.measured(program, command.placement(values)),
            limit=dry_run.LIMIT,
        )
        print(text, flush=True)
        os._exit(0)  # clearing up would wait for a round, or free what it reads
    try:
        summary = run.train(
            config,
            values.output_dir,
            dataset=data,
            placement=command.placement(values),
            options=command.options(values),
        )
    except FloatingPointError:
        command.write_report(values)
        command.print_folder(values.output_dir)
        raise
    from fedsvp_jax.influence import privacy
    from fedsvp_jax.report import coefficients, headline

    place = pathlib.Path(values.output_dir)
    model = None if data.schema is None else run.load_model(place)
    if values.goal is not None and values.reference:
        assert isinstance(data, Dataset)
        scores = run.reference_scores(config, data, model)
        if model is not None:
            scores |= coefficients.standard_errors(place, config, data, model)
        write_json(place / headline.REFERENCE, scores)
    if model is not None:
        model.save(place / trained_model.MODEL)
    command.write_report(values)
    print(
        messages.filled(
            "train.txt",
            config=config,
            filter_cost=privacy.filter_cost,
            goal=values.goal,
            summary=summary,
            sentences=headline.sentences(place, summary),
            place=place,
        )
    )
    if values.goal is None:
        command.print_folder(values.output_dir)


if __name__ == "__main__":
    command.run(main, __doc__)
