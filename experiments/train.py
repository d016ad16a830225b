"""One federated run with a noise mechanism, from data to report.

  python -m experiments.train --dataset=digits --mechanism=fedsva --epsilon=0.5 \\
      --num_rounds=50 --seed=0 --output_dir=runs/fedsva

Every round, K of M clients train E local epochs on the broadcast model. FedSVA and
FedSDP clients also train a copy on every coalition of attributes, read the private
attribute's contribution ratio R off the Shapley values, and add Gaussian noise whose
scale follows R. The server averages the uploads and tests the model.

Written to --output_dir: config.json, metrics.jsonl (a line a round), clients.jsonl
(a line a client and round), timing.jsonl, summary.json, checkpoints/, report.html.
The same command gives the same bytes, on any --num_devices; --resume goes on with a
run that was stopped or killed. Data sets other than digits are read from --data_dir.

Exit status: 0 done; 2 bad input or a run that cannot go on, told in one line.
"""

from absl import flags

from fedsvp_jax.devices import processes

from . import command

command.define_settings()
command.define_output()
command.define_running()


def main(_: list[str]) -> None:
    """Runs what the flags name."""
    values = flags.FLAGS
    command.start_jax(values)
    command.start_processes(values)
    config = command.settings_from_flags(values)

    from fedsvp_jax import run

    summary = run.train(
        config,
        values.output_dir,
        placement=command.placement(values),
        resume=values.resume,
        checkpoint_every=values.checkpoint_every,
        on_divergence=values.on_divergence,
        progress=command.shows_progress(values),
        tensorboard=values.tensorboard,
    )
    if not processes.is_first():
        return
    if summary["stopped_by_promise"]:
        print(
            f"stopped before round {summary['rounds'] + 1}: every client's next upload "
            f"would exceed total_epsilon = {config.total_epsilon} "
            f"({config.total_accounting})"
        )
    for name in ("best_accuracy", "final5_accuracy", "epsilon_spent", "params_sha256"):
        print(f"{name}: {command.shown(summary[name])}")
    command.write_report(values, "run")


if __name__ == "__main__":
    command.run(main, __doc__)
