"""Compares Theorem 2 with measured runs in which every constant is known.

  python -m experiments.convergence --epsilons=0.2,0.5 --output_dir=runs/convergence

The problem is ridge regression on digits (is it a five?). Client i holds
F_i(w) = ||X_i w - y_i||^2 / 2n_i + (rho/2) ||w||^2, so the smoothness L, the convexity
rho and the minimum w* of the average are known exactly. In every round all K clients
take E full-batch steps and upload with FedSVA's noise at R = 1. Its C is the longest
gradient of the run without noise. G_c^2, the bound on squared gradients, is measured
over all runs.

Theorem 2's right-hand side is called the printed expression here, because it is no
bound: it forgets the noise of earlier rounds. For F = ||w||^2 / 2 with one client,
step size 0.01 and noise of squared length 1 it tends to 1, while the expected gap tends
to 25.13. In the runs below it lies above the measured gap only because its noise term
has the factor K^2 in place of 1/K. At E = 1 the corrected bound stands beside it, whose
noise term is L/2 N_c^2 / (K (1 - (1 - eta rho)^2)).

The figure has one panel per E of --local_epochs. At E = 1 the printed expression
consists of contraction and noise. From E = 2 on, the term for the clients' drift
exceeds both, and there is no corrected bound.

Written to --output_dir: config.json, results.json (constants, and the printed
expression, the corrected bound and the measured gap of every round), convergence.svg.

Exit status: 0 done; 2 bad input (one line says why).
"""

import math
import pathlib
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from absl import flags

from fedsvp_jax import mechanisms, prng, tree
from fedsvp_jax.data import partition, preprocessing, sources
from fedsvp_jax.mechanisms import noise
from fedsvp_jax.mechanisms.sensitivity import published_bound
from fedsvp_jax.report import figures, style
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.files import write_json
from fedsvp_jax.run.folder import RunFolder
from fedsvp_jax.structs import Array

from . import command, flag_values, theorem_2, upload_claims

_PRIVATE_CLASS = 5

flags.DEFINE_string("output_dir", None, "Folder where every file is written.")
flags.DEFINE_list(
    "epsilons", ["0.2", "0.5"], "Values of epsilon per upload, each in (0, 1)."
)
flags.DEFINE_float("delta", 0.1, "Delta per upload.")
flags.DEFINE_float("convexity", 0.1, "rho: weight of the ridge penalty.")
flags.DEFINE_float("learning_rate", 0.5, "Step size; must be below 1/rho and 2/L.")
flags.DEFINE_list("local_epochs", ["1", "2"], "E: full-batch steps per round.")
flags.DEFINE_integer(
    "cohort_size",
    10,
    "K: number of clients; all take part in every round.",
    lower_bound=1,
)
flags.DEFINE_integer("num_rounds", 100, "T: number of rounds.", lower_bound=1)
flags.DEFINE_integer(
    "num_repeats", 20, "Runs with different noise that are averaged.", lower_bound=2
)
flags.DEFINE_integer("seed", 0, "Seed of the partition and the noise.", lower_bound=0)
flags.mark_flag_as_required("output_dir")


class Problem(NamedTuple):
    """Quadratics F_i(w) = w'A_i w/2 - b_i'w + c_i, one per client."""

    curvature: Array  # (K, d, d): A_i = X_i'X_i/n_i + rho I
    slope: Array  # (K, d): b_i = X_i'y_i/n_i
    smoothness: float  # L: the largest eigenvalue of any A_i
    minimum: Array  # (d,): w* of the average
    num_examples: int  # |D| of the smallest client


class Measured(NamedTuple):
    """The runs with one noise std."""

    noise_std: float
    gaps: np.ndarray  # (runs, T + 1): F(w^t) − F*, from t = 0
    longest_gradient: float


def make_problem(num_clients: int, *, convexity: float, seed: int) -> Problem:
    """Digits divided IID; pixels and labels (±1) centred, the largest norm is 1."""
    data = sources.load("digits", None)
    pixels = np.asarray(
        preprocessing.normalize(jnp.asarray(data.train_inputs)), np.float64
    )
    features = pixels.reshape(len(pixels), -1)
    features -= features.mean(axis=0)
    features /= np.linalg.norm(features, axis=1).max()
    labels = np.where(data.train_labels == _PRIVATE_CLASS, 1.0, -1.0)
    labels -= labels.mean()
    clients = partition.iid(len(labels), num_clients, seed=seed)
    ridge = convexity * np.eye(features.shape[1])
    curvature = np.stack(
        [features[rows].T @ features[rows] / len(rows) + ridge for rows in clients]
    )
    slope = np.stack([features[rows].T @ labels[rows] / len(rows) for rows in clients])
    return Problem(
        curvature=jnp.asarray(curvature, jnp.float32),
        slope=jnp.asarray(slope, jnp.float32),
        smoothness=float(np.linalg.eigvalsh(curvature).max()),
        minimum=jnp.asarray(
            np.linalg.solve(curvature.mean(0), slope.mean(0)), jnp.float32
        ),
        num_examples=min(len(rows) for rows in clients),
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
        # (w − w*)ᵀA(w − w*)/2, since F(w) − F* would cancel.
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
            client_key = prng.stream_key(key, prng.Stream.NOISE, client)
            return noise.add_gaussian_noise(model, noise_std, key=client_key)[0]

        uploads = jax.vmap(noised)(trained, ids)
        w = jnp.mean(uploads, axis=0)
        return (w, root), (gap(w), jnp.max(norms))

    def one_run(root: Array) -> tuple[Array, Array]:
        start = jnp.zeros((size,), jnp.float32)
        rounds = jnp.arange(num_rounds, dtype=jnp.int32)
        _, (gaps, norms) = jax.lax.scan(one_round, (start, root), rounds)
        return jnp.concatenate([gap(start)[None], gaps]), jnp.max(norms)

    return jax.vmap(one_run)(roots)


def claim(
    values: flags.FlagValues, epsilon: float, clip: float, problem: Problem
) -> dict[str, Any]:
    """What FedSVA claims for an upload with this noise; δ is its δ′."""
    mechanism = mechanisms.make_mechanism(
        "fedsva",
        mechanisms.MechanismConfig(
            epsilon=epsilon,
            delta=values.delta,
            l2_norm_clip=clip,
            num_clients=values.cohort_size,
            cohort_size=values.cohort_size,
            batch_size=problem.num_examples,
            min_num_examples=float(problem.num_examples),
            contribution_release="worst_case",
        ),
    )
    delta = float(mechanism.most_delta)
    return upload_claims.kept(mechanism, epsilon, delta, keeps_stats=False)


def panel(
    values: flags.FlagValues, epsilons: Sequence[float], local_epochs: int
) -> dict[str, Any]:
    """The constants of one E; by ε the printed expression, the bound and the gap."""
    problem = make_problem(
        values.cohort_size, convexity=values.convexity, seed=values.seed
    )
    if values.learning_rate * problem.smoothness >= 2:
        raise ValueError(
            f"learning_rate must be < 2/L = {2 / problem.smoothness:.4g}, so that "
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
        tolerance = mechanisms.risk_tolerance(1.0, values.delta)
        multiplier = mechanisms.guided_multiplier(tolerance, epsilon, 0.1)
        bound = published_bound(clip, problem.num_examples)
        measured[epsilon] = measure(float(multiplier * bound))
    claims = {epsilon: claim(values, epsilon, clip, problem) for epsilon in epsilons}
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

    def curve(epsilon: float, runs: Measured) -> dict[str, Any]:
        shared = {
            name: value
            for name, value in constants.items()
            if name not in ("local_epochs", "gradient_square")
        } | {"noise_square": size * runs.noise_std**2}
        printed = theorem_2.printed_expression(
            rounds,
            **shared,
            local_epochs=local_epochs,
            gradient_square=constants["gradient_square"],
        )
        corrected = None
        if local_epochs == 1:
            corrected = np.asarray(theorem_2.one_step_bound(rounds, **shared))
        return {
            **claims.get(epsilon, upload_claims.NOTHING),
            "noise_std": runs.noise_std,
            "printed_expression": np.asarray(printed),
            "corrected_bound": corrected,
            "measured_mean": runs.gaps.mean(axis=0),
            "measured_most": runs.gaps.max(axis=0),
        }

    return {
        "constants": constants | {"num_parameters": size, "l2_norm_clip": clip},
        "curves": [curve(epsilon, runs) for epsilon, runs in measured.items()],
    }


def draw(panels: list[dict[str, Any]], path: pathlib.Path) -> None:
    """Draws printed dashed, corrected dotted, measured solid; one colour per ε."""
    lines = (
        ("printed_expression", "dash", "printed expression (no bound)"),
        ("corrected_bound", "dot", "corrected bound (E = 1)"),
        ("measured_mean", "solid", "measured"),
    )

    def draw_panel(axes: Any, shown: dict[str, Any]) -> None:
        for number, curve in enumerate(shown["curves"]):
            for key, dash, label in lines:
                if curve[key] is not None:
                    look = style.numbered(number)._replace(dash=dash)
                    text = f"{label}, {upload_claims.of_curve(curve)}"
                    rounds = range(len(curve[key]))
                    figures.curve(axes, rounds, curve[key], look, label=text)
        figures.log_axis(axes, "y")
        axes.set_title(f"Ridge regression on digits, E = {_epochs(shown)}")
        figures.round_axis(axes)
        axes.set_ylabel("F(w) − F*")

    figures.panels(path, [partial(draw_panel, shown=shown) for shown in panels])


def _epochs(shown: dict[str, Any]) -> int:
    return shown["constants"]["local_epochs"]


def main(_: list[str]) -> None:
    """Runs and draws every panel."""
    values = flags.FLAGS
    epsilons = flag_values.numbers(
        "epsilons",
        values.epsilons,
        allowed="numbers in (0, 1)",
        is_allowed=lambda epsilon: 0 < epsilon < 1,
    )
    local_epochs = flag_values.numbers(
        "local_epochs",
        values.local_epochs,
        kind=int,
        allowed="integers >= 1",
        is_allowed=lambda count: count >= 1,
    )
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
    draw(panels, folder.path / "convergence.svg")
    print(f"F(w) - F* after round {values.num_rounds}:")
    for shown in panels:
        for curve in shown["curves"]:
            print(
                f"  E {_epochs(shown)}, {upload_claims.of_curve(curve)}: measured "
                f"{curve['measured_mean'][-1]:.3g}, "
                f"printed expression {curve['printed_expression'][-1]:.3g}"
                + (
                    ""
                    if curve["corrected_bound"] is None
                    else f", corrected bound {curve['corrected_bound'][-1]:.3g}"
                )
            )
    print("The printed expression of Theorem 2 is no bound (docs/methods.md).")
    names = ("config.json", "results.json", "convergence.svg")
    command.print_files(folder.path / name for name in names)


if __name__ == "__main__":
    command.run(main, __doc__)
