"""What an adversary may know, and what stays with the experimenter."""

from typing import NamedTuple

PUBLIC = (
    "all settings but the seed; the cohorts, and for the server who took part in a "
    "round; K, M, T and the rounds' timing",
    "|D_i| and the number of validation examples of every client; with "
    "`--sensitivity=attribute_records` |P_i| and who has private records; weights",
    "which client holds which record, and so how many hold the same one; the rule and "
    "the positions of the split, the order of batches; with `--split=stratified` and "
    "`--attributes`, the counts by attribute, not those by class",
    "preprocessing that the code fixes (pixel ranges, Adult's bounds and categories) "
    "or that a table's schema (`--schema`) and `--classes` declare; "
    "whatever an .npz file was scaled with before it came here. What is taken from the "
    "records is not public, and every claim is nominal then",
    "the model's shape and initial weights",
    "the test set and the examples of the centre (`--warmup_examples`), which no "
    "client holds. W_0 of the filter is trained on them without noise. "
    "`--validation_examples` are taken from the test set, so the choice of the best "
    "round by them tells nothing of a client's data that the broadcast models do not "
    "tell",
    "what is released: the broadcast models and the final one, votes and R with their "
    "noise, and what is a function of these and of the above: accuracies and losses on "
    "the test set, also of the private group, and the table of guarantees",
    "under `--sensitivity=paper`, which is not proved anyway, which uploads were not "
    "finite, and a run that stopped for it",
)


class Kept(NamedTuple):
    """Files of a run that are for the experimenter alone."""

    files: tuple[str, ...]  # as fnmatch reads them
    why: str


EXPERIMENTER = (
    Kept(
        ("config.json",),
        "the seed, from which all noise, cohorts and batches follow; the fingerprint "
        "of the data, by which a guess of all records can be confirmed; paths",
    ),
    Kept(
        ("metrics.jsonl", "results.jsonl", "table.*", "summary.json", "cells.json"),
        "numbers without noise: norms of updates and of noise, R, how many were "
        "clipped; the worst tenth of clients, which follows each client's counts by "
        "class",
    ),
    Kept(
        ("clients.jsonl",),
        "the same of every client, the utilities and Shapley values of its groups, and "
        "what its uploads added to the model (`--client_values`)",
    ),
    Kept(
        ("report.html", "epsilon.*", "*.svg", "*.png"),
        "what the files above hold, drawn; partition.svg the counts by class",
    ),
    Kept(
        ("csv/*", "tensorboard/*", "wandb/*", "mlflow/*"),
        "the numbers of metrics.jsonl, for `--logger`; wandb and mlflow may send them "
        "to a server",
    ),
    Kept(("timing.jsonl",), "how long each call took"),
    Kept(
        ("checkpoints/*", "best/*"),
        "the state: norms and clips of single clients, what each has spent",
    ),
    Kept(("predictions.csv",), "the labels of the data that were predicted"),
    Kept(("results.json", "*.npz"), "what attacks found: private records themselves"),
)
