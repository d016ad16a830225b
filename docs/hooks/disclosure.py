"""MkDocs hook: the page of what a run discloses, which the library declares."""

import tomllib
from collections.abc import Iterable

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from fedsvp_jax.report import style

# The files of a run that are kept, each of `files` and `why`.
EXPERIMENTER = tomllib.loads(style.asset("disclosure.toml"))["experimenter"]

# Fields of a row that clients' private examples decide and no noise hides. Its other
# fields follow from the settings and from the released models, votes and R.
UNRELEASED = (
    "worst_tenth_accuracy",
    "noise_multiplier_mean",
    "noise_std_mean",
    "step_noise_std_mean",
    "noise_l2",
    "aggregate_noise_l2",
    "update_l2",
    "num_clipped_updates",
    "contribution_ratio_mean",
    "num_clipped_ratios",
    "num_degenerate_ratios",
    "diverged_clients",
)

# ruff: noqa: E501 -- rows of a table
_PAGE = """# What a run discloses

## What leaves a client {{#events}}

| what leaves a client | its noise | change that it hides | who sees it | counted as |
|---|---|---|---|---|
| upload | Gaussian, multiplier z | the mechanism's | server; the others see the average that it is part of | 1/z², where z is the multiplier that the adversary faces |
| upload of Poisson batches (`--batches=poisson`) | subsampled Gaussians, one in each local step | one record, or all rows of a person, is left out | as any upload; nobody sees who was sampled | its number of steps of (z, q), with the least z of the run |
| release of R (`laplace`, `randomized_response`) | pure, ε_r (`--release_epsilon`) | any change of one client's data | all adversaries: the noise of the models shows it | one randomised response of ε_r with each upload |
| count of clipped updates (`--adaptive_clip`) | Gaussian on the cohort's sum of counts | the mechanism's | the trusted server; the others see the clip that follows | in z of the upload: sum and count are one Gaussian |
| contribution (influence filter) | Gaussian, std `--contribution_noise` times the clip C, sensitivity 2C | any change of one client's data | all adversaries: server and testers receive it | 4/z² with each pass |
| vote (influence filter) | randomised response, half of `--vote_epsilon` | any change of one client's data | all adversaries: the server receives it, the choice of clients follows it | one randomised response for each other client; with a second pass no finite ε |
| counts of test rows (`--publish_scores`) | discrete Gaussian, of the promised ε and δ | one test row, or all of a person, is replaced or left out | all who see what is published; who counts is trusted | alone: no client trains on a test row, so the larger of the two ε holds |
| statistics of BatchNorm | none | none | all adversaries | every row is nominal |
| statistics for preprocessing | none: scales and categories are constants of the code or declared; those of a file of one's own may be taken from its records | constant or declared: any change of one client's data; else none | constant or declared: nobody; else all adversaries | constant or declared: 0; else every row is nominal |

## Files for the experimenter alone {{#experimenter}}

| files | what they tell |
|---|---|
{kept}

Fields of metrics.jsonl that no noise hides: {unreleased}.
"""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Adds disclosure.md."""
    files.append(File.generated(config, "disclosure.md", content=markdown()))
    return files


def markdown() -> str:
    """The page."""
    kept = [(_code(one["files"]), one["why"]) for one in EXPERIMENTER]
    return _PAGE.format(
        kept="\n".join(map(_row, kept)),
        unreleased=_code(UNRELEASED),
    )


def _code(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
