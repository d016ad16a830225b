"""What an adversary may know of a run, and what is kept.

What leaves a client, and how it is counted, is a table of the docs.
"""

PUBLIC = (
    "all settings but the seed; the cohorts, and for the server who took part in a "
    "round; K, M, T and the rounds' timing",
    "|D_i| and the number of validation examples of every client; with "
    "`--clipping=attribute_records` |P_i| and who has private records; weights",
    "which client holds which record, and so how many hold the same one; whose each "
    "row is, and so how many rows a person has (`[person]`); the rule and "
    "the positions of the split, the order of batches; with `--split=stratified` and "
    "`--attributes`, the counts by attribute, not those by class",
    "preprocessing that the code fixes (pixel ranges, Adult's bounds and categories) "
    "or that a table's schema (`--schema`) and `--classes` declare; "
    "whatever an .npz file was scaled with before it came here. What is taken from the "
    "records is not public, and every claim is nominal then",
    "the model's shape and initial weights",
    "a test set that is published already or of people who agreed (`--test_data`), and "
    "the validation examples taken from it. **Test rows of a table, of an .npz file or "
    "of writers who train are not public**, and no ε covers them: of their scores only "
    "`published_scores` (`--publish_scores`) is",
    "the examples of the centre (`--warmup_examples`), on which W_0 of the filter is "
    "trained without noise: of a table they are clients' rows, and no ε covers them",
    "what is released: the broadcast models and the final one, votes and R with their "
    "noise, and what is a function of these and of the above: the table of guarantees, "
    "and on a public test set accuracies and losses, also of the private group",
    "under `--clipping=paper`, which is not proved anyway, which uploads were not "
    "finite, and a run that stopped for it",
)


# Files of a run that are for the experimenter alone, as fnmatch reads them, and why.
EXPERIMENTER = (
    (
        ("config.json",),
        "the seed, from which all noise, cohorts and batches follow; the fingerprint "
        "of the data, by which a guess of all records can be confirmed; paths",
    ),
    (
        ("metrics.jsonl", "results.jsonl", "table.*", "summary.json", "cells.json"),
        "numbers without noise: norms of updates and of noise, R, how many were "
        "clipped; the worst tenth of clients, which follows each client's counts by "
        "class; scores on test rows of clients, of which one loss may tell each label",
    ),
    (
        ("clients.jsonl",),
        "the same of every client, the utilities and Shapley values of its groups, and "
        "what its uploads added to the model (`--client_values`)",
    ),
    (
        ("report.html", "epsilon.*", "*.svg", "*.png"),
        "what the files above hold, drawn",
    ),
    (
        ("tensorboard/*", "wandb/*", "mlflow/*"),
        "the numbers of metrics.jsonl, for `--logger`; wandb and mlflow may send them "
        "to a server",
    ),
    (
        ("checkpoints/*",),
        "the state: norms and clips of single clients, what each has spent",
    ),
    (("predictions.csv",), "the labels of the data that were predicted"),
    (("results.json", "*.npz"), "what attacks found: private records themselves"),
)
