"""Ten clients with bad data: a small federation, and every score of its clients.

Clients hold features of images: scattering coefficients on 256 fixed random
directions. A client's degree is the share of its examples, training and voting alike,
that are bad. The federation runs FedAvg, and the uploads of every round are valued by
the functions that `--client_values` runs; those of others read the same tables of
utilities.
"""

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from fedsvp_jax import influence, models, prng
from fedsvp_jax.algorithm.client_values import client_values, plan_of
from fedsvp_jax.algorithm.local_training import (
    Draws,
    TrainingRates,
    TrainingRecipe,
    local_update,
)
from fedsvp_jax.attacks.corruption import CORRUPTIONS
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.filter_settings import FilterSettings
from fedsvp_jax.influence import Batches, last_layer, pipeline
from fedsvp_jax.pretrained import features
from fedsvp_jax.shapley import ClientValueSettings
from fedsvp_jax.structs import Array, Examples, Rows, Weights

from ..influence.baselines import centre_validation
from . import rivals

CLIENTS, TRAINED, VOTING, SERVER = 10, 100, 50, 200  # clients; examples of each
ROUNDS, DIRECTIONS, SKEW = 3, 256, 0.5
RECIPE = TrainingRecipe(batch_size=20, local_epochs=2, gradient="mean")
RATES = {"logistic": 10.0, "mlp": 1.0}  # by the accuracy of clean clients, seed 1000
UTILITIES = ("accuracy", "loss")
OURS = {"exact": 0, "additive": 0, "gp": CLIENTS}  # and models that are tested too


class Images(NamedTuple):
    """What the clients of one seed hold, good and bad, and what the server holds.

    Features have mean 0 and mean squared norm 1 on the server's examples.
    """

    clean: Array  # (K, n, DIRECTIONS), n = TRAINED + VOTING
    bad: dict[str, tuple[Array, Array]]  # by kind: features and labels of bad copies
    labels: Array  # (K, n)
    server: Examples  # SERVER of the test set


def draw(data: Dataset, partition: str, kinds: tuple[str, ...], seed: int) -> Images:
    """Images of one seed, dealt to clients, and their bad copies.

    Args:
      partition: `iid`, or `skewed`: each client's classes follow Dirichlet(SKEW).
      kinds: of `CORRUPTIONS`.
    """
    rng = np.random.default_rng((seed, partition == "skewed"))
    each, classes = TRAINED + VOTING, data.num_classes
    by_class = [
        rng.permutation(np.flatnonzero(data.train_labels == c)).tolist()
        for c in range(classes)
    ]
    rows = []
    for _ in range(CLIENTS):
        chances = np.full(classes, 1 / classes)
        if partition == "skewed":
            chances = rng.dirichlet(np.full(classes, SKEW))
        rows += [by_class[c].pop() for c in rng.choice(classes, each, p=chances)]
    tested = rng.permutation(len(data.test_labels))[:SERVER]
    raw = _projected(data.test_inputs[tested])
    scaling = last_layer.fit_scaling(raw)

    def scaled(images: np.ndarray) -> Array:
        found = last_layer.scaled(scaling, _projected(images))
        return found.reshape(CLIENTS, each, DIRECTIONS)

    images, labels = data.train_inputs[np.asarray(rows)], data.train_labels[rows]
    clean, bad = scaled(images), {}
    for index, kind in enumerate(kinds):
        key = jax.random.key(seed * len(kinds) + index)
        x, y = CORRUPTIONS[kind](
            jnp.asarray(images), jnp.asarray(labels, jnp.int32), classes, key
        )
        changed = np.asarray(x)
        same = np.array_equal(changed, images)
        moved = clean if same else scaled(changed)
        bad[kind] = (moved, y.reshape(CLIENTS, each))
    return Images(
        clean,
        bad,
        jnp.asarray(labels.reshape(CLIENTS, each), jnp.int32),
        Examples(
            last_layer.scaled(scaling, raw),
            jnp.asarray(data.test_labels[tested], jnp.int32),
            jnp.zeros(SERVER, jnp.int32),
        ),
    )


def _projected(images: np.ndarray) -> Array:
    """(n, DIRECTIONS) float32; no image decides the directions."""
    found = features.computed("scatter_linear", images)
    rng = np.random.default_rng(0)
    turn = rng.normal(size=(found.shape[1], DIRECTIONS)) / np.sqrt(DIRECTIONS)
    return jnp.asarray(found @ turn.astype(np.float32))


def corrupted(images: Images, kind: str, degrees: np.ndarray) -> tuple[Array, Array]:
    """(K, n, DIRECTIONS) and (K, n): the first share of both parts of each is bad."""
    place = np.append(np.arange(TRAINED) / TRAINED, np.arange(VOTING) / VOTING)
    changed = jnp.asarray(place[None] < degrees[:, None] - 1e-9)
    x, y = images.bad[kind]
    return (
        jnp.where(changed[..., None], x, images.clean),
        jnp.where(changed, y, images.labels),
    )


class Told(NamedTuple):
    """What the rounds of a federation tell."""

    values: dict[str, Array]  # "exact loss" and so on: (T, K)
    utilities: dict[str, Array]  # by utility: (T, 2^K)
    accuracy: Array  # (): of the last model, on the server's examples


@functools.partial(jax.jit, static_argnames=("name",))
def federate(name: str, x: Array, y: Array, server: Examples, key: Array) -> Told:
    """FedAvg of ROUNDS rounds on the clients' first TRAINED examples."""
    model = models.make_model(name, num_classes=10)
    start = Weights(*model.init(jax.random.fold_in(key, 0), server.inputs[:1]))
    rates = TrainingRates(
        learning_rate=RATES[name],
        l2_norm_clip=1.0,
        step_noise_std=0.0,
        proximal_mu=0.0,
    )
    plans = {}
    for utility in UTILITIES:
        for kind, tested in OURS.items():
            told = ClientValueSettings(
                client_values=kind,
                client_value_models=tested,
                client_value_utility=utility,
            )
            plans[f"{kind} {utility}"] = plan_of(
                told, CLIENTS, batch_size=SERVER, together=16
            )
    indices = jnp.arange(TRAINED, dtype=jnp.int32)

    def one_round(weights: Weights, number: Array) -> tuple[Weights, Any]:
        turn = jax.random.fold_in(key, number)

        def train(x: Array, y: Array, client: Array) -> Weights:
            rows = Rows(Examples(x, y, y), indices, jnp.ones((TRAINED,), bool))
            draws = Draws(jax.random.fold_in(turn, client))
            return local_update(model, RECIPE, rates, weights, rows, draws)

        trained = jax.vmap(train)(x, y, jnp.arange(CLIENTS, dtype=jnp.int32))
        updates = jax.tree.map(
            lambda new, old: new - old[None], trained.params, weights.params
        )
        found = {
            which: client_values(
                model,
                plan,
                weights,
                Weights(updates, trained.stats),
                jnp.full((CLIENTS,), TRAINED, jnp.int32),
                lambda update: update,
                server,
                turn,
            )
            for which, plan in plans.items()
            if plan is not None
        }
        after = jax.tree.map(lambda leaf: jnp.mean(leaf, axis=0), trained)
        values = {which: one.values for which, one in found.items()}
        tables = {one: found[f"exact {one}"].utilities for one in UTILITIES}
        return after, (values, tables)

    _, (values, tables) = jax.lax.scan(
        one_round, start, jnp.arange(1, ROUNDS + 1, dtype=jnp.int32)
    )
    return Told(values, tables, tables["accuracy"][-1, -1])


def filter_scores(x: Array, y: Array, server: Examples, seed: int) -> dict[str, Any]:
    """Lazy influence and `centre`, once, before the first round.

    The server's examples are the centre's; the network is the features themselves.
    """
    found: dict[str, Any] = {}
    settings = {
        "lazy influence": FilterSettings(
            warmup_examples=SERVER,
            contributor_examples=TRAINED,
            tester_examples=VOTING,
            vote_epsilon=1.0,
        )
    }
    settings["lazy influence, no noise"] = FilterSettings(
        **{
            **vars(settings["lazy influence"]),
            "contribution_noise": 0.0,
            "vote_epsilon": float("inf"),
        }
    )
    plain = settings["lazy influence, no noise"]
    _, kernel = pipeline.fit_last_layer(
        server.inputs,
        server.labels,
        num_classes=10,
        num_epochs=plain.warmup_epochs,
        learning_rate=plain.influence_learning_rate,
    )
    parts = [
        Batches(x[:, part], y[:, part], jnp.ones(y[:, part].shape))
        for part in (slice(TRAINED), slice(TRAINED, None))
    ]
    root = prng.root_key(seed)
    for name, told in settings.items():
        rates = pipeline.filter_rates(told)
        verdict = influence.lazy_influence(
            kernel, *parts, rates, contribution_key=root, vote_key=root
        )
        found[name] = verdict.scores
    centre = Batches(server.inputs[None], server.labels[None], jnp.ones((1, SERVER)))
    found["centre"] = centre_validation(kernel, parts[0], centre, rates, key=root)
    return found


def scores(
    name: str, x: Array, y: Array, server: Examples, seed: int
) -> tuple[dict[str, np.ndarray], dict[str, float]]:
    """Every method's score of the clients, (K,), and what else is kept."""
    told = jax.device_get(federate(name, x, y, server, jax.random.key(seed)))
    found = {which: one.sum(0) for which, one in told.values.items()}
    tested = []
    for utility, tables in told.utilities.items():
        draws = [
            rivals.gtg(table, np.random.default_rng((seed, turn)))
            for turn, table in enumerate(tables)
        ]
        found[f"GTG-Shapley (our code) {utility}"] = np.sum([d[0] for d in draws], 0)
        tested.append(np.mean([d[1] for d in draws]))
        found[f"leave-one-out {utility}"] = np.sum(
            [rivals.left_out(table) for table in tables], 0
        )
    found |= jax.device_get(filter_scores(x, y, server, seed))
    kept = {f"gtg_models_{u}": float(t) for u, t in zip(UTILITIES, tested, strict=True)}
    return found, kept | {"accuracy": float(told.accuracy)}
