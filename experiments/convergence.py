"""Theorem 2's bound beside a measured run, where every constant is known.

  python -m experiments.convergence --epsilons=0.2,0.5 --output_dir=runs/convergence

Ridge regression on digits (is it a five?): client i holds
F_i(w) = ||X_i w - y_i||^2 / 2n_i + (rho/2) ||w||^2, so the smoothness L, the
convexity rho and the minimum w* of the average are known exactly. All K clients take
E full-batch steps a round and upload with FedSVA's noise at R = 1, whose C is the
longest gradient of the run without noise. G_c^2, the bound on squared gradients, is
measured over all runs.

A panel is one E of --local_epochs. At E = 1 the bound is contraction and noise; from
E = 2 on the term for the clients' drift outweighs both.

Written to --output_dir: config.json, results.json (constants, bound and measured gap
a round), convergence.png.

Exit status: 0 done; 2 bad input, told in one line.
"""

import math
import pathlib
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax import convergence, mechanisms, prng, tree
from fedsvp_jax.data import partition, preprocessing, sources
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import RunFolder, write_json
from fedsvp_jax.structs import Array

from . import command

_PRIVATE_CLASS = 5

flags.DEFINE_string("output_dir", None, "Folder for everything that is written.")
flags.DEFINE_list("epsilons", ["0.2", "0.5"], "Budgets of one upload, each in (0, 1).")
flags.DEFINE_float("delta", 0.1, "Failure probability of one upload.")
flags.DEFINE_float("convexity", 0.1, "rho: weight of the ridge.")
flags.DEFINE_float("learning_rate", 0.5, "Step size, below 1/rho and 2/L.")
flags.DEFINE_list("local_epochs", ["1", "2"], "E: full-batch steps a round.")
flags.DEFINE_integer(
    "cohort_size", 10, "K: clients, all in every round.", lower_bound=1
)
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
    """The runs at one noise."""

    noise_std: float
    gaps: np.ndarray  # (runs, T + 1): F(w^t) − F*, from t = 0
    longest_gradient: float


def make_problem(num_clients: int, *, convexity: float, seed: int) -> Problem:
    """Digits, dealt IID; pixels and labels (±1) centred, the longest image 1 long."""
    data = sources.load("digits", None)
    pixels = np.asarray(
        preprocessing.normalize(jnp.asarray(data.train_inputs)), np.float64
    )
    features = pixels.reshape(len(pixels), -1)
    features -= features.mean(axis=0)
    features /= np.linalg.norm(features, axis=1).max()
    labels = np.where(data.train_labels == _PRIVATE_CLASS, 1.0, -1.0)
    labels -= labels.mean()
    parts = partition.iid(len(labels), num_clients, seed=seed)
    ridge = convexity * np.eye(features.shape[1])
    curvature = np.stack([features[p].T @ features[p] / len(p) + ridge for p in parts])
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


@partial(jax.jit, static_argnames=("local_epochs", "num_rounds"))
def simulate(
    roots: Array,
    problem: Problem,
    noise_std: Array,
    learning_rate: Array,
    *,
    local_epochs: int,
    num_rounds: int,
) -> tuple[Array, Array]:
    """Federated gradient descent from w = 0 with N(0, σ²I) on every upload.

    Returns:
      `(gaps, norms)`: (runs, T + 1) F(w^t) − F* from t = 0, and (runs,) the longest
      gradient of each run.
    """
    num_clients, size = problem.slope.shape
    ids = jnp.arange(num_clients, dtype=jnp.int32)
    mean_curvature = jnp.mean(problem.curvature, axis=0)

    def gap(w: Array) -> Array:
        # (w − w*)ᵀA(w − w*)/2: F(w) − F* itself would be a difference of near equals.
        away = w - problem.minimum
        return 0.5 * away @ mean_curvature @ away

    def local(w: Array, curvature: Array, slope: Array) -> tuple[Array, Array]:
        def step(w: Array, _: None) -> tuple[Array, Array]:
            gradient = curvature @ w - slope
            return w - learning_rate * gradient, tree.l2_norm(gradient)

        w, norms = jax.lax.scan(step, w, None, length=local_epochs)
        return w, jnp.max(norms)

    def one_round(
        carry: tuple[Array, Array], round_num: Array
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        w, root = carry
        key = prng.round_key(root, round_num)
        trained, norms = jax.vmap(local, (None, 0, 0))(
            w, problem.curvature, problem.slope
        )

        def noised(model: Array, client: Array) -> Array:
            own = prng.stream_key(key, prng.Stream.NOISE, client)
            return noise.add_gaussian_noise(model, noise_std, key=own)[0]

        uploads = jax.vmap(noised)(trained, ids)
        w = jnp.mean(uploads, axis=0)
        return (w, root), (gap(w), jnp.max(norms))

    def one_run(root: Array) -> tuple[Array, Array]:
        start = jnp.zeros((size,), jnp.float32)
        rounds = jnp.arange(num_rounds, dtype=jnp.int32)
        _, (gaps, norms) = jax.lax.scan(one_round, (start, root), rounds)
        return jnp.concatenate([gap(start)[None], gaps]), jnp.max(norms)

    return jax.vmap(one_run)(roots)


def panel(
    values: flags.FlagValues, epsilons: list[float], local_epochs: int
) -> dict[str, Any]:
    """One E: the constants, and by ε the bound and the measured gap."""
    problem = make_problem(
        values.cohort_size, convexity=values.convexity, seed=values.seed
    )
    if values.learning_rate * problem.smoothness >= 2:
        raise ValueError(
            f"learning_rate must be < 2/L = {2 / problem.smoothness:.4g}, where "
            f"gradient descent converges, got {values.learning_rate}"
        )

    roots = jax.random.split(prng.root_key(values.seed), values.num_repeats)

    def measure(noise_std: float) -> Measured:
        gaps, norms = simulate(
            roots,
            problem,
            jnp.float32(noise_std),
            jnp.float32(values.learning_rate),
            local_epochs=local_epochs,
            num_rounds=values.num_rounds,
        )
        return Measured(noise_std, np.asarray(gaps), float(jnp.max(norms)))

    measured = {math.inf: measure(0.0)}
    clip = measured[math.inf].longest_gradient
    for epsilon in epsilons:
        noise_std = mechanisms.fedsva_noise_std(
            1.0,
            l2_norm_clip=clip,
            epsilon=epsilon,
            delta=values.delta,
            num_examples=problem.num_examples,
            floor=0.1,
        )
        measured[epsilon] = measure(float(noise_std))
    constants = {
        "smoothness": problem.smoothness,
        "convexity": values.convexity,
        "learning_rate": values.learning_rate,
        "local_epochs": local_epochs,
        "gradient_square": max(m.longest_gradient for m in measured.values()) ** 2,
        "cohort_size": values.cohort_size,
        "initial_distance_square": float(jnp.sum(jnp.square(problem.minimum))),
    }
    size = problem.slope.shape[1]
    rounds = jnp.arange(values.num_rounds + 1)
    return {
        "constants": constants | {"num_parameters": size, "l2_norm_clip": clip},
        "curves": [
            {
                "epsilon": epsilon,
                "noise_std": found.noise_std,
                "bound": np.asarray(
                    convergence.convergence_bound(
                        rounds, **constants, noise_square=size * found.noise_std**2
                    )
                ),
                "measured_mean": found.gaps.mean(axis=0),
                "measured_most": found.gaps.max(axis=0),
            }
            for epsilon, found in measured.items()
        ],
    }


def draw(panels: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Bound dashed, measured mean solid, a colour an ε."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(1 + 4 * len(panels), 4.2), layout="constrained")
    FigureCanvasAgg(figure)
    every = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for axes, shown in zip(every, panels, strict=True):
        for number, curve in enumerate(shown["curves"]):
            noisy = math.isfinite(curve["epsilon"])
            name = f"ε = {curve['epsilon']:g}" if noisy else "no noise"
            color = f"C{number}"
            axes.plot(curve["bound"], "--", color=color, label=f"bound, {name}")
            axes.plot(curve["measured_mean"], color=color, label=f"measured, {name}")
        axes.set_yscale("log")
        axes.set_title(f"E = {shown['constants']['local_epochs']}")
        axes.set_xlabel("round")
        axes.grid(color="#e3e6ea")
        axes.spines[["top", "right"]].set_visible(False)
    every[0].set_ylabel("F(w) − F*")
    handles, names = every[0].get_legend_handles_labels()
    columns = len(panels[0]["curves"])
    figure.legend(
        handles, names, loc="outside lower center", ncols=columns, frameon=False
    )
    figure.suptitle("Theorem 2: bound and measured runs, ridge regression on digits")
    figure.savefig(path, dpi=150)


def _numbers(name: str, texts: list[str], kind: type, allowed: str) -> list[Any]:
    try:
        found = [kind(text) for text in texts]
    except ValueError:
        found = []
    inside = all(0 < x < 1 if kind is float else x >= 1 for x in found)
    if not found or not inside:
        raise ValueError(
            f"{name} must be {allowed} with commas between them, got "
            f"{','.join(texts)!r}"
        )
    return list(dict.fromkeys(found))


def main(_: list[str]) -> None:
    """Runs what the flags name."""
    values = flags.FLAGS
    epsilons = _numbers("epsilons", values.epsilons, float, "numbers in (0, 1)")
    local_epochs = _numbers("local_epochs", values.local_epochs, int, "integers >= 1")
    for name in ("convexity", "learning_rate"):
        if not getattr(values, name) > 0:
            raise ValueError(f"{name} must be > 0, got {getattr(values, name)}")
    if not 0 < values.delta < 1:
        raise ValueError(f"delta must be in (0, 1), got {values.delta}")
    panels = [panel(values, epsilons, count) for count in local_epochs]
    chosen = {
        flag.name: flag.value
        for flag in values.get_key_flags_for_module("__main__")
        if flag.name != "output_dir"
    }
    folder = RunFolder(values.output_dir)
    folder.start(chosen | environment(), resume=False)
    write_json(folder.path / "results.json", {"panels": panels})
    draw(panels, folder.path / "convergence.png")
    print(f"F(w) - F* after round {values.num_rounds}:")
    for shown in panels:
        for curve in shown["curves"]:
            print(
                f"  E {shown['constants']['local_epochs']}, epsilon "
                f"{curve['epsilon']:g}: measured {curve['measured_mean'][-1]:.3g}, "
                f"bound {curve['bound'][-1]:.3g}"
            )
    print("files:")
    for name in ("config.json", "results.json", "convergence.png"):
        print(f"  {folder.path / name}")


if __name__ == "__main__":
    command.run(main, __doc__)
