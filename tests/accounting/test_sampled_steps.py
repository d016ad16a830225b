"""summary.json has what dp-accounting asks for of steps on Poisson batches."""

import json
import math
from pathlib import Path

import dp_accounting
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from small_runs import digits, read_rows, small

from fedsvp_jax import run


@pytest.mark.hole
def test_recorded_steps_give_the_printed_epsilon_to_dp_accounting(
    tmp_path: Path,
) -> None:
    """Who took an upload's z for a step's got 2.52 in the place of 0.913."""
    told = {"clipping": "per_example", "batches": "poisson", "relation": "add_remove"}
    config = small(mechanism="gaussian", epsilon=0.5, num_rounds=2, **told)
    run.train(config, tmp_path / "run", dataset=digits())
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    for name, accountant in (("rdp", RdpAccountant), ("pld", PLDAccountant)):
        epsilons = []
        for kind in summary["sampled_steps"]:
            step = dp_accounting.PoissonSampledDpEvent(
                kind["rate"], dp_accounting.GaussianDpEvent(kind["multiplier"])
            )
            of_kind = accountant()
            of_kind.compose(step, kind["number"])
            epsilons.append(of_kind.get_epsilon(summary["target_delta"]))
        printed = summary["epsilon_spent"][name]
        assert max(epsilons) == pytest.approx(printed, rel=0.01), name
    # docs/appendix/fields.md: how the fields of an upload give those of a step.
    most_steps = summary["subsampling"]["most_steps"]
    assert most_steps > 1
    for row in read_rows(tmp_path / "run" / "clients.jsonl"):
        z = row["noise_multiplier"] * math.sqrt(most_steps)
        assert z == pytest.approx(summary["sampled_steps"][0]["multiplier"], rel=1e-5)
        clip = row["sensitivity"] / math.sqrt(most_steps)  # C/B
        assert clip == pytest.approx(config.l2_norm_clip / config.batch_size, rel=1e-3)
        assert row["step_noise_std"] == pytest.approx(z * clip, rel=1e-5)
