"""FedSVA's Table 2: accuracy and run time by the number of attributes."""

from fedsvp_jax.report import labels
from fedsvp_jax.report.text_table import markdown

from . import estimates, results, round_times
from .evidence import Evidence, compiler_flags, provenance, published_score, sizes


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
    return markdown(rows) + "\n" + _of_the_times(evidence.times)


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
    row = round_times.row_of(evidence.times, mechanism, number)
    two = round_times.row_of(evidence.times, "fedsva", 2)
    return {
        "measured: last 5 %": accuracy.cell() if accuracy else "–",
        "measured: seconds per round": f"{row['seconds']:.3g}" if row else "–",
        "CPU seconds per round": f"{row['cpu_seconds']:.3g}" if row else "–",
        "measured: time ÷ time at N = 2": (
            f"{row['cpu_seconds'] / two['cpu_seconds']:.2f}" if row and two else "–"
        ),
        **provenance([result for _, result in found] if groups else [], groups),
    }


def _of_the_times(times: round_times.Times | None) -> str:
    if times is None:
        return f"The times are not measured yet: `{round_times.COMMAND}`.\n"
    return (
        f"Times: medians over {times['rows'][0]['rounds']} rounds per row, without the "
        f"round that compiles; `{times['command']}`, {times['date']}, "
        f"{times['device_kind']} with {times['cores']} cores, compiler's flags "
        f"{compiler_flags(times)}. The largest load of the machine in the meantime was "
        f"{times['load']:.1f}, this program included. Our quotients are of CPU "
        "seconds, which other work on the machine disturbs less.\n"
    )
