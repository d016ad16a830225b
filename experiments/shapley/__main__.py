"""Estimators of Shapley values against the exact ones, on the clients of a run.

  python -m experiments.shapley --dataset=digits --num_attributes=5 \\
      --estimators=additive:0,additive:6,paired:6,orders:1 --output_dir=runs/shapley

The model is trained by FedSVA with R = 1 in the noise, so that the run does not depend
on any estimate. Before each of --rounds, every client of the cohort trains all 2^N
coalitions, with the keys that a run uses. The exact values and all estimates are then
looked up instead of trained, every estimate --repeats times with other random
coalitions. An estimator is NAME:M: a choice of --shapley with M trainings of random
coalitions, or orders:M, the marginal gains over M random orders (`sampled_shapley`).

Of every estimator and round it reports, as means over clients and repeats:

  ratio_error   |R - exact R|
  value_error   root of the mean squared error of the values
  covered       how often a value's 95 % interval holds the exact one
  ratio_covered the same for R
  margin        half the width of a value's interval
  trainings     of coalitions beside the local model
  steps         their SGD steps, divided by the local model's

Written to --output_dir: config.json, games/ROUND.npz (the logits of every client's
coalitions; --resume trains no finished round again, so other --estimators are cheap),
results.json. docs/shapley.md shows results that were kept with
`python -m experiments.shapley.docs_page`.
"""

from absl import flags

from .. import command, flag_values
from . import games, study

command.define_settings(
    without=[
        *("shapley", "shapley_trainings", "mechanism"),
        *("client_momentum", "learning_rate_schedule", "learning_rate_decay"),
    ]
)
command.define_output()
flags.DEFINE_list(
    "estimators",
    [
        "additive:0",
        "leave_one_out:2",
        "leave_one_out:4",
        "leave_one_out:5",
        "additive:4",
        "additive:8",
        "paired:4",
        "paired:8",
        "orders:1",
        "orders:2",
    ],
    "What is compared with the exact values: additive:M, leave_one_out:M, paired:M, "
    "orders:M.",
)
flags.DEFINE_list(
    "rounds", ["1", "3", "6", "10", "20", "40", "60"], "Rounds in which it is compared."
)
flags.DEFINE_integer("repeats", 20, "How often each estimate is drawn.", lower_bound=1)


def main(_: list[str]) -> None:
    """Runs the study."""
    values = flags.FLAGS
    compared = [games.Compared.named(name) for name in values.estimators]
    rounds = flag_values.numbers(
        "rounds",
        values.rounds,
        kind=int,
        allowed="integers >= 1",
        is_allowed=lambda number: number >= 1,
    )
    config = command.settings_from_flags(
        values,
        mechanism="fedsva",
        contribution_release="worst_case",
        shapley="exact",
        num_rounds=max(rounds),
        eval_every=max(rounds),
    )
    command.start_jax(values)
    study.run(values, config, compared, sorted(rounds))


if __name__ == "__main__":
    command.run(main, __doc__)
