"""NVIDIA FLARE: the filters of a client's results, in config_fed_client.json.

Source: nvflare 2.9, `app_common/filters/svt_privacy.py` and `percentile_privacy.py`;
FLIP, `flip/nvflare/components/local_dp.py`.
"""

import json
import math
import pathlib
from collections.abc import Mapping
from typing import Any

from fedsvp_jax.core.files import toml_beside

from .components import Component
from .flower import classical_noise
from .noise import Noise, Stated, nothing

_KNOWN = toml_beside(__file__, "engines.toml")["flare"]


def read(path: pathlib.Path, parameters: int | None = None) -> list[Noise]:
    """The noise of every filter of results, in a model of so many parameters.

    There is none where a task's result leaves without the filter.

    Raises:
      ValueError: the file is unreadable, or has a filter that is not known.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        executors = content.get("executors", [{"tasks": ["train"]}])
        executed = {str(task) for executor in executors for task in executor["tasks"]}
        chains = [
            (
                {*group["tasks"]},
                str(filter_.get("path") or filter_["name"]),
                dict(filter_.get("args") or {}),
            )
            for group in content["task_result_filters"]
            if group.get("direction") != "in"
            for filter_ in group["filters"]
        ]
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        raise ValueError(
            f"{path} is no config_fed_client.json, whose task_result_filters have "
            "tasks and filters"
        ) from error
    noises = []
    executed = executed - {"validate"}  # which answers with metrics
    only = f"no task but {', '.join(sorted(executed))} sends a model"
    for tasks, name, args in chains:
        noise = _filter(name, args, path.name, parameters)
        if bare := executed - (tasks - {"*"}):  # FLARE asks "*" of no task
            text = f"the task {min(bare)} sends its result without this filter"
            noise = nothing(noise.source, text)._replace(stated=noise.stated)
        noises.append(noise._replace(assumptions=(*noise.assumptions, only)))
    return noises


def _filter(
    name: str, args: Mapping[str, Any], file: str, parameters: int | None
) -> Noise:
    root, name = name.partition(".")[0], name.rpartition(".")[2]
    source = f"{name} in {file}"
    settings = {key: value for key, value in args.items() if value is not None}
    if root not in (name, "flip", "nvflare"):
        raise ValueError(f"{source} is {root}'s own, whose noise is not known here")
    if name in _KNOWN["without_noise"]:
        return nothing(source, "it adds no noise")
    if name == "LocalDifferentialPrivacy":
        if unknown := sorted({*settings} - {*_KNOWN["flip"], "off"}):
            raise ValueError(
                f"{source} has arguments unknown here: {', '.join(unknown)}"
            )
        if settings.get("off"):
            return nothing(source, "off is true: updates leave as they are")
        return classical_noise(source, _KNOWN["flip"] | settings)
    if name == "SVTPrivacy":
        return _sparse_vector(source, settings, parameters)
    raise ValueError(f"{source} is no filter whose noise is known here")


def _sparse_vector(
    source: str, args: Mapping[str, Any], parameters: int | None
) -> Noise:
    """Laplace noise on c = fraction·parameters of the values, chosen by noisy tests."""
    if parameters is None:
        raise ValueError(
            f"{source}: give the model's size by --parameters, in Python parameters="
        )
    defaults = _KNOWN["sparse_vector"]
    settings = Component(source, {**defaults, **args})
    epsilon, gamma, fraction, variance = (
        settings.number(name, above=0) for name in defaults
    )
    count = min(math.ceil(fraction * parameters), parameters)
    release = count * variance
    if "epsilon_release" in args:
        release = settings.number("epsilon_release", above=0)
    std = 2 * gamma * count / release
    return Noise(
        source=source,
        text=f"Laplace noise of scale {std:.4g} on {count} of {parameters} "
        f"values, each clipped to {gamma:g} per step: ε = {epsilon:g} to choose them "
        f"and {release:g} to send them",
        std=std,
        multiplier=math.inf,
        pure=epsilon + release,
        stated=Stated(epsilon, 0.0, "upload"),
        assumptions=(
            "the values of two neighbours differ by at most 2 gamma",
            *_KNOWN["assumptions"],
        ),
        flaws=(
            "answers that are accepted beyond the number that is sent are not counted",
            "scalars leave without noise",
        ),
    )
