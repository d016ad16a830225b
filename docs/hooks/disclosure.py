"""MkDocs hook: the page of what a run discloses, which the library declares."""

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from fedsvp_jax.report.disclosure import EVENTS, EXPERIMENTER

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
    "steps_needed",
    "steps_run",
    "diverged_clients",
)

_PAGE = """# What a run discloses

## What leaves a client {{#events}}

| what leaves a client | its noise | change that it hides | who sees it | counted as |
|---|---|---|---|---|
{events}

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
    kept = [(_code(one.files), one.why) for one in EXPERIMENTER]
    return _PAGE.format(
        events="\n".join(map(_row, EVENTS)),
        kept="\n".join(map(_row, kept)),
        unreleased=_code(UNRELEASED),
    )


def _code(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cells)} |"
