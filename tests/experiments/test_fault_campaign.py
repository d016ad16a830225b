"""Faults as a user meets them: files that may not grow, and runs that are long."""

import json
import pathlib

import pytest
from commands import (
    SMALL_RUN,
    assert_same_bytes,
    assert_sentence,
    program,
    succeeds,
)

pytestmark = pytest.mark.slow

ROUNDS = 120


def train_line(folder: pathlib.Path) -> tuple[str, ...]:
    return (
        *("experiments.train", *SMALL_RUN, f"--num_rounds={ROUNDS}"),
        *("--rounds_per_call=1", "--checkpoint_every=2", "--noreport"),
        "--resume",  # as a job script that is started again and again would
        f"--output_dir={folder}",
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """An uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    succeeds(*train_line(folder))
    return folder


# A command whose files may not grow beyond so many bytes.
LIMITED = """
import resource, runpy, sys
limit, sys.argv = int(sys.argv[1]), sys.argv[2:]
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    ("limit", "named", "kept"),
    [
        (500, "output_dir", None),
        (20_000, "checkpoints/2 cannot be written", "config.json"),
        (50_000, "s.jsonl cannot be written", "the checkpoint of round"),  # rows
    ],
)
def test_a_file_size_limit_ends_in_one_line_and_the_run_resumes(
    limit: int,
    named: str,
    kept: str | None,
    whole: pathlib.Path,
    tmp_path: pathlib.Path,
) -> None:
    folder = tmp_path / "run"
    ended = program(LIMITED, str(limit), *train_line(folder))
    last = ended.stderr.rpartition("\n\n")[2]  # after the bar
    assert_sentence(ended._replace(stderr=last), named)
    assert "File too large" in ended.stderr, ended.stderr
    if kept:
        assert f"{kept}" in ended.stderr and "--resume" in ended.stderr, ended.stderr
    else:
        assert not folder.exists()
    succeeds(*train_line(folder))
    assert_same_bytes(folder, whole)


MEMORY = """
import json, pathlib, sys
from fedsvp_jax import run
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer
from fedsvp_jax.run import one_run, records

rss, compilations, trainers = [], [], []

class Watched(Trainer):
    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        trainers.append(self)

def resident(*arguments, **named):
    text = pathlib.Path("/proc/self/status").read_text()
    rss.append(int(text.split("VmRSS:")[1].split()[0]) / 1024)
    compilations.append(trainers[0]._compiled._cache_size())

one_run.Trainer, records.check_finite = Watched, resident
config = ExperimentConfig(
    model="mlp", num_clients=6, num_hbc_clients=1, cohort_size=2, class_share=0.03,
    batch_size=5, local_epochs=1, num_rounds=2000,
)
run.train(resolve(config), sys.argv[1], placement=Placement(rounds_per_call=5))
print(json.dumps({"rss": rss, "compilations": compilations}))
"""


def test_two_thousand_rounds_neither_grow_nor_compile_again(
    tmp_path: pathlib.Path,
) -> None:
    found = program(MEMORY, str(tmp_path / "run"), timeout=1000)
    assert found.status == 0, found.stderr
    seen = json.loads(found.stdout)
    rss = seen["rss"]
    assert len(rss) == 2000 and set(seen["compilations"]) == {1}
    growth = max(rss[100:-1]) - rss[99]  # the last round also composes PLD, once
    last = rss[-1] - rss[-2]
    print(f"\nresident MiB: {rss[99]:.1f} at round 100, {growth:+.1f} in 1,899 rounds,")
    print(f"{last:+.1f} for PLD in the last one")
    assert growth < 20 and last < 40
