"""FedSVA's Table 2: accuracy by the number of attributes."""

from fedsvp_jax.report import labels
from fedsvp_jax.report.text_table import markdown

from . import estimates, results
from .evidence import Evidence, provenance, published_score, sizes


def attributes_block(evidence: Evidence) -> str:
    """One row for FedAvg, then one per N and ε."""
    published = evidence.published["fedsva_table2"]["cells"]
    (fedavg,) = evidence.published["fedsva_runtime"]["cells"]
    base = next(c["seconds"] for c in published if c["num_attributes"] == 2)
    rows = [
        {
            "N": "FedAvg",
            "ε": "–",
            "published: last 5 %": "–",
            "published: seconds per run": f"{fedavg['seconds']:,.0f}",
            "published: time ÷ time at N = 2": f"{fedavg['seconds'] / base:.2f}",
            **_measured(evidence, 2, "none", None),
        }
    ]
    for cell in published:
        seconds = f"{cell['seconds']:,.0f} ± {cell['seconds_std']:,.0f}"
        number, epsilon = cell["num_attributes"], cell["epsilon"]
        rows.append(
            {
                "N": str(number),
                "ε": labels.significant(epsilon),
                "published: last 5 %": published_score(cell, "last5"),
                "published: seconds per run": seconds,
                "published: time ÷ time at N = 2": f"{cell['seconds'] / base:.2f}",
                **_measured(evidence, number, "fedsva", epsilon),
            }
        )
    return markdown(rows)


def _measured(
    evidence: Evidence, number: int, mechanism: str, epsilon: float | None
) -> dict[str, str]:
    found = sizes(evidence, f"fedsva_table2_n{number}_cifar10")[-1:]
    groups = [
        group
        for _, result in found
        if (group := results.group_of(result, mechanism, epsilon))
    ]
    accuracy = estimates.of_seeds(groups[0]["last5"]) if groups else None
    return {
        "measured: last 5 %": accuracy.cell() if accuracy else "–",
        **provenance([result for _, result in found] if groups else [], groups),
    }
