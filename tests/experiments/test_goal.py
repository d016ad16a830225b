"""--goal: which route a kind of data takes."""

from small_runs import digits

from experiments import goal
from fedsvp_jax.config import ExperimentConfig


def test_images_take_a_linear_layer_on_features_that_no_client_decided() -> None:
    told = goal.route_settings(ExperimentConfig(dataset="digits"), digits())
    assert told["model"] == "scatter_linear" and told["num_clients"] == 1
    assert told["sensitivity"] == "per_example" and told["batches"] == "poisson"
    assert told["l2_norm_clip"] == 0.1 and told["partition"] == "iid"
    named = ExperimentConfig(dataset="digits", num_clients=3, cohort_size=2)
    assert goal.route_settings(named, digits())["cohort_size"] == 3
