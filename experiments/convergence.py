"""Theorem 2's bound beside a measured run, where every constant is known.

  python -m experiments.convergence --epsilons=0.2,0.5 --output_dir=runs/convergence

Ridge regression on digits (is it the private class?): client i holds
F_i(w) = ||X_i w - y_i||^2 / 2n_i + (rho/2) ||w||^2, so the smoothness L, the
convexity rho and the minimum w* of the average are known exactly. All K clients take
E full-batch steps a round and upload with FedSVA's noise at R = 1, whose C is the
longest gradient of the run without noise. G_c^2, the bound on squared gradients, is
measured over all runs. One run without noise, and --num_repeats runs an epsilon.

Written to --output_dir: config.json, results.json (constants, bound and measured gap
a round), convergence.png.

Exit status: 0 done; 2 bad input, told in one line.
"""

import math
import pathlib
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from experiments import flags as experiment_flags
from fedsvp_jax import aggregation, convergence, mechanisms, prng, run
from fedsvp_jax.data import partition, sources
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.run_folder import RunFolder, write_json
from fedsvp_jax.structs import Array

_PRIVATE_CLASS = 5

flags.DEFINE_string("output_dir", None, "Folder for everything that is written.")
flags.DEFINE_list("epsilons", ["0.2", "0.5"], "Budgets of one upload, each in (0, 1).")
flags.DEFINE_float("delta", 0.1, "Failure probability of one upload.")
flags.DEFINE_float("convexity", 0.1, "rho: weight of the ridge.")
flags.DEFINE_float("learning_rate", 0.05, "Step size, below 1/rho.")
flags.DEFINE_integer("local_epochs", 2, "E: full-batch steps a round.", lower_bound=1)
flags.DEFINE_integer("cohort_size", 10, "K: clients, all in every round.", lower_bound=1)
flags.DEFINE_integer("num_rounds", 100, "T: rounds.", lower_bound=1)
flags.DEFINE_integer("num_repeats", 20, "Runs that are averaged.", lower_bound=2)
flags.DEFINE_integer("seed", 0, "Seed of partition and noise.", lower_bound=0)
flags.mark_flag_as_required("output_dir")


class Problem(NamedTuple):
    """Quadratics F_i(w) = w'A_i w/2 - b_i'w + c_i, one a client."""

    curvature: Array  # (K, d, d): A_i = X_i'X_i/n_i + rho I
    slope: Array  # (K, d): b_i = X_i'y_i/n_i
    smoothness: float  # L: the largest eigenvalue of any A_i
    minimum: Array  # (d,): w* of the average
    num_examples: int  # |D|, the smallest client's


class Measured(NamedTuple):
    """Some runs side by side."""

    gaps: np.ndarray  # (runs, T + 1): F(w^t) - F*, from t = 0
    longest_gradient: float


def make_problem(num_clients: int, *, convexity: float, seed: int) -> Problem:
    """Digits, dealt IID; features in [-1, 1] and a constant 1, labels ±1."""
    data = sources.load("digits", None)
    pixels = np.asarray(sources.normalize(data.train_inputs), np.float64)
    features = pixels.reshape(len(pixels), -1)
    features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    labels = np.where(data.train_labels == _PRIVATE_CLASS, 1.0, -1.0)
    parts = partition.iid(len(labels), num_clients, seed=seed)
    ridge = convexity * np.eye(features.shape[1])
    curvature = np.stack(
        [features[p].T @ features[p] / len(p) + ridge for p in parts]
    )
    slope = np.stack([features[p].T @ labels[p] / len(p) for p in parts])
    return Problem(
        curvature=jnp.asarray(curvature, jnp.float32),
        slope=jnp.asarray(slope, jnp.float32),
        smoothness=float(np.linalg.eigvalsh(curvature).max()),
        minimum=jnp.asarray(
            np.linalg.solve(curvature.mean(0), slope.mean(0)), jnp.float32
        ),
        num_examples=min(len(p) for p in parts),
    )


def measure(
    problem: Problem,
    noise_std: float,
    *,
    learning_rate: float,
    local_epochs: int,
    num_rounds: int,
    num_repeats: int,
    seed: int,
) -> Measured:
    """Federated gradient descent from w = 0 with N(0, σ²I) on every upload."""
    num_clients, size = problem.slope.shape
    ids = jnp.arange(num_clients, dtype=jnp.int32)
    mean_curvature = jnp.mean(problem.curvature, axis=0)

    def gap(w: Array) -> Array:
        """F(w) − F* = (w − w*)'A(w − w*)/2, without a difference of large numbers."""
        away = w - problem.minimum
        return 0.5 * away @ mean_curvature @ away

    def local(w: Array, curvature: Array, slope: Array) -> tuple[Array, Array]:
        def step(local: Array, _: None) -> tuple[Array, Array]:
            gradient = curvature @ local - slope
            return local - learning_rate * gradient, noise.l2_norm(gradient)

        w, norms = jax.lax.scan(step, w, None, length=local_epochs)
        return w, jnp.max(norms)

    def one_run(root: Array) -> tuple[Array, Array]:
        def one_round(w: Array, round_num: Array) -> tuple[Array, tuple[Array, Array]]:
            key = prng.round_key(root, round_num)
            trained, norms = jax.vmap(local, (None, 0, 0))(
                w, problem.curvature, problem.slope
            )
            uploads = jax.vmap(
                lambda upload, client: noise.add_gaussian_noise(
                    upload,
                    noise_std,
                    key=prng.stream_key(key, prng.Stream.NOISE, client),
                )[0]
            )(trained, ids)
            w = aggregation.ordered_sum(uploads) / num_clients
            return w, (gap(w), jnp.max(norms))

        start = jnp.zeros((size,), jnp.float32)
        rounds = jnp.arange(num_rounds, dtype=jnp.int32)
        _, (gaps, norms) = jax.lax.scan(one_round, start, rounds)
        return jnp.concatenate([gap(start)[None], gaps]), jnp.max(norms)

    roots = jax.random.split(prng.root_key(seed), num_repeats)
    gaps, norms = jax.jit(jax.vmap(one_run))(roots)
    return Measured(np.asarray(gaps, np.float64), float(jnp.max(norms)))


def curves(values: flags.FlagValues, epsilons: list[float]) -> dict[str, Any]:
    """What results.json holds: constants, and by ε bound and measured gap."""
    problem = make_problem(
        values.cohort_size, convexity=values.convexity, seed=values.seed
    )
    if values.learning_rate * problem.smoothness >= 2:
        raise ValueError(
            f"learning_rate must be < 2/L = {2 / problem.smoothness:.4g}, where "
            f"gradient descent converges, got {values.learning_rate}"
        )

    def runs(std: float, count: int) -> Measured:
        return measure(
            problem,
            std,
            learning_rate=values.learning_rate,
            local_epochs=values.local_epochs,
            num_rounds=values.num_rounds,
            num_repeats=count,
            seed=values.seed,
        )

    measured = {math.inf: runs(0.0, 1)}
    clip = measured[math.inf].longest_gradient
    stds = {math.inf: 0.0}
    for epsilon in epsilons:
        stds[epsilon] = float(
            mechanisms.fedsva_noise_std(
                1.0,
                l2_norm_clip=clip,
                epsilon=epsilon,
                delta=values.delta,
                num_examples=problem.num_examples,
                floor=0.1,
            )
        )
        measured[epsilon] = runs(stds[epsilon], values.num_repeats)
    constants = {
        "smoothness": problem.smoothness,
        "convexity": values.convexity,
        "learning_rate": values.learning_rate,
        "local_epochs": values.local_epochs,
        "gradient_square": max(m.longest_gradient for m in measured.values()) ** 2,
        "cohort_size": values.cohort_size,
        "initial_distance_square": float(jnp.sum(jnp.square(problem.minimum))),
    }
    size = problem.slope.shape[1]
    rounds = np.arange(values.num_rounds + 1)
    return {
        "constants": constants | {"num_parameters": size, "l2_norm_clip": clip},
        "curves": [
            {
                "epsilon": epsilon,
                "noise_std": stds[epsilon],
                "bound": np.asarray(
                    convergence.convergence_bound(
                        rounds, **constants, noise_square=size * stds[epsilon] ** 2
                    )
                ),
                "measured_mean": found.gaps.mean(axis=0),
                "measured_most": found.gaps.max(axis=0),
            }
            for epsilon, found in measured.items()
        ],
    }


def draw(results: dict[str, Any], path: pathlib.Path) -> None:
    """Bound dashed, measured mean solid, a colour an ε."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots()
    for number, curve in enumerate(results["curves"]):
        noisy = math.isfinite(curve["epsilon"])
        name = f"ε = {curve['epsilon']:g}" if noisy else "no noise"
        color = f"C{number}"
        axes.plot(curve["bound"], "--", color=color, label=f"bound, {name}")
        axes.plot(curve["measured_mean"], color=color, label=f"measured, {name}")
    axes.set_yscale("log")
    axes.set_xlabel("round")
    axes.set_ylabel("F(w) − F*")
    axes.set_title("Theorem 2's bound and measured runs, ridge regression on digits")
    axes.grid(color="#e3e6ea")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)


def _epsilons(texts: list[str]) -> list[float]:
    try:
        found = [float(text) for text in texts]
    except ValueError:
        found = []
    if not found or not all(0 < epsilon < 1 for epsilon in found):
        raise ValueError(
            "epsilons must be numbers in (0, 1), where the noise formula holds, with "
            f"commas between them, got {','.join(texts)!r}"
        )
    return list(dict.fromkeys(found))


def main(_: list[str]) -> None:
    """Runs what the flags name."""
    values = flags.FLAGS
    epsilons = _epsilons(values.epsilons)
    for name in ("convexity", "learning_rate"):
        if not values[name].value > 0:
            raise ValueError(f"{name} must be > 0, got {values[name].value}")
    if not 0 < values.delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {values.delta}")
    results = curves(values, epsilons)
    chosen = {
        flag.name: flag.value
        for flag in values.get_key_flags_for_module("__main__")
        if flag.name != "output_dir"
    }
    folder = RunFolder(values.output_dir)
    folder.start(chosen | run.environment(), resume=False)
    write_json(folder.path / "results.json", results)
    draw(results, folder.path / "convergence.png")
    for curve in results["curves"]:
        print(
            f"epsilon {curve['epsilon']:g}: after round {values.num_rounds} measured "
            f"{curve['measured_mean'][-1]:.3g}, bound {curve['bound'][-1]:.3g}"
        )
    for name in ("config.json", "results.json", "convergence.png"):
        print(f"  {folder.path / name}")


if __name__ == "__main__":
    experiment_flags.run(main, __doc__)
