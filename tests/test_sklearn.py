"""`DPClassifier`: scikit-learn's own checks, its claim, and what it refuses."""

import pathlib
import pickle
from typing import Any

import dp_accounting
import numpy as np
import pytest
from dp_accounting import pld
from sklearn.datasets import load_breast_cancer
from sklearn.utils.estimator_checks import check_estimator
from sklearn.utils.validation import has_fit_parameter

from fedsvp_jax import sklearn
from fedsvp_jax.accounting.claims import Claim
from fedsvp_jax.accounting.participation import SEED
from fedsvp_jax.mechanisms.subsampling import SampledSteps
from fedsvp_jax.sklearn import FROM_DATA, DPClassifier

X, Y = load_breast_cancer(return_X_y=True)
ENDS = (0.0, 2 * X.max(0))  # no row's own extremes
OF_ROWS = DPClassifier(bounds=FROM_DATA, classes=FROM_DATA)
# What no private fit may do: take its classes from the rows that it hides.
STATED = {
    name: f"the classes are the stated ones, and {why}"
    for name, why in {
        "check_dtype_object": "its fourth class is none of them",
        "check_classifiers_classes": "its texts are none of them",
        "check_classifiers_train": "classes_ has one that does not occur in its rows",
    }.items()
}


def by_centres(_: Any, data: Any) -> Any:
    """In the place of training: the nearest mean of a class, as a linear model."""
    rows, codes = data.train_inputs, data.train_labels
    means = np.stack([rows[codes == c].sum(0) for c in range(data.num_classes)])
    means /= np.maximum(np.bincount(codes, minlength=len(means)), 1)[:, None]
    claim = Claim("server", "", "pld", 1.0, 1e-5, False, "")
    weights = 8 * means, -4 * np.square(means).sum(1)
    return weights, claim, SampledSteps(1.0, 1.0, 1)


@pytest.mark.filterwarnings("ignore:.*values lie outside the bounds")
@pytest.mark.parametrize(
    ("model", "expected"),
    [(OF_ROWS, {}), (DPClassifier(bounds=(-100, 100), classes=[0, 1, 2]), STATED)],
    ids=["read off the rows", "stated"],
)
def test_scikit_learns_checks_pass_but_for_what_no_private_fit_may_do(
    model: DPClassifier, expected: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sklearn, "_trained", by_centres)
    results = check_estimator(model, expected_failed_checks=expected, on_skip=None)
    failed = {one["check_name"] for one in results if one["status"] == "xfail"}
    assert failed == set(expected) and len(results) > 50


@pytest.mark.slow
def test_scikit_learns_checks_pass_with_the_training_itself() -> None:
    """At ε = 20: the few rows of a check drown in the noise of ε = 1."""
    model = DPClassifier(20, bounds=FROM_DATA, classes=FROM_DATA, num_rounds=30)
    check_estimator(model, on_skip=None)


def test_a_fit_is_proved_useful_and_leaves_no_file(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its ε is at least that of dp-accounting for the noise that was added."""
    accounts: list[Any] = []

    def table(account: Any, methods: Any) -> list[Claim]:
        accounts.append(account)
        return claims_table(account, methods)

    claims_table = sklearn.table
    monkeypatch.setattr(sklearn, "table", table)
    monkeypatch.setattr(sklearn, "_LARGEST_BATCH", 100)
    monkeypatch.chdir(tmp_path)
    model = DPClassifier(3, bounds=ENDS, classes=[0, 1]).fit(X, Y)
    assert not any(tmp_path.iterdir())
    assert model.score(X, Y) > 0.85
    assert (model.status_, model.adversary_) == ("proved", "server")
    assert model.claim_.delta == 1e-5 and 2.9 < model.epsilon_ <= 3
    (account,) = accounts
    rate = 100 / (len(Y) - 1)  # one row is left out
    noise = dp_accounting.GaussianDpEvent(float(account.least[0]))
    step = dp_accounting.PoissonSampledDpEvent(rate, noise)
    shown = (model.noise_multiplier_, model.sampling_rate_, model.num_steps_)
    assert shown == pytest.approx((float(account.least[0]), 100 / len(Y), 60))
    relation = dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE
    exact = pld.PLDAccountant(relation).compose(step, 60).get_epsilon(1e-5)
    assert exact == pytest.approx(model.epsilon_, rel=5e-3)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    # Rows beyond the bounds are those at the bounds.
    np.testing.assert_array_equal(
        model.predict_proba(np.full((1, 30), 1e9)),
        model.predict_proba(ENDS[1][None]),
    )


def test_a_known_seed_gives_the_same_model_and_no_proof() -> None:
    few = {"num_rounds": 5, "bounds": ENDS, "classes": [0, 1]}
    rows = X[:60], Y[:60]
    first, second = (DPClassifier(random_state=7, **few).fit(*rows) for _ in "ab")
    np.testing.assert_array_equal(first.coef_, second.coef_)
    assert first.status_ == "nominal" and SEED in first.claim_.assumptions
    drawn, again = (DPClassifier(**few).fit(*rows) for _ in "ab")
    assert np.all(drawn.coef_ != again.coef_)
    read = DPClassifier(num_rounds=5, bounds=FROM_DATA, classes=[0, 1]).fit(*rows)
    assert read.status_ == "nominal" and "the bounds" in read.claim_.assumptions


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"bounds": None}, "bounds must be stated without a look at the rows"),
        ({"classes": None}, "classes must be stated without a look at the rows"),
        ({"classes": [0]}, "at least 2 classes, got 1 class"),
        ({"classes": [0, 2]}, "classes must name every label, and y holds"),
        ({"bounds": (1, 0)}, "low <= high"),
        ({"bounds": (0, np.inf)}, "of finite numbers"),
        ({"bounds": (-1e308, 1e308)}, "of finite numbers"),
        ({"bounds": (np.zeros(3), np.ones(3))}, "one for each of 30 features"),
        ({"bounds": 5}, "bounds must be .low, high."),
        ({"total_epsilon": 0}, "total_epsilon must be greater than 0"),
    ],
)
def test_what_is_not_stated_or_wrong_is_refused_in_a_sentence(
    changes: dict[str, Any], message: str
) -> None:
    stated = {"bounds": ENDS, "classes": [0, 1]} | changes
    with pytest.raises(ValueError, match=message):
        DPClassifier(**stated).fit(X, Y)


@pytest.mark.hole
@pytest.mark.filterwarnings("ignore:target_delta 0.1 is too large")
def test_a_large_delta_is_kept_and_takes_less_noise() -> None:
    """δ was each upload's too, at which no ε has enough noise: an error."""
    rows, labels = X[:60], Y[:60]
    model = DPClassifier(
        0.5, target_delta=0.1, bounds=ENDS, classes=[0, 1], num_rounds=30
    )
    model.fit(rows, labels)
    assert model.status_ == "proved" and model.claim_.delta == 0.1
    assert model.epsilon_ == pytest.approx(0.5, rel=1e-3)


@pytest.mark.hole
def test_sample_weights_are_refused_with_the_reason() -> None:
    """Python's own words named no reason and no way."""
    model = DPClassifier(bounds=ENDS, classes=[0, 1])
    with pytest.raises(TypeError, match=r"got sample_weight: a weight would multiply"):
        model.fit(X, Y, sample_weight=np.ones(len(Y)))
    assert not has_fit_parameter(model, "sample_weight")


@pytest.mark.hole
def test_a_fit_that_fails_leaves_no_claim_of_the_one_before() -> None:
    """`status_` stayed proved beside bounds that the second fit took from its rows."""
    few = {"num_rounds": 2, "classes": [0, 1]}
    model = DPClassifier(**few, bounds=(0, 1)).fit(np.eye(4), [0, 1, 0, 1])
    assert model.status_ == "proved"
    with pytest.raises(ValueError, match="classes must name every label"):
        model.set_params(bounds="from_data").fit(5 * np.eye(4), [0, 1, 0, 2])
    assert not {"status_", "epsilon_", "claim_", "coef_"} & vars(model).keys()


def test_values_outside_the_bounds_are_counted_in_a_warning() -> None:
    """Digits of 0 to 16 with bounds (0, 1) were clamped without a word."""
    rows = np.array([[0.0, 0.5], [2.0, 0.5], [0.2, -3.0], [1.0, 9.0]])
    model = DPClassifier(bounds=(0, 1), classes=[0, 1], num_rounds=2, random_state=0)
    with pytest.warns(UserWarning, match="3 of 8 values lie outside the bounds"):
        model.fit(rows, [0, 1, 0, 1])
    model.fit(rows.clip(0, 1), [0, 1, 0, 1])


def test_a_delta_of_one_row_or_more_is_warned_of() -> None:
    """δ = .1 of 1,797 rows was called proved without a word."""
    few = {"num_rounds": 2, "bounds": (0, 1), "classes": [0, 1], "random_state": 0}
    with pytest.warns(UserWarning, match=r"0\.25 is too large for 4 rows"):
        DPClassifier(**few, target_delta=0.25).fit(np.eye(4), [0, 1, 0, 1])


def test_rows_that_are_not_finite_are_refused_where_they_are_predicted() -> None:
    few = {"num_rounds": 2, "bounds": (0, 1), "classes": [0, 1]}
    model = DPClassifier(**few, random_state=0).fit(np.eye(4), [0, 1, 0, 1])
    for bad in (np.nan, np.inf):
        with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
            model.predict(np.full((1, 4), bad))
