"""What each engine draws and solves for, beside what `fedsvp check` says of it."""

import json
import pathlib
import sys
from typing import Any

import numpy as np
import pytest
from others_settings import CASES, FLIP, PROGRAMS, Case

from fedsvp_jax import check

pytestmark = pytest.mark.slow
ROOT = pathlib.Path(__file__).parents[2]
SIZE = 20_000  # numbers: their std is known to 0.5 %


def of_engine(engine: str) -> list[str]:
    return [name for name, case in PROGRAMS.items() if case.engine == engine]


def compared(
    case: Case, drawn: float, noises: list[check.noise.Noise], rel: float = 0.03
) -> None:
    """The std, or scale, that an engine drew, with what the checker says of it."""
    (noise,) = noises
    assert drawn == pytest.approx(noise.std, rel=rel)
    assert noise.std == pytest.approx(case.std, rel=1e-3)
    assert noise.multiplier == pytest.approx(case.multiplier, rel=1e-3)


def made(case: Case, **known: Any) -> dict[str, Any]:
    """The names of a Python file, which is run here, with the engine's own classes."""
    names = dict(known)
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
def test_flower(name: str) -> None:
    fl = pytest.importorskip("flwr.app")
    from flwr.clientapp import mod as mods
    from flwr.serverapp import strategy
    from flwr.supercore.task_identity import TaskIdentity

    TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
    case = PROGRAMS[name]
    from flwr.clientapp import ClientApp

    clip = mods.fixedclipping_mod
    known = vars(strategy) | {"ClientApp": ClientApp, "fixedclipping_mod": clip}
    names = made(case, **known)
    weight = (case.facts or {}).get("largest_weight")
    server = names.get("s")
    live = check.flower.live(server, names["app"]._mods, largest_weight=weight)
    if "mod" in names:
        assert isinstance(names["mod"], mods.LocalDpMod)
        noise = local_noise(names["mod"])
    else:
        zeros = fl.ArrayRecord({"0": fl.Array(np.zeros(SIZE, np.float32))})
        noise = names["s"]._add_noise_to_aggregated_arrays(zeros)
        noise = noise.to_numpy_ndarrays()[0]
    compared(case, float(np.std(noise)), live)


def test_flowers_adaptive_clipping_is_not_understood() -> None:
    """Flower computes the noise from the clip that it has just lowered."""
    pytest.importorskip("flwr")
    from flwr.serverapp import strategy

    adaptive = strategy.DifferentialPrivacyServerSideAdaptiveClipping
    server = adaptive(strategy.FedAvg(), 1.0, 40, clipped_count_stddev=2.0)
    (noise,) = check.flower.live(server, largest_weight=1 / 40)
    assert noise.std == 0 and "AdaptiveClipping is no class" in noise.flaws[0]


@pytest.mark.hole
def test_what_flowers_own_accountant_says_of_adding_or_removing_does_not_follow() -> (
    None
):
    """It counts C/n; the average of n - 1 answers is 2C/n away."""
    pytest.importorskip("flwr")
    from flwr.serverapp import strategy
    from flwr.supercore import privacy_accounting as own
    from flwr.supercore.privacy_accounting.rdp_accountant import RdpAccountant

    relation = own.NeighboringRelation.ADD_OR_REMOVE_ONE
    whole = own.SamplingMethod.NO_AMPLIFICATION
    accountant = RdpAccountant(own.PrivacyConfig(1e-5, 10, relation, whole))
    accountant.compose(own.GaussianPrivacyEvent(1.0, 10, 10), 3)
    fixed = strategy.DifferentialPrivacyServerSideFixedClipping
    server = fixed(strategy.FedAvg(), 1.0, 1.0, 10, accountant=accountant)
    (noise,) = check.flower.live(server)
    assert noise.stated is not None and noise.rounds == 3 and not noise.flaws
    zero = check.noise.epsilon(noise, "zero_out", 1e-5, 3)
    assert zero <= noise.stated.epsilon <= 1.1 * zero
    verdict = check.verdict(noise, noise.stated, noise.rounds)
    assert not verdict.reached and verdict.epsilon > 2 * noise.stated.epsilon


@pytest.mark.hole
def test_flowers_average_of_two_with_the_noise_of_a_hundred_may_be_one() -> None:
    """ε = 0.769 over ten rounds, proved: one of two moves the average by 1, σ is .3."""
    pytest.importorskip("flwr")
    from flwr.serverapp import strategy

    fixed = strategy.DifferentialPrivacyServerSideFixedClipping
    for fewest, reached in ((2, False), (100, True)):
        average = strategy.FedAvg(
            fraction_train=0.01, min_train_nodes=fewest, min_available_nodes=2
        )
        (noise,) = check.flower.live(
            fixed(average, 30.0, 1.0, 100), largest_weight=0.01
        )
        verdict = check.verdict(noise, check.Stated(1.0, 1e-5, "run"), 10)
        assert verdict.reached == reached == (verdict.epsilon < 1)


def test_a_mod_that_inherits_from_flowers_is_not_understood() -> None:
    mods = pytest.importorskip("flwr.clientapp.mod")
    mine = type("LocalDpMod", (mods.LocalDpMod,), {"__call__": lambda *_: None})
    (noise,) = check.flower.live(mods=[mine(1.0, 1.0, 1.0, 1e-5)])
    assert noise.std == 0 and "LocalDpMod is no class" in noise.flaws[0]


@pytest.mark.parametrize(
    "name",
    [name for name, case in CASES.items() if case.engine == "flare" and case.std],
)
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
        file = tmp_path / case.name
        file.write_text(case.text)
        noises = check.flare.read(file)
        compared(case, float(np.std(noise)), noises)
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
    svt, size = SVTPrivacy(**args), values.size
    svt.process_dxo(dxo, Shareable(), FLContext())
    scale = np.mean(np.abs(drawn[-1]))  # of the answers, which are drawn last
    file = tmp_path / case.name
    file.write_text(case.text)
    noises = check.flare.read(file, parameters=size)
    compared(case, float(scale), noises, rel=0.15)


@pytest.fixture(scope="module")
def opacus() -> Any:
    """Opacus, from the environment of the references, which comes last."""
    places = ROOT.glob(".venv-references/lib/*/site-packages")
    sys.path += [str(place) for place in places]
    return pytest.importorskip(
        "opacus", reason="Opacus is not installed here: make test-deploy installs it"
    )


def private(
    opacus: Any, call: str = "make_private", accountant: str = "prv", **settings: Any
) -> Any:
    """An engine, a small model, its optimizer and its loader of ten batches."""
    import torch

    torch.manual_seed(0)
    data = torch.utils.data.TensorDataset(torch.randn(300, 4), torch.zeros(300).long())
    model = torch.nn.Linear(4, 2)
    engine = opacus.PrivacyEngine(accountant=accountant)
    return engine, *getattr(engine, call)(
        module=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        data_loader=torch.utils.data.DataLoader(data, batch_size=30),
        max_grad_norm=1.0,
        **settings,
    )


def train(made: Any, *, batches: int = 1, later: Any = None) -> list[check.noise.Noise]:
    """Trains for two epochs, with a step for so many batches; what was done."""
    import torch

    engine, model, optimizer, loader = made
    if batches > 1:
        model.allow_grad_accumulation()
    for epoch in range(2):
        for number, (x, y) in enumerate(loader, 1):
            torch.nn.functional.cross_entropy(model(x), y).backward()
            if number % batches == 0:
                optimizer.step()
                optimizer.zero_grad()
        if later is not None and epoch == 0:
            later(optimizer)
    return check.opacus.live(optimizer, loader, accountant=engine.accountant)


@pytest.mark.parametrize("name", of_engine("opacus"))
@pytest.mark.filterwarnings("ignore")
def test_opacus(name: str, opacus: Any) -> None:
    import torch

    torch.manual_seed(0)
    case, model = PROGRAMS[name], torch.nn.Linear(SIZE, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loaders = torch.utils.data
    text = case.text.replace("module=m,", "module=m, optimizer=optimizer,")
    names = made(
        case._replace(text=text),
        DataLoader=loaders.DataLoader,
        PrivacyEngine=opacus.PrivacyEngine,
        m=model,
        optimizer=optimizer,
    )
    data = loaders.TensorDataset(torch.zeros(1000, 1), torch.zeros(1000, 1))
    _, optimizer, loader = names["train"](data)
    for leaf in optimizer.params:
        leaf.summed_grad = torch.zeros_like(leaf)
    optimizer.add_noise()
    live = check.opacus.live(optimizer, loader, epochs=2)
    compared(case, float(optimizer.params[0].grad.std()), live)


@pytest.mark.hole
@pytest.mark.parametrize("accountant", ["prv", "rdp", "gdp"])
@pytest.mark.filterwarnings("ignore")
def test_what_opacus_solves_for_is_asked_of_its_optimizer(
    accountant: str, opacus: Any
) -> None:
    """Our own solution was confirmed by our own formula; gdp's ε does not follow."""
    from opacus.accountants.utils import get_noise_multiplier

    target = {"target_epsilon": 8.0, "target_delta": 1e-6}
    made = private(opacus, "make_private_with_epsilon", accountant, epochs=2, **target)
    own = get_noise_multiplier(
        **target, sample_rate=1 / 10, epochs=2, accountant=accountant
    )
    (planned,) = check.opacus.live(made[2], made[3], epochs=2)
    (done,) = train(made)
    assert planned.multiplier == done.multiplier == own
    assert planned.steps == done.steps == 20 and planned.flaws and not done.flaws
    spent = check.Stated(made[0].get_epsilon(1e-6), 1e-6, "run")
    verdict = check.verdict(done, spent, 1)
    assert verdict.reached == (accountant != "gdp")
    assert check.claims(done, 1e-6, None)[0].proved


@pytest.mark.hole
@pytest.mark.filterwarnings("ignore")
def test_what_changes_opacus_noise_stands_in_its_history(opacus: Any) -> None:
    """Schedules, later assignments and accumulated batches were not seen."""
    from opacus.schedulers import ExponentialNoise

    (plain,) = train(private(opacus, noise_multiplier=1.0))

    def schedule(optimizer: Any) -> None:
        ExponentialNoise(optimizer, gamma=0.5).step()

    def assign(optimizer: Any) -> None:
        optimizer.noise_multiplier = 0.5

    for later in (schedule, assign):
        made = private(opacus, noise_multiplier=1.0)
        (changed,) = train(made, later=later)
        assert (changed.multiplier, changed.steps) == (0.5, 20)
        own = made[0].get_epsilon(1e-6)
        assert check.noise.epsilon(plain, "zero_out", 1e-6) < own
        assert own < check.noise.epsilon(changed, "zero_out", 1e-6)
    (several,) = train(private(opacus, noise_multiplier=1.0), batches=5)
    assert check.noise.epsilon(several, "zero_out", 1e-6) == float("inf")
    other = private(opacus, noise_multiplier=1.0)
    (mixed,) = check.opacus.live(other[2], other[3], accountant=made[0].accountant)
    assert "steps are not each" in mixed.flaws[0]
