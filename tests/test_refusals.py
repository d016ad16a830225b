"""Settings that do not fit are refused in one sentence that begins with their name."""

import functools
import itertools
import re
from typing import Any

import pytest
from small_runs import digits, small

from fedsvp_jax.federation import build

CLIPPED = {"clipping": "update_clip", "delta": 1e-5}
QUERY = {"clipping": "attribute_records"}
STEPS = {"clipping": "per_example"}
POISSON = STEPS | {"batches": "poisson", "relation": "add_remove"}
ONE_STEP = POISSON | {"mechanism": "gaussian", "local_steps": 1}
TURNS = {"cohorts": "cyclic", "num_clients": 6, "num_hbc_clients": 0}
BANDS = {"mechanism": "dp_fedavg", "noise_bands": 2} | TURNS
NBAFL = {"mechanism": "nbafl"}
DP_FEDAVG, REESTIMATED = {"mechanism": "dp_fedavg"}, {"mechanism": "reestimation"}
ADAPTIVE = DP_FEDAVG | {"adaptive_clip": True, "count_noise_std": 3.0}
SHARED, DISCRETE = {"noise_trust": "secure_aggregation"}, {"noise_sampler": "discrete"}

OTHER_CLIPS = itertools.product(
    (DP_FEDAVG, REESTIMATED), ("weight_clip", "per_example", "attribute_records")
)
ESTIMATED = {"shapley": "additive", "num_attributes": 4}
PROCESS = {"shapley": "gp", "shapley_trainings": 4}

# The setting, what else is chosen (which is taken), and what is then refused.
REFUSED: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    # Alone.
    *(("epsilon", {}, {"epsilon": e}) for e in (-1.0, 0.0, float("nan"), float("inf"))),
    *(("delta", {}, {"delta": delta}) for delta in (0.0, 1.0)),
    ("l2_norm_clip", {}, {"l2_norm_clip": 0.0}),
    ("l2_norm_clip", {}, {"l2_norm_clip": 1e-20}),
    ("noise_floor", {}, {"noise_floor": 0.0}),
    ("noise_multiplier", DP_FEDAVG, {"noise_multiplier": -1.0}),
    ("exposures", NBAFL, {"exposures": 0.0}),
    ("decay", {"mechanism": "time_varying"}, {"decay": 1.5}),
    ("contraction", {"mechanism": "dpa"}, {"contraction": 0.0}),
    ("norm_mix", REESTIMATED, {"norm_mix": 2.0}),
    ("private_clip", QUERY, {"private_clip": 0.0}),
    ("private_weight", QUERY, {"private_weight": -1.0}),
    ("private_margin", QUERY, {"private_margin": -1.0}),
    ("private_from", QUERY, {"private_from": -1}),
    ("private_layers", QUERY, {"private_layers": "first"}),
    ("num_clients", {}, {"num_clients": 0}),
    ("num_rounds", {}, {"num_rounds": 0}),
    ("learning_rate", {}, {"learning_rate": float("inf")}),
    ("train_fraction", {}, {"train_fraction": 1.0}),
    ("seed", {}, {"seed": -1}),
    ("dataset", {}, {"dataset": "digit"}),
    ("model", {}, {"model": "resnet"}),
    ("mechanism", {}, {"mechanism": "fedsv"}),
    ("clipping", {}, {"clipping": "papers"}),
    ("partition", {}, {"partition": "sorted"}),
    ("relation", {}, {"relation": "swap"}),
    *(
        ("noise_sampler", POISSON, DISCRETE | {"mechanism": "gaussian"} | sizes)
        for sizes in ({}, {"local_steps": 1, "batch_size": 5})
    ),
    # Federation and data.
    *(("num_attributes", {}, {"num_attributes": n}) for n in (0, 11, 65)),
    ("cohort_size", {}, {"cohort_size": 31}),
    ("cohort_size", {}, {"num_clients": 2}),
    ("num_hbc_clients", {}, {"num_hbc_clients": 31}),
    ("partition", {}, {"partition": "by_writer"}),
    *(
        ("attributes", {}, {"attributes": a})
        for a in ("column:sex", "class:3", "colour")
    ),
    ("private_attribute", {}, {"private_attribute": 10}),
    # Estimators.
    ("num_attributes", ESTIMATED, {"num_attributes": 65}),
    ("shapley_trainings", ESTIMATED, {"shapley_trainings": 3}),
    ("shapley_trainings", PROCESS, {"shapley_trainings": 0}),
    # Clip, noise, trust.
    ("client_momentum", {}, {"client_momentum": 0.5}),
    ("client_momentum", ONE_STEP, {"client_momentum": 0.5}),  # which it did not change
    ("proximal_mu", ONE_STEP, {"proximal_mu": 0.5}),
    ("noise_examples_scale", NBAFL | CLIPPED, {"noise_examples_scale": 5.0}),
    ("calibration", {}, {"calibration": "analytic"}),
    ("calibration", {"mechanism": "fedsdp"}, {"calibration": "analytic"}),
    ("epsilon", {}, {"epsilon": 1.0}),
    *(("clipping", own, {"clipping": rule}) for own, rule in OTHER_CLIPS),
    ("relation", NBAFL | POISSON, {"relation": "replace_one"}),
    ("count_noise_std", ADAPTIVE | {"noise_multiplier": 2.0}, {"count_noise_std": 2.0}),
    ("noise_bands", BANDS, {"cohorts": "drawn"}),
    ("noise_bands", BANDS, {"noise_bands": 6}),
    ("noise_bands", BANDS, {"adaptive_clip": True, "count_noise_std": 4.0}),
    ("noise_bands", BANDS, {"server_momentum": 0.5}),
    ("noise_bands", BANDS, {"server_learning_rate": 2.0}),
    ("noise_bands", BANDS, {"server_optimizer": "yogi"}),
    ("noise_sampler", NBAFL, DISCRETE),
    ("noise_sampler", NBAFL | {"clipping": "weight_clip"}, DISCRETE),
    ("noise_sampler", NBAFL | STEPS, DISCRETE),
    ("noise_sampler", NBAFL | CLIPPED | {"downlink_noise": True}, DISCRETE),
    ("noise_sampler", CLIPPED, DISCRETE),
    ("noise_sampler", REESTIMATED | CLIPPED, DISCRETE),
    ("noise_sampler", ADAPTIVE, DISCRETE),
    ("noise_sampler", BANDS, DISCRETE),
    ("noise_trust", DP_FEDAVG | CLIPPED, SHARED),
    ("noise_trust", REESTIMATED | CLIPPED, SHARED),
    ("noise_trust", NBAFL | STEPS, SHARED),
    ("noise_trust", NBAFL | POISSON | {"local_steps": 2}, SHARED),
    ("noise_trust", QUERY, SHARED),
    *(("colluders", NBAFL | CLIPPED | SHARED, {"colluders": h}) for h in (3, 4)),
]


NEAR = {"digit": "digits", "resnet": "resnet18", "fedsv": "fedsva", "papers": "paper"}


@functools.cache
def taken(chosen: str) -> bool:
    """Whether these settings are, told as text so that each is tried once."""
    return bool(build([small(**CHOSEN[chosen])], digits()))


CHOSEN = {str(chosen): chosen for _, chosen, _ in REFUSED}


@pytest.mark.parametrize(("name", "chosen", "wrong"), REFUSED, ids=str)
def test_a_setting_that_does_not_fit_is_refused_by_its_name(
    name: str, chosen: dict[str, Any], wrong: dict[str, Any]
) -> None:
    assert taken(str(chosen))
    with pytest.raises(ValueError) as raised:
        build([small(**chosen | wrong)], digits())
    message = str(raised.value)
    assert re.match(rf"{name}[ =]", message) and "\n" not in message
    if not chosen and name in wrong:
        assert str(wrong[name]) in message
        assert NEAR.get(wrong[name], "") in message
