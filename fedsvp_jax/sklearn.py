"""A classifier for scikit-learn, trained by DP-SGD in memory: no file is written.

    model = DPClassifier(total_epsilon=3, bounds=(0, 100), classes=["no", "yes"])
    model.fit(X, y).predict_proba(X_new)
    print(model.epsilon_, model.status_, model.claim_)

It is the route of docs/own_data.md with one client that holds all rows. Needs
scikit-learn.
"""

import warnings
from typing import Any, Self

import jax
import numpy as np
from scipy import special
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from fedsvp_jax import federation
from fedsvp_jax.accounting.claims import Claim, table
from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve
from fedsvp_jax.core.tree import cell_of
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.federation import routes
from fedsvp_jax.mechanisms.subsampling import SampledSteps
from fedsvp_jax.run import noise_key, records
from fedsvp_jax.run.placement import Placement
from fedsvp_jax.run.trainer import Trainer

FROM_DATA = "from_data"  # in the place of bounds or classes: every claim is nominal
_ROUTE = routes.PROMISE | routes.ROWS | routes.IN_MEMORY
_LARGEST_BATCH = 4096  # rows in a step


class DPClassifier(ClassifierMixin, BaseEstimator):
    """Logistic regression with (ε, δ)-differential privacy for one row more or less.

    Features are clamped to their bounds and scaled to [-1, 1]. The number of
    rows is public. No ε covers what else looks at the rows: a scaler or an imputer
    before it, a choice among several fits. `status_` is about the rows as `fit` got
    them, so it says proved behind a StandardScaler too.

    Args:
      total_epsilon: ε that the fitted model may cost; its noise is solved for.
      target_delta: δ of this ε.
      bounds: (low, high), numbers or one for each feature, stated without a look at the
        rows; or "from_data".
      classes: all classes, stated likewise; or "from_data".
      num_rounds: steps of DP-SGD, each on a Poisson batch of all n rows but one, or of
        4,096: a row is in it with probability (n - 1)/n, or 4,096/n if that is less.
      l2_norm_clip: C, of the gradient of one row.
      learning_rate: of the first step; it falls to 0 by cosine.
      random_state: None draws the noise from the system's entropy. A number gives the
        same model again, and every claim is nominal.

    Attributes:
      classes_: (k,) sorted.
      coef_, intercept_: (k, f) and (k,), of the scaled features.
      claim_: ε with all that it means (`accounting.claims.Claim`), against who sees
        every step.
      epsilon_, adversary_, status_: of `claim_`: ε of all steps at `target_delta`, as
        spent, a little below `total_epsilon`; the status is proved or nominal.
      noise_multiplier_, sampling_rate_, num_steps_: what ε counts: z, the std of the
        noise on a step's sum over C; q, the probability of a row to be in a step; and
        the number of steps.
    """

    def __init__(
        self,
        total_epsilon: float = 1.0,
        *,
        target_delta: float = 1e-5,
        bounds: Any = None,
        classes: Any = None,
        num_rounds: int = 60,
        l2_norm_clip: float = 2.0,
        learning_rate: float = 0.2,
        random_state: Any = None,
    ) -> None:
        self.total_epsilon = total_epsilon
        self.target_delta = target_delta
        self.bounds = bounds
        self.classes = classes
        self.num_rounds = num_rounds
        self.l2_norm_clip = l2_norm_clip
        self.learning_rate = learning_rate
        self.random_state = random_state

    def fit(self, X: Any, y: Any, **others: Any) -> Self:
        """Trains on (n, f) numbers and (n,) classes.

        Raises:
          TypeError: anything else is given, such as `sample_weight`.
          ValueError: bounds or classes are not stated, a label is none of the classes,
            or settings and rows do not go together.
        """
        if others:
            raise TypeError(
                f"fit takes rows and classes alone, got {', '.join(others)}: a weight "
                "would multiply what one row may change, for which the noise is made; "
                "leave it out"
            )
        for name in [*vars(self)]:
            if name.endswith("_"):  # no earlier claim stays where this fit fails
                delattr(self, name)
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        from_records = self._state(X, y)
        if outside := np.count_nonzero(np.clip(X, self._low, self._high) != X):
            warnings.warn(
                f"{outside} of {X.size} values lie outside the bounds and are clamped "
                "(this count is of the rows: it stays with you)",
                stacklevel=2,
            )
        if self.target_delta * len(X) >= 1:
            warnings.warn(
                f"target_delta {self.target_delta:g} is too large for {len(X)} rows: "
                "who publishes one of them whole keeps such an epsilon",
                stacklevel=2,
            )
        codes = np.searchsorted(self.classes_, y).clip(max=len(self.classes_) - 1)
        if (undeclared := self.classes_[codes] != y).any():
            raise ValueError(
                f"classes must name every label, and y holds {y[undeclared][0]!r}; "
                "state it there"
            )
        data = Dataset(
            "rows in memory",
            train_inputs=self._scaled(X),
            train_labels=codes,
            test_inputs=np.zeros((1, X.shape[1]), np.float32),
            test_labels=np.zeros(1, np.int32),
            num_classes=len(self.classes_),
            from_records=from_records,
        )
        config = ExperimentConfig(
            **_ROUTE,
            total_epsilon=self.total_epsilon,
            # Of one upload: at a large δ no ε of it, however small, has much noise.
            delta=min(self.target_delta, 1e-5),
            target_delta=self.target_delta,
            num_rounds=self.num_rounds,
            eval_every=self.num_rounds,
            l2_norm_clip=self.l2_norm_clip,
            learning_rate=self.learning_rate,
            batch_size=min(len(y) - 1, _LARGEST_BATCH),
            seed=check_random_state(self.random_state).randint(2**31 - 1),
            secret_noise=self.random_state is None,
        )
        params, claim, steps = _trained(resolve(config, data), data)
        self.coef_, self.intercept_ = params
        self.noise_multiplier_, self.sampling_rate_, self.num_steps_ = steps
        self.claim_, self.epsilon_ = claim, claim.epsilon
        self.adversary_, self.status_ = claim.adversary, claim.status
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """(n, k) the probability of each class, in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        logits = self._scaled(X) @ self.coef_.T + self.intercept_
        return np.asarray(special.softmax(logits, axis=1))

    def predict(self, X: Any) -> np.ndarray:
        """(n,) the class of the largest probability."""
        codes = self.predict_proba(X).argmax(1)  # which asks first whether it is fitted
        return np.asarray(self.classes_[codes])

    def _state(self, rows: np.ndarray, labels: np.ndarray) -> tuple[str, ...]:
        """Sets classes and bounds, as stated; what the rows decided, in words."""
        from_records = []
        for name in ("bounds", "classes"):
            value = getattr(self, name)
            if value is None:
                raise ValueError(
                    f"{name} must be stated without a look at the rows, or be "
                    f'"{FROM_DATA}", which makes every claim nominal; got None'
                )
            if isinstance(value, str) and value == FROM_DATA:
                from_records.append(f"the {name}")
        self.classes_ = np.unique(
            labels if "the classes" in from_records else self.classes
        )
        if len(self.classes_) < 2:
            raise ValueError(
                f"classes must be at least 2 classes, got {len(self.classes_)} class"
            )
        ends = self.bounds
        if "the bounds" in from_records:
            ends = rows.min(0), rows.max(0)
        try:
            low, high = (
                np.broadcast_to(np.asarray(end, np.float64), rows.shape[1:])
                for end in ends
            )
            with np.errstate(over="ignore", invalid="ignore"):
                span = high - low
            is_valid = bool(np.isfinite(span).all() and (span >= 0).all())
        except (ValueError, TypeError):
            is_valid = False
        if not is_valid:
            raise ValueError(
                "bounds must be (low, high) of finite numbers, low <= high, one of "
                f"each or one for each of {rows.shape[1]} features; got {ends!r}"
            )
        self._low, self._high = low, high
        return tuple(from_records)

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        """(n, f) float32: clamped, 2 u - 1 with u = (x - low) / (high - low)."""
        span = self._high - self._low
        share = (np.clip(rows, self._low, self._high) - self._low) / (
            span + (span == 0)
        )
        return np.where(span > 0, 2 * share - 1, 0).astype(np.float32)


def _trained(
    config: ResolvedConfig, data: Dataset
) -> tuple[tuple[np.ndarray, np.ndarray], Claim, SampledSteps]:
    """(weights by class, biases), the claim on what was spent, and the steps."""
    secret = noise_key.fresh() if config.secret_noise else None
    program = federation.build([config], data, noise_key=secret)
    trainer = Trainer(program, placement=Placement(rounds_per_call=config.num_rounds))
    state, metrics = trainer.advance(trainer.initial_state(), 0, config.num_rounds)
    (account,) = program.accounts
    for index in range(config.num_rounds):
        of_round = cell_of(metrics, (index, 0))
        account = records.record_round(account, of_round)
        records.check_finite(of_round, round_num=index + 1, mechanism=config.mechanism)
    claim = next(claim for claim in table(account, ("pld",)) if claim.method == "pld")
    claim = claim._replace(proved=claim.proved and config.secret_noise)
    layer = cell_of(jax.device_get(state.params), 0)
    assert account.mechanism.subsampling is not None  # of Poisson batches
    (steps,) = account.mechanism.subsampling.steps(
        account.most_spent(claim.adversary).least_multiplier, config.num_rounds
    )
    return (layer["kernel"], layer["bias"]), claim, steps
