"""The reconstruction attack's results as one table over mechanisms."""

from typing import Any

_FID = "Inception-v3 pool3"  # the only features whose distances have those names


def head(results: dict[str, Any]) -> list[str]:
    """The columns' names."""
    fid = results["extractor"] == _FID
    return [
        "mechanism",
        "test accuracy %",
        "recognised %",
        "FID" if fid else "Fréchet distance",
        "increase %",
        "mean of classes",
        "increase %",
        "KID" if fid else "kernel distance",
        "nearest",
    ]


def summary_cells(results: dict[str, Any]) -> list[list[str]]:
    """One row of texts a mechanism, and one for each reference, as `head` says.

    The increase is over the mechanism none (FedAvg), as in FedSVA, Fig. 3; empty where
    the results lack it. A number after ± is the std over several attackers, in the
    kernel distance the standard error.
    """
    several = results["settings"]["num_attackers"] > 1
    by_name = {row["mechanism"]: row for row in results["mechanisms"]}
    base = by_name.get("none")
    rows = []
    for name, row in by_name.items():
        scores, mean = row["classes"][0], _mean(row)
        own, of_all = "", ""
        if base is not None and name != "none":
            before = base["classes"][0]["frechet_distance"]
            own = f"{100 * (scores['frechet_distance'] / before - 1):+.1f}"
            of_all = f"{100 * (mean / _mean(base) - 1):+.1f}"
        rows.append(
            [
                name,
                f"{100 * row['test_accuracy']:.1f}",
                f"{100 * scores['recognised']:.1f}"
                + several * f" ± {100 * scores['recognised_std']:.1f}",
                f"{scores['frechet_distance']:.2f}"
                + several * f" ± {scores['frechet_distance_std']:.2f}",
                own,
                f"{mean:.2f}",
                of_all,
                f"{scores['kernel_distance']:.4g} ± "
                f"{scores['kernel_standard_error']:.3g}",
                f"{scores['nearest_distance']:.3f}",
            ]
        )
    for name, scores in results["references"].items():
        rows.append(
            [
                f"({name})",
                "",
                f"{100 * scores['recognised']:.1f}",
                f"{scores['frechet_distance']:.2f}",
                "",
                "",
                "",
                f"{scores['kernel_distance']:.4g} ± "
                f"{scores['kernel_standard_error']:.3g}",
                f"{scores['nearest_distance']:.3f}",
            ]
        )
    return rows


def markdown(results: dict[str, Any]) -> str:
    """The table as Markdown, with what distances were taken in below it."""
    names = head(results)
    lines = ["| " + " | ".join(names) + " |", "|---" * len(names) + "|"]
    lines += ["| " + " | ".join(row) + " |" for row in summary_cells(results)]
    settings = results["settings"]
    clip = settings["l2_norm_clip"]
    bound = "inf" if clip is None else f"{clip:g}"
    return "\n".join(
        [
            *lines,
            "",
            f"{settings['dataset']}, {settings['model']}, ε = {settings['epsilon']:g}, "
            f"C = {bound}, {settings['num_clients']} clients, "
            f"{settings['cohort_size']} a round, {settings['num_rounds']} rounds; "
            f"{settings['attack_mode']} attackers: {settings['num_attackers']}, "
            f"{settings['attack_steps']} steps a round. Private class: "
            f"{settings['private_attribute']}. {names[3]} and {names[7]} "
            f"({results['extractor']}) between {settings['num_images']} "
            "reconstructions and as many real images. The classifier's accuracy on "
            f"the real test images is {100 * results['classifier_accuracy']:.1f} %.",
        ]
    )


def plain_text(results: dict[str, Any]) -> str:
    """The table for a terminal."""
    cells = [head(results), *summary_cells(results)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join(
        "  ".join(
            text.ljust(width) if place == 0 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    )


def _mean(row: dict[str, Any]) -> float:
    """Of the Fréchet distances over the classes."""
    classes = row["classes"]
    return sum(one["frechet_distance"] for one in classes) / len(classes)
