"""Tables of the results of the reconstruction attack."""

from typing import Any

from fedsvp_jax.report import labels

from . import upload_claims

DISTANCE, KERNEL = "Fréchet distance", "kernel distance"


def _mean_distance(mechanism: dict[str, Any]) -> float:
    """Mean of the Fréchet distances over the classes."""
    distances = [scores["frechet_distance"] for scores in mechanism["classes"]]
    return sum(distances) / len(distances)


def _kernel_distance(scores: dict[str, float]) -> str:
    return f"{scores['kernel_distance']:.4g} ± {scores['kernel_standard_error']:.3g}"


def table(results: dict[str, Any]) -> list[dict[str, str]]:
    """One row of texts per mechanism and per reference.

    The increase is over the mechanism none (FedAvg), as in FedSVA, Fig. 3; it is empty
    if none was not attacked. A number after ± is the std over several attackers, in
    the kernel distance the standard error.
    """
    several = results["settings"]["num_attackers"] > 1
    by_name = {row["mechanism"]: row for row in results["mechanisms"]}
    fedavg = by_name.get("none")
    rows = []
    for name, row in by_name.items():
        private, mean = row["classes"][0], _mean_distance(row)
        increase, mean_increase = "", ""
        if fedavg is not None and name != "none":
            before = fedavg["classes"][0]["frechet_distance"]
            increase = f"{100 * (private['frechet_distance'] / before - 1):+.1f}"
            mean_increase = f"{100 * (mean / _mean_distance(fedavg) - 1):+.1f}"
        rows.append(
            {
                "mechanism": name,
                "largest ε per upload": upload_claims.claim_text(row),
                "test accuracy %": f"{100 * row['test_accuracy']:.1f}",
                "recognised %": labels.percent(
                    private["recognised"],
                    private["recognised_std"] if several else None,
                    digits=1,
                ),
                DISTANCE: f"{private['frechet_distance']:.2f}"
                + (f" ± {private['frechet_distance_std']:.2f}" if several else ""),
                "increase over none, %": increase,
                f"mean {DISTANCE} of all classes": f"{mean:.2f}",
                "increase of the mean, %": mean_increase,
                KERNEL: _kernel_distance(private),
                "nearest": f"{private['nearest_distance']:.3f}",
            }
        )
    for name, scores in results["references"].items():
        rows.append(
            dict.fromkeys(rows[0], "")
            | {
                "mechanism": f"({name})",
                "recognised %": f"{100 * scores['recognised']:.1f}",
                DISTANCE: f"{scores['frechet_distance']:.2f}",
                KERNEL: _kernel_distance(scores),
                "nearest": f"{scores['nearest_distance']:.3f}",
            }
        )
    return rows
