"""Values of the cohort's clients, measured after each round (`--client_values`)."""

import dataclasses

from fedsvp_jax.core import prng
from fedsvp_jax.core.structs import Array, Model, Weights
from fedsvp_jax.round.state import Uploads
from fedsvp_jax.shapley.client_values import client_values
from fedsvp_jax.shapley.coalitions import EstimationPlan


@dataclasses.dataclass(frozen=True)
class ClientValueHook:
    """`client_value` and, of an estimate, `client_value_margin`: half its interval.

    Attributes:
      plan: of `client_values.plan_of`.
    """

    plan: EstimationPlan

    def __call__(self, model: Model, uploads: Uploads) -> dict[str, Array]:
        """(K,) float32 each; 0 for an empty place."""
        state, validation = uploads.state, uploads.data.validation
        assert validation is not None
        values = client_values(
            model,
            self.plan,
            Weights(state.params, state.stats),
            uploads.stacked,
            uploads.sizes,
            uploads.step,
            validation,
            prng.stream_key(uploads.key, prng.Stream.CLIENT_VALUES),
        )
        measured = {"client_value": values.values}
        if values.margins is not None:
            measured["client_value_margin"] = values.margins
        return measured
