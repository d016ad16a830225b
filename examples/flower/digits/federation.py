"""What server and clients agree on before the first round."""

from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve

_METHODS = {
    # As published: nominal, since the sensitivity is not proved.
    "fedsva": {"mechanism": "fedsva", "epsilon": 0.5},
    # The records of the private attribute are hidden, under a proved ε of the run.
    "attribute": {
        "mechanism": "gaussian",
        "clipping": "attribute_records",
        "total_epsilon": 4.0,
        "solve": "noise",
    },
}
MIN_NUM_EXAMPLES = {"fedsva": 90, "attribute": 5}  # of any client; of its private ones


def settings(method: str, num_clients: int = 3) -> ResolvedConfig:
    """The settings of a simulation of the same federation."""
    return resolve(
        ExperimentConfig(
            dataset="digits",
            model="mlp",
            num_clients=num_clients,
            num_hbc_clients=1,
            cohort_size=num_clients,
            num_rounds=5,
            **_METHODS[method],
        )
    )
