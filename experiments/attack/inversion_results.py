"""Tables and pictures of the results of gradient inversion."""

from pathlib import Path
from typing import Any

import numpy as np

from . import upload_claims
from .picture_table import PictureRow, picture_table

Row = dict[str, Any]


def summarize(rows: list[Row]) -> list[Row]:
    """One row per defence and way of matching, over all attacked clients."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["defence"], row["match"]), []).append(row)
    shared = (
        "defence",
        "mechanism",
        "sensitivity",
        *upload_claims.NOTHING,
        "match",
    )
    return [
        {
            **{name: group[0][name] for name in shared},
            "victims": len(group),
            "noise_over_gradient": float(
                np.mean([row["noise_over_gradient"] for row in group])
            ),
            "psnr_mean": float(np.mean([row["psnr"] for row in group])),
            "psnr_min": min(row["psnr"] for row in group),
            "psnr_max": max(row["psnr"] for row in group),
            "ssim_mean": float(np.mean([row["ssim"] for row in group])),
            "labels_read": sum(row["label"] == row["label_read"] for row in group),
        }
        for group in groups.values()
    ]


def table(summaries: list[Row], mean_image: dict[str, float]) -> list[dict[str, str]]:
    """PSNR and SSIM by defence and way of matching, as texts."""
    rows = []
    for row in summaries:
        plain = row["mechanism"] == "none"
        rows.append(
            {
                "defence": f"`{row['mechanism']}`",
                "sensitivity": "–" if plain else f"`{row['sensitivity']}`",
                "claimed ε": upload_claims.claim_text(row),
                "norm of noise ÷ norm of gradient": f"{row['noise_over_gradient']:.3g}",
                "match": row["match"],
                "PSNR in dB: mean (min to max)": (
                    f"{row['psnr_mean']:.1f} ({row['psnr_min']:.1f} to "
                    f"{row['psnr_max']:.1f})"
                ),
                "SSIM": f"{row['ssim_mean']:.2f}",
                "labels recovered": f"{row['labels_read']} of {row['victims']}",
            }
        )
    nothing = dict.fromkeys(rows[0], "–")
    rows.append(
        nothing
        | {
            "defence": "mean image, no upload",
            "PSNR in dB: mean (min to max)": f"{mean_image['psnr']:.1f}",
            "SSIM": f"{mean_image['ssim']:.2f}",
        }
    )
    return rows


def draw(path: Path, truth: np.ndarray, rows: list[Row], matches: list[str]) -> None:
    """The clients' images, and below them what was rebuilt under each defence."""
    captions = [f"{match}: truth" for match in matches for _ in truth]
    lines = [PictureRow("the clients' images", [*truth] * len(matches), captions)]
    by_name: dict[str, list[Row]] = {}
    for row in rows:
        by_name.setdefault(row["defence"], []).append(row)
    for name, group in by_name.items():
        ordered = [row for match in matches for row in group if row["match"] == match]
        lines.append(
            PictureRow(
                "none" if group[0]["mechanism"] == "none" else name.replace("_", " "),
                [np.asarray(row["image"]) / 255 for row in ordered],
                [f"{row['psnr']:.1f} dB" for row in ordered],
            )
        )
    picture_table(path, lines)
