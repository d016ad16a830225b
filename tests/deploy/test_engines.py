"""The noise that each engine draws, beside what `fedsvp check` says of it."""

import json
import pathlib
import subprocess
from typing import Any

import numpy as np
import pytest
from others_settings import CASES, FLIP, Case

from fedsvp_jax import check

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[2]
SIZE = 20_000  # numbers: their std is known to 0.5 %


def of_engine(engine: str, *without: str) -> list[str]:
    return [
        name for name in CASES if CASES[name].engine == engine and name not in without
    ]


def compared(name: str, drawn: float, folder: pathlib.Path, rel: float = 0.03) -> None:
    """The std, or scale, that an engine drew, with what the checker says of it."""
    case = CASES[name]
    file = folder / case.name
    file.write_text(case.text)
    known = check.READERS[case.engine](file, check.Facts(**case.facts or {}))[0].std
    assert drawn == pytest.approx(known, rel=rel)


def made(case: Case, **known: Any) -> dict[str, Any]:
    """The names of a Python file, which is run here, with the engine's own classes."""
    given = dict((case.facts or {}).get("overrides", {}))
    names = known | {"clip": lambda: given["clipping_norm"]}
    exec(case.text, names)
    return names


def local_noise(mod: Any) -> np.ndarray:
    """What LocalDpMod sends of an update that is next to 0, of which it divides."""
    import flwr.app as fl

    zeros = {"0": fl.Array(np.full(SIZE, 1e-9, np.float32))}
    content = fl.RecordDict({"fitins.parameters": fl.ArrayRecord(zeros)})
    content["fitins.config"] = fl.ConfigRecord({})
    request = fl.Message(content, dst_node_id=1, message_type="train")

    def train(message: Any, context: Any) -> fl.Message:
        del context
        moved = {"0": fl.Array(np.full(SIZE, 2e-9, np.float32))}
        reply = fl.RecordDict({"fitres.parameters": fl.ArrayRecord(moved)})
        reply["fitres.num_examples"] = fl.MetricRecord({"num_examples": 1})
        reply["fitres.metrics"] = fl.ConfigRecord({})
        reply["fitres.status"] = fl.ConfigRecord({"code": 0, "message": ""})
        return fl.Message(reply, reply_to=message)

    sent = mod(request, fl.Context(0, 0, {}, fl.RecordDict(), {}), train)
    (arrays,) = sent.content.array_records.values()
    return arrays.to_numpy_ndarrays()[0]


@pytest.mark.parametrize("name", of_engine("flower"))
def test_flower(name: str, tmp_path: pathlib.Path) -> None:
    fl = pytest.importorskip("flwr.app")
    from flwr.clientapp import mod as mods
    from flwr.serverapp import strategy
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    case = CASES[name]
    names = made(case, **vars(strategy))
    if "mod" in names:
        assert isinstance(names["mod"], mods.LocalDpMod)
        noise = local_noise(names["mod"])
    else:
        zeros = fl.ArrayRecord({"0": fl.Array(np.zeros(SIZE, np.float32))})
        noise = names["s"]._add_noise_to_aggregated_arrays(zeros)
        noise = noise.to_numpy_ndarrays()[0]
    compared(name, float(np.std(noise)), tmp_path)


@pytest.mark.parametrize("name", of_engine("flare", "percentile"))
def test_flare(
    name: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """FLIP's filter is its own; its formula is that of Flower's LocalDpMod."""
    case = CASES[name]
    args = json.loads(case.text)["task_result_filters"][0]["filters"][0]["args"]
    if FLIP.partition(",")[0].lstrip("{") in case.text:
        pytest.importorskip("flwr")
        from flwr.clientapp.mod import LocalDpMod

        told = {"clipping_norm": 1.0, "sensitivity": 1e-4, "epsilon": 10, "delta": 1e-5}
        noise = local_noise(LocalDpMod(**told | args))
        compared(name, float(np.std(noise)), tmp_path)
        return
    pytest.importorskip("nvflare")
    from nvflare.apis.dxo import DXO, DataKind
    from nvflare.apis.fl_context import FLContext
    from nvflare.apis.shareable import Shareable
    from nvflare.app_common.filters.svt_privacy import SVTPrivacy

    laplace, drawn = np.random.laplace, []

    def drawing(*given: Any, **named: Any) -> Any:
        drawn.append(laplace(*given, **named))
        return drawn[-1]

    monkeypatch.setattr(np.random, "laplace", drawing)
    values = np.zeros((case.facts or {})["parameters"], np.float32)
    dxo = DXO(DataKind.WEIGHT_DIFF, {"0": values})
    SVTPrivacy(**args).process_dxo(dxo, Shareable(), FLContext())
    scale = np.mean(np.abs(drawn[-1]))  # of the answers, which are drawn last
    compared(name, float(scale), tmp_path, rel=0.15)


@pytest.mark.parametrize("name", of_engine("pfl"))
def test_pfl(name: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("pfl")
    from pfl.privacy import gaussian_mechanism, laplace_mechanism, privacy_accountant
    from pfl.privacy.privacy_mechanism import CentrallyAppliedPrivacyMechanism
    from pfl.stats import MappedVectorStatistics

    case = CASES[name]
    known = vars(privacy_accountant) | vars(gaussian_mechanism)
    mechanism = made(
        case,
        **known | vars(laplace_mechanism),
        CentrallyAppliedPrivacyMechanism=CentrallyAppliedPrivacyMechanism,
    )["m"]
    inner = getattr(mechanism, "underlying_mechanism", mechanism)
    zeros = MappedVectorStatistics({"0": np.zeros(SIZE, np.float32)}, weight=1.0)
    noised, _ = inner.add_noise(statistics=zeros, cohort_size=1, seed=3)
    spread = np.std(noised["0"]) / (2**0.5 if "Laplace" in case.text else 1)
    compared(name, float(spread), tmp_path)


@pytest.mark.parametrize("name", of_engine("opacus"))
def test_opacus(name: str, opacus: dict[str, float], tmp_path: pathlib.Path) -> None:
    compared(name, opacus[name], tmp_path)


@pytest.fixture(scope="module")
def opacus() -> dict[str, float]:
    """What it draws in its own environment, which has no JAX."""
    python = ROOT / ".venv-references" / "bin" / "python"
    assert python.exists(), "make test-deploy builds the place of Opacus"
    ended = subprocess.run(
        [python, ROOT / "tests" / "references" / "noise_of_opacus.py"],
        input=json.dumps({name: CASES[name].text for name in of_engine("opacus")}),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(ended.stdout.splitlines()[-1]))
