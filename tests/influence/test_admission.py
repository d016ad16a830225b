"""The influence filter in a federation: who may take part, recorded and resumable."""

import json
import pathlib
from typing import Any

import numpy as np
import pytest
from small_runs import SAME_BYTES, Stopped, contents, digits, read_rows, small, stop_at

from experiments import messages
from fedsvp_jax import run
from fedsvp_jax.accounting import composed_epsilon
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.federation import build, federated_data
from fedsvp_jax.influence import privacy
from fedsvp_jax.influence.lazy import Verdict
from fedsvp_jax.report import headline
from fedsvp_jax.run import influence_filter
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

FILTERED: dict[str, Any] = {
    "mechanism": "none",
    "num_clients": 10,
    "num_hbc_clients": 0,
    "num_rounds": 4,
    "cohort_size": 4,
    "partition": "iid",
    "corrupted_share": 0.3,
    "influence_filter": "join",
    "backbone_epochs": 10,
}


def filtered(**changes: Any) -> ExperimentConfig:
    return small(**(FILTERED | changes))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("filtered") / "run"
    placed = Placement(rounds_per_call=4)
    run.train(filtered(), path, dataset=digits(), placement=placed)
    return path


def test_the_rejected_are_not_asked_and_the_record_says_who_and_why(
    whole: pathlib.Path,
):
    metrics = read_rows(whole / "metrics.jsonl")
    clients = read_rows(whole / "clients.jsonl")
    passes = [row["influence_filter"] for row in metrics]
    assert [found is not None for found in passes] == [True, False, False, False]
    current: set[int] = set()
    for row in metrics:
        found = row["influence_filter"]
        if found is not None:
            current = set(found["rejected"])
            below = np.flatnonzero(np.asarray(found["scores"]) < found["threshold"])
            assert current == set(below.tolist())
            assert found["gap"] >= found["required_gap"]
        asked = {c["client"] for c in clients if c["round"] == row["round"]}
        assert len(asked) == 4 and not asked & current
    summary = json.loads((whole / "summary.json").read_text())
    assert set(summary["rejected_clients"]) == current
    assert len(summary["corrupted_clients"]) == 3
    assert summary["rejected_clients"] == summary["corrupted_clients"]


def train(folder: pathlib.Path, *, resume: bool = False) -> None:
    options = run.Options(resume=resume, checkpoint_every=1)
    run.train(filtered(), folder, dataset=digits(), options=options)


def test_a_resumed_run_writes_the_same_bytes(
    whole: pathlib.Path, tmp_path: pathlib.Path
):
    folder = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        stop_at(patch, 4, "none")
        with pytest.raises(Stopped):
            train(folder)
    train(folder, resume=True)
    assert contents(folder, SAME_BYTES) == contents(whole, SAME_BYTES)


def test_the_centres_examples_belong_to_no_client():
    config = filtered(corrupted_share=0.0)
    found = federated_data.federate([config], digits())
    assert found.warmup is not None
    assert found.warmup.labels.shape == (100,)
    assert found.examples.labels.shape == (len(digits().train_labels) - 100,)
    held = {image.tobytes() for image in np.asarray(found.examples.inputs)}
    shared = [i.tobytes() in held for i in np.asarray(found.warmup.inputs)]
    assert np.mean(shared) < 0.1  # but for scans that digits holds twice


@pytest.mark.hole
def test_the_command_says_who_is_rejected_and_what_the_filter_cost(
    whole: pathlib.Path,
) -> None:
    """It ended with "epsilon_spent: none is claimed", after an ε of 284."""
    summary = json.loads((whole / "summary.json").read_text())

    def printed(**changes: Any) -> str:
        return messages.filled(
            "train.txt",
            **{"config": filtered(), "filter_cost": privacy.filter_cost},
            **{"goal": None, "place": whole},
            sentences=headline.sentences(whole, summary),
            summary=summary | changes,
        )

    rejected = ", ".join(map(str, summary["rejected_clients"]))
    assert f"influence_filter: rejected clients {rejected}; each" in printed()
    config = filtered()
    cost = privacy.filter_cost(config, num_participants=config.num_clients, delta=1e-5)
    assert f"ε = {cost.contribution_epsilon:.4g} at δ = 1e-05" in printed()
    assert f"for {cost.votes} votes" in printed()
    assert "rejected clients none" in printed(rejected_clients=[])


@pytest.mark.hole
def test_one_promise_pays_for_the_filter_and_the_uploads(tmp_path: pathlib.Path):
    """The rows and the plot of a run count contributions and votes."""
    hidden = {"vote_epsilon": 0.02, "contribution_noise": 60.0}
    noised = {"mechanism": "nbafl", "clipping": "update_clip", "delta": 1e-3}
    promise = {"total_epsilon": 0.6, "epsilon": 0.3, "num_rounds": 12}
    config = filtered(influence_filter="join", **promise, **hidden, **noised)
    placed = Placement(rounds_per_call=4)
    summary = run.train(config, tmp_path / "run", dataset=digits(), placement=placed)
    assert summary["stopped_by"] == "promise" and summary["most_uploads"] >= 2
    cost = privacy.filter_cost(
        config, num_participants=config.num_clients, delta=config.target_delta
    )
    told = {"responses": [(cost.votes, cost.vote_epsilon)]}
    assert cost.passes == 1
    alone = composed_epsilon("pld", cost.precision, config.target_delta, **told)
    assert 0.1 < alone < summary["epsilon_spent"]["pld"]
    assert summary["epsilon_spent"]["rdp"] <= 0.6
    assert set(summary["status"].values()) == {"nominal"}  # of a tally
    proved = [row for row in summary["guarantees"] if row["status"] == "proved"]
    assert [(row["method"], row["epsilon"]) for row in proved] == [
        ("promise by rdp", 0.6)
    ]
    first, second = read_rows(tmp_path / "run" / "metrics.jsonl")[:2]
    cost = first["influence_filter"]["cost"]
    assert cost["votes_per_pass"] == 9 and "bounds" not in cost  # they are the schema's
    assert second["influence_filter"] is None
    ends = read_rows(tmp_path / "run" / "metrics.jsonl")[-1]["rdp_by_adversary"]
    for row in summary["guarantees"]:
        if row["method"] == "rdp":
            assert ends[row["adversary"]] == pytest.approx(row["epsilon"], rel=1e-6)


def test_a_filter_that_leaves_no_whole_cohort_ends_the_run_with_a_sentence(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
):
    def everybody_but_three(*_: Any) -> Verdict:
        numbers = [np.zeros(())] * len(Verdict._fields)
        return Verdict(*numbers)._replace(rejected=np.arange(10) >= 3)

    monkeypatch.setattr(influence_filter, "judge", everybody_but_three)
    config = filtered(
        mechanism="dp_fedavg",
        influence_filter="join",
        noise_multiplier=30.0,
        total_epsilon=1.0,
        vote_epsilon=0.02,
        contribution_noise=60.0,
    )
    with pytest.raises(ValueError, match="admits 3 clients, and no cohort"):
        run.train(config, tmp_path / "run", dataset=digits())


def test_a_sweep_and_a_foreign_model_are_refused():
    with pytest.raises(ValueError, match="influence_filter must be none in a sweep"):
        federated_data.federate([filtered(), filtered(seed=1)], digits())
    trainer = Trainer(build([filtered(influence_filter="none")], digits()))
    with pytest.raises(ValueError, match="a model of your own"):
        Trainer(build([filtered()], digits(), model=trainer.program.model))
