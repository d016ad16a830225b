"""Everything that leaves a client, what an adversary may know, and what is kept."""

from typing import NamedTuple

from fedsvp_jax.accounting.participation import ANY_CHANGE

EVERYONE = "all adversaries"


class Event(NamedTuple):
    """One kind of thing that a client sends, and how the ledger counts it."""

    name: str
    mechanism: str  # of the noise, and its parameter
    relation: str  # the change of one client's data that it hides
    seen_by: str
    counted: str  # how it enters a client's sum


EVENTS = (
    Event(
        "upload",
        "Gaussian, multiplier z",
        "the mechanism's",
        "server; the others see the average that it is part of",
        "1/z², where z is the multiplier that the adversary faces",
    ),
    Event(
        "upload of Poisson batches (`--batches=poisson`)",
        "subsampled Gaussians, one in each local step",
        "one record, or all rows of a person, is left out",
        "as any upload; nobody sees who was sampled",
        "its number of steps of (z, q), with the least z of the run",
    ),
    Event(
        "release of R (`laplace`, `randomized_response`)",
        "pure, ε_r (`--release_epsilon`)",
        ANY_CHANGE,
        f"{EVERYONE}: the noise of the models shows it",
        "one randomised response of ε_r with each upload",
    ),
    Event(
        "count of clipped updates (`--adaptive_clip`)",
        "Gaussian on the cohort's sum of counts",
        "the mechanism's",
        "the trusted server; the others see the clip that follows",
        "in z of the upload: sum and count are one Gaussian",
    ),
    Event(
        "contribution (influence filter)",
        "Gaussian, std `--contribution_noise` times the clip C, sensitivity 2C",
        ANY_CHANGE,
        f"{EVERYONE}: server and testers receive it",
        "4/z² with each pass",
    ),
    Event(
        "vote (influence filter)",
        "randomised response, half of `--vote_epsilon`",
        ANY_CHANGE,
        f"{EVERYONE}: the server receives it, the choice of clients follows it",
        "one randomised response for each other client; with a second pass no finite ε",
    ),
    Event(
        "accuracy on test rows (`--publish_scores`)",
        "discrete Laplace, the ε of `--total_epsilon`, on the count of right answers",
        "one test row, or all of a person, is replaced",
        "all who see what is published; who counts is trusted",
        "alone: no client trains on a test row, so the larger of the two ε holds",
    ),
    Event(
        "statistics of BatchNorm",
        "none",
        "none",
        EVERYONE,
        "every row is nominal",
    ),
    Event(
        "statistics for preprocessing",
        "none: scales and categories are constants of the code or declared; those of "
        "a file of one's own may be taken from its records",
        f"constant or declared: {ANY_CHANGE}; else none",
        f"constant or declared: nobody; else {EVERYONE}",
        "constant or declared: 0; else every row is nominal",
    ),
)

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
        "class; scores on test rows of clients, of which one loss may tell each label",
    ),
    Kept(
        ("clients.jsonl",),
        "the same of every client, the utilities and Shapley values of its groups, and "
        "what its uploads added to the model (`--client_values`)",
    ),
    Kept(
        ("report.html", "epsilon.*", "*.svg", "*.png"),
        "what the files above hold, drawn",
    ),
    Kept(
        ("tensorboard/*", "wandb/*", "mlflow/*"),
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
