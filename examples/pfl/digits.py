"""Five rounds on digits in pfl-research, with our noise, ledger and promise.

    python examples/pfl/digits.py --new_state [--method=update_clip] [--state=FOLDER]

Three users train with this package's own local training; with a model of pfl's, keep
its algorithm and take `LocalPrivacy` alone. FOLDER holds what each user has spent. With
--new_state the users begin their logs, which they do once.
"""

import argparse
import pathlib

import numpy as np
from pfl.aggregate.simulate import SimulatedBackend
from pfl.aggregate.weighting import WeightByDatapoints
from pfl.algorithm.base import FederatedAlgorithm
from pfl.common_types import Population
from pfl.context import CentralContext
from pfl.data.dataset import Dataset
from pfl.data.federated_dataset import FederatedDataset
from pfl.data.sampling import get_user_sampler
from pfl.hyperparam.base import AlgorithmHyperParams, ModelHyperParams
from pfl.metrics import Metrics
from pfl.model.base import Model
from pfl.stats import MappedVectorStatistics

from fedsvp_jax.config import ExperimentConfig, ResolvedConfig, resolve
from fedsvp_jax.deploy import SECRET, Client, Seeded, data_of, make_policy
from fedsvp_jax.deploy.pfl import LocalPrivacy
from fedsvp_jax.federation.federated_data import FederatedData, federate, load_data

METHODS = {
    # As published: nominal, since the sensitivity is not proved.
    "fedsva": {"mechanism": "fedsva", "epsilon": 0.5},
    # Any one record is hidden, under a proved ε of the run. Three users are too few for
    # it: the model learns nothing.
    "update_clip": {
        "mechanism": "gaussian",
        "clipping": "update_clip",
        "l2_norm_clip": 1.0,
        "total_epsilon": 8.0,
        "solve": "noise",
    },
}
MIN_NUM_EXAMPLES = 90  # of any user
ROUNDS, USERS = 5, 3


def settings(method: str) -> ResolvedConfig:
    """The settings of a simulation of the same federation."""
    return resolve(
        ExperimentConfig(
            dataset="digits",
            model="mlp",
            num_clients=USERS,
            num_hbc_clients=1,
            cohort_size=USERS,
            num_rounds=ROUNDS,
            **METHODS[method],
        )
    )


class Weights(Model):
    """The arrays of the global model."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.arrays = arrays

    def apply_model_update(
        self, statistics: MappedVectorStatistics
    ) -> tuple["Weights", Metrics]:
        """Adds the average update."""
        moves = statistics.values()
        new = [old + move for old, move in zip(self.arrays, moves, strict=True)]
        return Weights(new), Metrics()


class Training(FederatedAlgorithm):
    """Federated averaging of what the users' clients train."""

    def __init__(self, clients: dict[str, Client]) -> None:
        super().__init__()
        self._clients = clients
        self.ratios: dict[str, float | None] = {}

    def get_next_central_contexts(
        self, model, iteration, algorithm_params, model_train_params, _=None
    ):
        """All users in every round."""
        if iteration == ROUNDS:
            return None, model, Metrics()
        context = CentralContext(
            current_central_iteration=iteration,
            do_evaluation=False,
            cohort_size=USERS,
            population=Population.TRAIN,
            algorithm_params=algorithm_params,
            model_train_params=model_train_params,
        )
        return (context,), model, Metrics()

    def simulate_one_user(self, model, user_dataset, central_context):
        """The update of one user, who trains with the client's own records."""
        round_num = central_context.current_central_iteration + 1
        client = self._clients[user_dataset.user_id]
        trained = client.train(model.arrays, round_num)
        self.ratios[user_dataset.user_id] = trained.contribution
        moves = zip(trained.arrays, model.arrays, strict=True)
        update = {f"{place:04d}": new - old for place, (new, old) in enumerate(moves)}
        return MappedVectorStatistics(update), Metrics()

    def process_aggregated_statistics(
        self, central_context, aggregate_metrics, model, statistics
    ):
        """Averages."""
        statistics.average()
        return model.apply_model_update(statistics)


def users(
    config: ResolvedConfig,
    dealt: FederatedData,
    folder: pathlib.Path,
    seed: int | None,
) -> dict[str, Client]:
    """The clients by their ids; a seed is for tests and hides nothing."""
    policy = make_policy(config, min_num_examples=MIN_NUM_EXAMPLES)
    return {
        str(number): Client(
            policy,
            data_of(dealt, number),
            folder / f"{number}.json",
            randomness=SECRET if seed is None else Seeded(seed, number),
        )
        for number in range(USERS)
    }


def run(
    method: str,
    folder: pathlib.Path,
    seed: int | None = None,
    *,
    new_state: bool = False,
) -> tuple[list[np.ndarray], dict[str, Client]]:
    """The final model's arrays, and the clients."""
    config = settings(method)
    dealt = federate([config], load_data(config))
    clients = users(config, dealt, folder, seed)
    if new_state:
        for client in clients.values():
            client.begin()
    algorithm = Training(clients)
    privacy = LocalPrivacy(
        lambda user_id: clients[user_id].site,
        contribution=lambda user: algorithm.ratios[user.user_id],
    )
    data = FederatedDataset(
        lambda user_id: Dataset(
            [np.zeros(clients[user_id].num_examples)], user_id=user_id
        ),
        get_user_sampler("minimize_reuse", list(clients)),
    )
    backend = SimulatedBackend(
        training_data=data,
        val_data=data,
        postprocessors=[WeightByDatapoints(), privacy],
    )
    start = Weights(clients["0"].initial_arrays)
    nothing = AlgorithmHyperParams(), backend, start, ModelHyperParams()
    model = algorithm.run(*nothing, send_metrics_to_platform=False)
    return model.arrays, clients


def main() -> None:
    """Trains, and says what was spent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--method", choices=METHODS, default="fedsva")
    parser.add_argument("--state", type=pathlib.Path, default=pathlib.Path("pfl-state"))
    parser.add_argument("--new_state", action="store_true")
    told = parser.parse_args()
    arrays, clients = run(told.method, told.state, new_state=told.new_state)
    model = clients["0"].trained_model(arrays, ROUNDS)
    model.save(told.state / "model.safetensors")
    data = load_data(settings(told.method))
    right = model.predict(data.test_inputs) == data.test_labels
    print(f"test accuracy: {right.mean():.1%}")
    for name, client in clients.items():
        state = client.site.read()
        uploads = state.sums["uploads"][0]
        spent = state.account(client.policy).epsilon_spent("rdp")
        print(f"user {name}: {uploads:.0f} uploads, epsilon {spent:.3f} by rdp")


if __name__ == "__main__":
    main()
