"""Scores of clients with bad data: the registered comparisons."""

from experiments.shapley import contributors


def test_a_verdict_is_the_interval_of_the_seeds() -> None:
    names = (contributors.MINE, *contributors.RIVALS)
    rows = []
    for seed in (1, 2, 3):
        by = dict.fromkeys(names, 0.5) | {contributors.MINE: 0.8 + seed / 100}
        by["centre"] = by[contributors.MINE] + 0.1 - seed / 1000
        cell = {"deal": "iid", "ladder": "mild", "by": by}
        played = [cell, cell | {"ladder": "three"}, cell | {"deal": "skewed"}]
        rows += [
            {"dataset": name, "seed": seed, "played": played}
            for name in contributors.DATASETS
        ]
    lines = contributors.verdicts(rows).splitlines()[2:]
    assert len(lines) == 2 * len(contributors.RIVALS)
    assert all("wins" in line for line in lines if "centre" not in line)
    assert sum("loses" in line for line in lines) == 2
