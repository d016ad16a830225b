"""NVIDIA FLARE: the filters of a client's results, in config_fed_client.json.

Source: nvflare 2.9, `app_common/filters/svt_privacy.py` and `percentile_privacy.py`;
FLIP, `flip/nvflare/components/local_dp.py`.
"""

import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

from fedsvp_jax.check.flower import FLIP_DEFAULTS, classical_noise, none
from fedsvp_jax.check.noise import Facts, Noise, Stated
from fedsvp_jax.check.python_calls import finite

_SILENT = {  # filters without noise
    "PercentilePrivacy": "small weights are left out and others truncated",
    "ExcludeVars": "variables are left out",
    "ConvertWeights": "weights and differences are converted",
    "DXOBlocker": "some kinds of results are held back",
    "HEModelEncryptor": "results are encrypted",
}
_REST = (
    "what else leaves, metrics and the number of steps, tells nothing",
    "the noise, floating-point numbers of NumPy, is as good as real and nobody's guess",
)


def read(path: pathlib.Path, facts: Facts) -> list[Noise]:
    """The noise of every filter of results.

    Raises:
      ValueError: the file is unreadable, or has a filter that is not known.
    """
    filters = _json(path).get("task_result_filters")
    if not isinstance(filters, list):
        raise ValueError(
            f"{path} is no config_fed_client.json, which has a list task_result_filters"
        )
    rounds = _rounds(path.with_name("config_fed_server.json"))
    found = []
    for group in filters:
        try:
            named = [(one, dict(one.get("args") or {})) for one in group["filters"]]
            tasks = [*group["tasks"]]
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"{path} has filters of another form than tasks and filters with args"
            ) from error
        for one, told in named:
            noise = _filter(str(one.get("path") or one.get("name")), told, path, facts)
            if tasks == ["*"]:
                noise = none(
                    noise.source, "tasks is '*', and FLARE 2.9 then asks it of no task"
                )._replace(stated=noise.stated)
            told_tasks = f"the training's task is one of {', '.join(map(str, tasks))}"
            assumptions = (*noise.assumptions, told_tasks)
            found.append(noise._replace(rounds=rounds, assumptions=assumptions))
    return found


def _json(path: pathlib.Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON that can be read") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} holds no JSON object")
    return content


def _rounds(path: pathlib.Path) -> int | None:
    """num_rounds of the one workflow of a config_fed_server.json, if it is there."""
    if not path.is_file():
        return None
    try:
        workflows = [one.get("args", {}) for one in _json(path)["workflows"]]
        (rounds,) = {args["num_rounds"] for args in workflows if "num_rounds" in args}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None
    return rounds if isinstance(rounds, int) and rounds >= 1 else None


def _filter(name: str, args: dict[str, Any], path: pathlib.Path, facts: Facts) -> Noise:
    name = name.rpartition(".")[2]
    source = f"{name} in {path.name}"
    args = args | dict(facts.overrides)
    told = {key: value for key, value in args.items() if value is not None}
    if name in _SILENT:
        return none(source, f"{_SILENT[name]}, and no noise is added")
    if name == "LocalDifferentialPrivacy":
        if told.get("off"):
            return none(source, "off is true: updates leave as they are")
        return classical_noise(source, FLIP_DEFAULTS | told, assumptions=_REST)
    if name == "SVTPrivacy":
        return _sparse_vector(source, told, facts)
    if name == "PrivacyFilter":
        raise ValueError(
            f"{source} is this package's own: `fedsvp train --dry_run` with its "
            "settings says what it spends"
        )
    raise ValueError(f"{source} is no filter whose noise is known here")


def _sparse_vector(source: str, told: Mapping[str, Any], facts: Facts) -> Noise:
    """Laplace noise on c = fraction·parameters of the values, chosen by noisy tests."""

    def number(name: str, default: float) -> float:
        return finite(source, name, told.get(name, default), above=0)

    if facts.parameters is None:
        raise ValueError(f"{source}: give the model's size by --parameters")
    epsilon, gamma = number("epsilon", 0.1), number("gamma", 1e-5)
    most = math.ceil(number("fraction", 0.1) * facts.parameters)
    count = min(most, facts.parameters)
    release = number("epsilon_release", count * number("noise_var", 0.1))
    std = 2 * gamma * count / release
    return Noise(
        source=source,
        text=f"Laplace noise of scale {std:.4g} on {count} of {facts.parameters} "
        f"values, each clipped to {gamma:g} per step: ε = {epsilon:g} to choose them "
        f"and {release:g} to send them",
        std=std,
        multiplier=math.inf,
        pure=epsilon + release,
        stated=Stated(epsilon, 0.0, "upload"),
        assumptions=(
            "the values of two neighbours differ by at most 2 gamma",
            *_REST,
        ),
        flaws=(
            "answers that are accepted beyond the number that is sent are not counted",
            "scalars leave without noise",
        ),
    )
