"""Rows of the files and events of the ledger, from made-up metrics."""

import dataclasses

import numpy as np
import pytest
from ledgers import Book

from fedsvp_jax.accounting.views import VIEWS
from fedsvp_jax.core.structs import NoiseInfo
from fedsvp_jax.round.state import ClientMetrics, Estimation, RoundMetrics
from fedsvp_jax.run import records


def metrics(*, model_finite: bool = True) -> RoundMetrics:
    """Three places, the second one empty; clients 4 and 6 took part."""

    def floats(*values: float) -> np.ndarray:
        return np.asarray(values, np.float32)

    estimation = Estimation(
        utilities=np.zeros((3, 4), np.float32),
        shapley_values=np.asarray([[0.5, 0.5], [9, 9], [0.0, 0.0]], np.float32),
        contribution_ratio=floats(0.5, 9, 1.0),
        clipped=np.asarray([True, True, False]),
        degenerate=np.asarray([False, True, True]),
    )
    clients = ClientMetrics(
        client_id=np.asarray([4, -1, 6], np.int32),
        num_examples=np.asarray([30, 99, 10], np.int32),
        update_l2=floats(1, 99, 3),
        weight=floats(0.75, 0, 0.25),
        finite=np.asarray([True, False, True]),
        estimation=estimation,
        released_ratio=floats(0.5, 9, 1.0),
        noise=NoiseInfo(
            noise_multiplier=floats(2, 1, 4),
            noise_std=floats(2, 99, 4),
            step_noise_std=floats(0, 0, 0),
            noise_l2=floats(20, 99, 40),
            sensitivity=floats(1, 99, 1),
            epsilon=floats(0.5, 99, 0.25),
            delta=floats(0.1, 99, 0.1),
            risk_tolerance=floats(4, 99, np.nan),
            clipped=floats(1, 1, 0),
        ),
    )
    return RoundMetrics(
        test_accuracy=np.float32(0.5),
        test_loss=np.float32(1.5),
        private_accuracy=np.float32(0.25),
        worst_tenth_accuracy=np.float32("nan"),
        aggregate_noise_l2=np.float32(7),
        clients=clients,
        model_finite=np.bool_(model_finite),
        validation_accuracy=None,
        validation_loss=None,
    )


def test_empty_places_of_the_cohort_count_nowhere() -> None:
    row = records.round_row(metrics(), round_num=3)
    assert row["round"] == 3 and row["num_clients"] == 2
    assert row["noise_std_mean"] == 3 and row["noise_l2"] == 30
    assert row["update_l2"] == 2
    assert row["num_clipped_updates"] == 1
    assert row["contribution_ratio_mean"] == 0.75
    assert (row["num_clipped_ratios"], row["num_degenerate_ratios"]) == (1, 1)
    clients = records.client_rows(Book(7).account, metrics(), round_num=3)
    assert [client["client"] for client in clients] == [4, 6]
    assert [client["weight"] for client in clients] == [0.75, 0.25]


def test_the_account_gets_what_was_applied_to_those_who_took_part() -> None:
    account = records.record_round(Book(7).account, metrics())
    np.testing.assert_array_equal(account.uploads, [0, 0, 0, 0, 1, 0, 1])
    np.testing.assert_array_equal(account.by_client()["epsilon"][[4, 6]], [0.5, 0.25])
    precision = dict(zip(VIEWS, account.precision, strict=True))
    np.testing.assert_allclose(precision["server"][[4, 6]], [1 / 4, 1 / 16])
    assert precision["observer"][4] < precision["server"][4]


@pytest.mark.hole
def test_an_upload_of_a_smaller_cohort_is_told_with_what_it_spends() -> None:
    """A page said 1.231, proved, of a round of two in which 1.759 was spent."""
    of_two = metrics()
    of_two.clients.noise.delta[:] = 1e-5
    before = Book(7, view="observer", proved=True).account
    after = records.record_round(before, of_two)
    rows = records.client_rows(before, of_two, round_num=1)
    told = [row["epsilon"] for row in rows]
    assert told == pytest.approx(
        after.by_client()["epsilon"][[4, 6]].tolist(), rel=1e-6
    )
    assert told != [0.5, 0.25]  # as the mechanism says of a whole cohort


def test_the_summary_takes_the_last_five_evaluated_rounds() -> None:
    def row(accuracy: float | None) -> dict[str, float | None]:
        half = None if accuracy is None else accuracy / 2
        return {"test_accuracy": accuracy, "private_accuracy": half}

    told = (0.9, 0.1, None, 0.2, 0.3, None, 0.4, 0.5)
    rows = [{"round": t} | row(value) for t, value in enumerate(told, start=1)]
    found = records.score_summary(rows)
    assert found["best_accuracy"] == 0.9 and found["final_accuracy"] == 0.5
    assert found["final5_accuracy"] == pytest.approx(0.3)
    assert found["final5_std"] == pytest.approx(np.std([0.1, 0.2, 0.3, 0.4, 0.5]))
    assert found["final5_private_accuracy"] == pytest.approx(0.15)
    assert found["final5_worst_tenth_accuracy"] is None
    assert (found["best_round"], found["best_by"]) == (1, "test_accuracy")
    unseen = records.score_summary([{"round": 1} | row(None)])
    assert set(unseen.values()) == {None}


def test_the_best_round_is_told_by_validation_where_rows_tell_it() -> None:
    scores = [(None, None), (0.5, 0.1), (0.4, 0.9), (0.6, 0.3), (0.6, 0.0)]
    rows = [
        {"round": k, "validation_accuracy": v, "test_accuracy": t, "test_loss": k}
        for k, (v, t) in enumerate(scores, start=1)
    ]
    best = records.score_summary(rows)
    assert (best["best_round"], best["best_by"]) == (4, "validation_accuracy")
    assert (best["best_accuracy"], best["best_loss"]) == (0.3, 4)
    losses = [{"round": k, "test_loss": 2.0 if k == 1 else 1.0} for k in (1, 2, 3)]
    assert records.score_summary(losses)["best_round"] == 2


def test_a_row_tells_validation_scores_only_where_there_are_some() -> None:
    assert "validation_accuracy" not in records.round_row(metrics(), round_num=3)
    half = np.float32(0.5)
    scored = dataclasses.replace(
        metrics(), validation_accuracy=half, validation_loss=2 * half
    )
    row = records.round_row(scored, round_num=3)
    assert (row["validation_accuracy"], row["validation_loss"]) == (0.5, 1)


def test_a_model_that_is_not_finite_is_found_though_every_upload_is() -> None:
    found = metrics(model_finite=False)
    with pytest.raises(FloatingPointError, match=r"the server's model in round 2"):
        records.check_finite(found, round_num=2, mechanism="dp_fedavg")
    row = records.round_row(found, round_num=2)
    assert records.diverged(row) and len(row["diverged_clients"]) == 0
    assert not records.diverged(records.round_row(metrics(), round_num=2))
