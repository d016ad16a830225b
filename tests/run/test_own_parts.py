"""A round's part handed in: an aggregator of one's own."""

import json
import pathlib
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from small_runs import digits, small

import fedsvp_jax
from fedsvp_jax import report, run
from fedsvp_jax.core.tree import l2_norm
from fedsvp_jax.report import provenance
from fedsvp_jax.round.aggregator import WEIGHTED_SUM
from fedsvp_jax.round.state import Aggregator


def median(mechanism, total, uploads, infos, valid):
    """The coordinates' medians over the places that a client filled."""

    def middle(leaf):
        mask = valid.reshape(-1, *(1,) * (leaf.ndim - 1))
        medians = jnp.nanmedian(jnp.where(mask, leaf, jnp.nan), axis=0)
        return jnp.nan_to_num(medians)  # in a round without clients: no step

    return total._replace(update=jax.tree.map(middle, uploads.params))


MEDIAN = Aggregator(WEIGHTED_SUM.encode, median, needs_uploads=True)


@pytest.fixture(scope="module")
def averaged_and_medians(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, tuple[pathlib.Path, dict]]:
    """Folder and summary of a round, by how it makes one update of its uploads."""
    config = small(
        mechanism="gaussian", epsilon=1.0, clipping="update_clip", num_rounds=1
    )
    runs = {}
    for name, aggregator in (("mean", None), ("median", MEDIAN)):
        folder = tmp_path_factory.mktemp(name) / "run"
        named = {"dataset": digits(), "aggregator": aggregator}
        runs[name] = folder, run.train(config, folder, **named)
    return runs


def test_a_median_moves_the_model_by_the_medians_of_uploads_it_hands_out() -> None:
    """Also the sentence of docs/library.md: an aggregator measures by a callback."""
    seen = []

    def measured(mechanism, total, uploads, infos, valid):
        first = jax.tree.leaves(uploads.params)[0].reshape(len(valid), -1)[:, :5]
        jax.debug.callback(seen.append, first)
        return median(mechanism, total, uploads, infos, valid)

    state, step = fedsvp_jax.make_round(
        small(mechanism="none", num_rounds=1),
        digits(),
        aggregator=Aggregator(WEIGHTED_SUM.encode, measured, needs_uploads=True),
    )
    after, _ = step(state)
    moved = jax.tree.map(jnp.subtract, after.server.params, state.server.params)
    jax.effects_barrier()
    first = np.asarray(jax.tree.leaves(moved)[0]).ravel()[:5]
    (uploads,) = seen
    np.testing.assert_allclose(first, np.median(uploads, axis=0), rtol=1e-4, atol=1e-6)
    assert float(l2_norm(moved)) > 0


def test_uploads_are_measured_in_a_run(tmp_path: pathlib.Path) -> None:
    seen = []

    def measured(mechanism, total, uploads, infos, valid):
        norms = jax.vmap(l2_norm)(uploads.params)
        jax.debug.callback(lambda *of_round: seen.append(of_round), norms, valid)
        return total

    run.train(
        small(mechanism="gaussian", epsilon=1.0, num_rounds=2),
        tmp_path / "run",
        dataset=digits(),
        aggregator=Aggregator(WEIGHTED_SUM.encode, measured, needs_uploads=True),
    )
    assert len(seen) == 2
    assert all(norms.shape == (3,) and norms.min() > 0 for norms, _ in seen)


def test_another_aggregator_with_noise_of_a_seed_is_nominal_at_the_same_cost(
    averaged_and_medians: dict[str, tuple[pathlib.Path, dict]],
) -> None:
    folders = [folder for folder, _ in averaged_and_medians.values()]
    texts = [(folder / "summary.json").read_text() for folder in folders]
    assert ["take secret_noise" in text for text in texts] == [False, True]
    settings = json.loads((folders[1] / "config.json").read_text())
    assert provenance.unknown_settings(settings) == ["aggregator"]  # --config refuses
    last = [(folder / "metrics.jsonl").read_text() for folder in folders]
    spent = [json.loads(text.splitlines()[-1])["epsilon_spent"] for text in last]
    assert spent[0] == spent[1]


def of_update(change):
    def decode(mechanism, total, uploads, infos, valid):
        return change(total, uploads.params)

    return Aggregator(WEIGHTED_SUM.encode, decode, needs_uploads=True)


def moved_by_one_number(total, uploads):
    return total._replace(update=jax.tree.map(jnp.mean, uploads))


@pytest.mark.hole
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (moved_by_one_number, "aggregator of_update"),
        (lambda total, uploads: uploads, "another dict"),
        (lambda total, uploads: None, "another NoneType"),
    ],
)
def test_a_part_of_another_shape_is_one_sentence_and_leaves_no_folder(
    tmp_path: pathlib.Path, change: Callable, words: str
) -> None:
    """The first ran; the others ended in JAX's words after config.json."""
    config = small(mechanism="gaussian", epsilon=1.0, num_rounds=1)
    with pytest.raises(ValueError, match=words):
        run.train(
            config, tmp_path / "run", dataset=digits(), aggregator=of_update(change)
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.hole
def test_the_noise_of_an_average_is_not_said_of_medians(
    averaged_and_medians: dict[str, tuple[pathlib.Path, dict]],
) -> None:
    said = {}
    for name, (folder, _) in averaged_and_medians.items():
        line = (folder / "metrics.jsonl").read_text()
        said[name] = json.loads(line)["aggregate_noise_l2"]
        report.write_run_report(folder)
    assert said["mean"] > 0 and said["median"] is None


@pytest.mark.hole
def test_an_empty_place_holds_no_noise_of_a_client() -> None:
    """It held client 0's noise under its key of the round, without its update.

    The spread of two places moved the model by the bare update of client 0, and the
    run's claim against whoever sees the models was proved.
    """
    config = small(
        mechanism="gaussian",
        epsilon=0.5,
        delta=1e-5,
        clipping="update_clip",
        max_uploads=1,
        num_clients=2,
        cohort_size=2,
        client_chunk_size=2,  # side by side, as a CPU does it by default
        num_hbc_clients=0,
        num_rounds=1,
    )

    of_place = []

    def spread(mechanism, total, uploads, infos, valid):
        jax.debug.callback(of_place.append, jax.vmap(l2_norm)(uploads.params))
        difference = jax.tree.map(lambda leaf: leaf[0] - leaf[1], uploads.params)
        return total._replace(update=difference)

    state, step = fedsvp_jax.make_round(
        config,
        digits(),
        aggregator=Aggregator(WEIGHTED_SUM.encode, spread, needs_uploads=True),
    )
    spent = state.server.spent.at[1].set(1)  # in a round before, with somebody else
    after, metrics = step(state.replace(server=state.server.replace(spent=spent)))
    assert metrics.clients.client_id.tolist() == [0, -1]
    moved = jax.tree.map(jnp.subtract, after.server.params, state.server.params)
    upload_noise = float(metrics.clients.noise.noise_l2[0])
    assert float(l2_norm(moved)) > 0.9 * upload_noise
    jax.effects_barrier()
    ((present, absent),) = of_place
    assert present > 0 and absent == 0


@pytest.mark.hole
def test_who_sees_medians_faces_the_noise_of_one_upload(
    averaged_and_medians: dict[str, tuple[pathlib.Path, dict]],
) -> None:
    """A median between others that lie apart shows the last upload as it is.

    Of five uploads two are at C and two at -C, z = .5, and an observer's claim by the
    cohort's noise would be ε = 3.85: its true δ is 3e-4.
    """
    spent = {}
    for name, (_, summary) in averaged_and_medians.items():
        claims = [
            (claim["method"], claim["copies"], claim["epsilon"], claim["assumptions"])
            for claim in summary["guarantees"]
        ]
        rdp = [claim for claim in claims if claim[:2] == ("rdp", 1)]
        spent[name] = [epsilon for _, _, epsilon, _ in rdp]
        averages = any("sees the average" in text for *_, text in claims)
        assert averages == (name == "mean")
    server, *others = spent["mean"]
    assert len(others) == 3 and max(others) < server
    assert spent["median"] == 4 * [server]


def test_an_aggregator_is_not_told_what_no_noise_hides() -> None:
    """Nor whether an update was clipped, nor how long the noise was."""

    def spy(mechanism, total, uploads, infos, valid):
        hidden = jnp.isnan(infos.clipped).all() & jnp.isnan(infos.noise_l2).all()
        known = (infos.noise_std > 0).all()
        number = jnp.where(hidden & known, 7.0, 0.0)
        update = jax.tree.map(lambda leaf: jnp.full_like(leaf, number), total.update)
        return total._replace(update=update)

    config = small(mechanism="gaussian", epsilon=1.0, num_rounds=1)
    state, step = fedsvp_jax.make_round(
        config, digits(), aggregator=Aggregator(WEIGHTED_SUM.encode, spy)
    )
    after, metrics = step(state)
    moved = jax.tree.map(jnp.subtract, after.server.params, state.server.params)
    for leaf in jax.tree.leaves(moved):
        np.testing.assert_allclose(leaf, 7, rtol=1e-5)
    assert np.isfinite(metrics.clients.noise.noise_l2).all()


def test_a_claim_about_the_sum_takes_no_other_aggregator() -> None:
    config = small(mechanism="gaussian", epsilon=1.0, noise_trust="secure_aggregation")
    with pytest.raises(ValueError, match="whose claim is about the sum"):
        fedsvp_jax.make_round(config, digits(), aggregator=MEDIAN)
