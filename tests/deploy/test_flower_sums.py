"""Flower's SecAgg+ around sites: in the environment of test-deploy."""

import dataclasses
import logging
import pathlib
from typing import Any

import jax
import numpy as np
import pytest
from commands import command
from deployed import (
    ROWS,
    SUMS,
    UPDATE_CLIP,
    example,
    model,
    opened,
    policy,
    simulated_share,
)
from small_runs import digits, small

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.common import bytes_to_ndarray
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from flwr.server.client_manager import SimpleClientManager
from sum_sites import CLIENTS, PHASES, Sites, moved

from fedsvp_jax import federation
from fedsvp_jax.accounting import SpendingPlan, claims
from fedsvp_jax.accounting.claims import adversary
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.core.files import read_json
from fedsvp_jax.deploy import (
    Client,
    Refused,
    Seeded,
    Site,
    Trained,
    answer,
    data_of,
    flower_tables,
    make_policy,
    tables,
)
from fedsvp_jax.deploy.flower_sums import (
    _WAITING,
    NoSumError,
    SumMod,
    SumStrategy,
    masks,
)
from fedsvp_jax.mechanisms.grid import average
from fedsvp_jax.run.trainer import Trainer


def assert_same(found: Any, wanted: Any) -> None:
    for got, leaf in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(got, leaf)


def of_the_simulator(
    made: Any, clients: list[int], received: list[np.ndarray], index: int = 0
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """(the sum of what these clients send in a simulated round, the next model)."""
    shares = []
    for client in clients:
        told = made, received, moved(client, received), Seeded(7, client)
        share, std = simulated_share(*told, round_num=index + 1)
        shares.append(share)
    total = [sum(leaves) for leaves in zip(*shares, strict=True)]
    count = jax.numpy.int32(len(clients))
    step = average(total, made.mechanism.grid, std=std, count=count)
    after = [old + np.asarray(new) for old, new in zip(received, step, strict=True)]
    return opened(made, total), after


def test_the_servers_sums_and_models_are_the_simulators_to_the_bit(
    tmp_path: pathlib.Path,
) -> None:
    sites = Sites(tmp_path)
    found = sites.run(rounds=2)
    received = model()
    for index in range(2):
        wanted, received = of_the_simulator(
            sites.policy, list(range(CLIENTS)), received, index
        )
    assert_same(found.last_sum, wanted)
    assert_same(found.arrays, received)
    for mod in sites.mods.values():
        claim = claims.row(mod.site.read().account(mod.site.policy), last=False)
        assert claim["adversary"] == adversary(mod.site.policy.account, "colluders")
        assert claim["epsilon_spent"]["rdp"] == pytest.approx(
            SpendingPlan(sites.policy.account).promised(2), rel=1e-5
        )


@pytest.mark.hole
def test_a_site_says_what_each_round_cost(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The node printed nothing for sixty rounds."""
    sites = Sites(tmp_path)
    sites.run(rounds=2)
    spent = SpendingPlan(sites.policy.account).promised(2)
    line = f"round 2 of {sites.policy.config.num_rounds} is charged: ε = {spent:.4g} of"
    assert caplog.text.count(line) == CLIENTS


@pytest.mark.hole
def test_a_finished_federation_names_its_model(
    tmp_path: pathlib.Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Started again it ran 0 rounds, without a word; and `flwr run` ends with 0 even
    where rounds opened no sum, so that no pipeline could tell.
    """
    example("flower_sums/deal.py").deal(tmp_path, 3)
    folder = tmp_path / "federation"
    words = ("experiments.site", "propose", str(folder), "--num_clients=3")
    counts = ("--num_examples=450", "--max_num_examples=160", "--total_epsilon=3")
    schema = f"--schema={tmp_path / 'schema.toml'}"
    assert command(*words, schema, *counts, "--num_rounds=2").status == 0
    (folder / "rounds").mkdir()
    first = tables.server_client(folder)
    server = SumStrategy(first.policy, first.initial_arrays, folder / "rounds")
    settings = {"folder": str(folder), "rounds": 2, "round-timeout": 1.0}
    context = Context(0, 0, {}, RecordDict(), settings)

    def halted(grid: Any, context: Any) -> None:
        raise NoSumError("round 1 opened no sum")

    server.last_round = 1
    server._keep(0, [])
    monkeypatch.setattr(flower_tables, "DefaultWorkflow", lambda fit_workflow: halted)
    with pytest.raises(NoSumError, match="round 1 opened no sum") as ended:
        flower_tables.server(None, context)  # type: ignore[arg-type]
    logging.error("ServerApp raised an exception", exc_info=ended.value)  # as Flower
    assert "NoSumError: round 1 opened no sum" in caplog.text
    assert "Traceback" not in caplog.text  # of forty lines
    status = read_json(folder / "status.json")
    assert status == {"planned": 2, "begun": 1, "opened": 0}
    for server.last_round in (1, 2):
        server._keep(3, [leaf.astype(np.int64) for leaf in first.initial_arrays])
    flower_tables.main(None, context)  # type: ignore[arg-type]
    status = read_json(folder / "status.json")
    assert status == {"planned": 2, "begun": 2, "opened": 2}
    file = folder / "model.safetensors"
    line = f"finished: 2 of 2 rounds, of which 2 opened a sum; the model is {file}"
    assert line in caplog.text and file.is_file()


@pytest.mark.hole
def test_a_server_names_the_sites_that_it_waits_for(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It waited without a word, for a day."""
    made, numbers = policy(**SUMS), iter([1, 1, *[3] * 99, 4])
    manager = SimpleClientManager()
    monkeypatch.setattr(manager, "num_available", lambda: next(numbers, 4))
    monkeypatch.setattr(
        manager, "sample", lambda num_clients, **_: [None] * num_clients
    )
    monkeypatch.setattr("time.sleep", lambda _: None)
    sampled = SumStrategy(made, model()).configure_fit(1, None, manager)
    assert len(sampled) == 4
    assert [record.message for record in caplog.records] == [
        "waiting for sites: 1 of 5 (at least 4)",
        "waiting for sites: 3 of 5 (at least 4)",
        _WAITING,
        "round 1 of 5 by the sites' logs (by Flower's, 1 since its last start)",
    ]


@pytest.mark.hole
def test_a_server_begins_no_round_after_one_that_opened_no_sum(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    tmp_path: pathlib.Path,
) -> None:
    """It went on, and a user's hospitals spent ε = 8 of 8 for an untrained model; and
    the round behind it had the number 1 at the server, and 2 at the sites. Later it
    waited, before it said so, for the nodes that had left, and then by a traceback.
    """
    manager = SimpleClientManager()
    numbers = iter([4, 4, 4])  # and of the nodes that are waited for none comes
    monkeypatch.setattr(manager, "num_available", lambda: next(numbers))
    monkeypatch.setattr(
        manager, "sample", lambda num_clients, **_: [None] * num_clients
    )
    server = SumStrategy(policy(**SUMS), model(), tmp_path)
    server.configure_fit(1, None, manager)
    numbers = iter([])
    with pytest.raises(NoSumError, match="round 1 opened no sum"):
        server.configure_fit(2, None, manager)
    numbers = iter([4, 4, 4])
    again = SumStrategy(policy(**SUMS), model(), tmp_path)  # the same `flwr run`
    again.configure_fit(1, None, manager)
    assert again.last_round == 2
    lines = [line for line in caplog.messages if line.startswith("round ")]
    assert lines[-1].startswith("round 2 of 5 by the sites' logs (by Flower's, 1 since")


STEPS = {
    "learning_rate": 0.5,
    "learning_rate_schedule": "cosine",
    "server_momentum": 0.5,
    "paired_noise": True,  # as `Seeded` draws
}


def row_clients(folder: pathlib.Path) -> tuple[ExperimentConfig, list[Client]]:
    """Clients of a simulated federation, whose upload is a gradient."""
    config = small(**SUMS | ROWS | STEPS | {"batch_size": 1000, "num_hbc_clients": 0})
    data = federation.build([config], digits()).data
    config = dataclasses.replace(config, batch_size=data.split.train.shape[-1])
    made = make_policy(
        config,
        min_num_examples=data.min_num_examples,
        max_num_examples=data.max_num_examples,
    )
    clients = [
        Client(made, data_of(data, k), folder / str(k), randomness=Seeded(0, k))
        for k in range(CLIENTS)
    ]
    return config, clients


@pytest.mark.hole
def test_sums_of_clipped_gradients_end_with_the_simulators_model(
    tmp_path: pathlib.Path,
) -> None:
    """No site could take DP-SGD: it hid whole hospitals, or nothing."""
    config, clients = row_clients(tmp_path)
    found = Sites(tmp_path, clients=clients).run(rounds=config.num_rounds)
    trainer = Trainer(federation.build([config], digits()))
    state = trainer.initial_state()
    for index in range(config.num_rounds):
        state, _ = trainer.advance(state, index, 1)
    for got, leaf in zip(found.arrays, jax.tree.leaves(state.params), strict=True):
        np.testing.assert_allclose(got, leaf[0], rtol=2e-6, atol=2e-6)
    account = clients[0].site.read().account(clients[0].policy)
    assert "leave one record" in account.mechanism.basis.relation
    assert account.proved is False  # seeded
    spent = claims.row(account, last=False)["epsilon_spent"]["rdp"]
    promised = SpendingPlan(clients[0].policy.account).promised(config.num_rounds)
    assert spent == pytest.approx(promised, rel=1e-5)


@pytest.mark.hole
def test_a_training_that_clips_no_rows_is_a_gradient_of_zero(
    tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing would bound what one of its rows does to the sum."""
    made = policy(**SUMS | ROWS)
    site = Site(tmp_path / "log", made, randomness=Seeded(7, 0))
    site.begin(30)
    mine = moved(0, model())
    share, _ = answer(site, model(), lambda: Trained(mine), round_num=1)
    zeros = [np.zeros_like(leaf) for leaf in model()]
    wanted, _ = simulated_share(made, zeros, zeros, Seeded(7, 0))
    assert_same(share, opened(made, wanted))
    assert "takes the training of deploy.Client" in caplog.text


@pytest.mark.parametrize("phase", PHASES)
def test_of_a_client_that_dies_in_a_phase_the_others_sum_is_the_simulators(
    phase: str, tmp_path: pathlib.Path
) -> None:
    sites = Sites(tmp_path, dies=phase)
    found = sites.run()
    (dead,) = sites.dead
    counted = list(range(CLIENTS))
    if phase != "unmask":  # its masked vector was there by then
        counted.remove(dead - 1)
    wanted, after = of_the_simulator(sites.policy, counted, model())
    assert_same(found.last_sum, wanted)
    assert_same(found.arrays, after)


@pytest.mark.parametrize("phase", PHASES)
def test_no_sum_is_opened_with_fewer_clients_than_the_claim_needs(
    phase: str, tmp_path: pathlib.Path
) -> None:
    """Two drop out and one is curious: more than h = 2."""
    sites = Sites(tmp_path, dies=phase, how_many=2)
    assert sites.run().num_sums == 0
    charged = [mod.site.read().last_round for mod in sites.mods.values()]
    assert sum(charged) == {"setup": 0, "share_keys": 0, "unmask": 5}.get(phase, 3)


@pytest.mark.hole
def test_a_round_goes_on_without_a_site_that_is_away(tmp_path: pathlib.Path) -> None:
    """The server waited for all K; a site refused a setup of fewer."""
    sites = Sites(tmp_path, away=1)
    found = sites.run()
    wanted, after = of_the_simulator(sites.policy, [1, 2, 3, 4], model())
    assert_same(found.last_sum, wanted)
    assert_same(found.arrays, after)


@pytest.mark.hole
def test_a_site_that_is_away_counts_as_one_that_dropped_out(
    tmp_path: pathlib.Path,
) -> None:
    """One is away, one dies and one is curious: more than h = 2."""
    sites = Sites(tmp_path, away=1, dies="collect_masked_vectors")
    assert sites.run().num_sums == 0


@pytest.mark.hole
@pytest.mark.parametrize("changes", [{"learning_rate": 0.7}, {"l2_norm_clip": 3.0}])
def test_a_site_of_other_settings_than_the_servers_refuses_before_it_is_charged(
    changes: dict[str, Any], tmp_path: pathlib.Path
) -> None:
    """Its upload was added up, in another unit or at another learning rate."""
    sites = Sites(tmp_path)
    other = policy(**SUMS | changes)
    assert other.agreement != sites.policy.agreement
    assert sites.run(told=other).num_sums == 0
    assert all(mod.site.read().last_round == 0 for mod in sites.mods.values())
    reasons = {reply.error.reason for reply in sites.sent if reply.has_error()}
    assert any("has other settings" in reason for reason in reasons), reasons


@pytest.mark.hole
def test_agreements_are_compared_before_any_site_is_charged(
    tmp_path: pathlib.Path,
) -> None:
    """Two sites of other settings refused in the third message: the rest had paid."""
    sites, other = Sites(tmp_path), policy(**SUMS | {"learning_rate": 0.7})
    for node in (1, 2):
        site = Site(tmp_path / f"other-{node}", other, randomness=Seeded(7, node))
        site.begin(30)
        sites.mods[node] = SumMod(site, lambda received, _: Trained(received))
    assert sites.run().num_sums == 0
    assert [mod.site.read().last_round for mod in sites.mods.values()] == [0] * CLIENTS


@pytest.mark.hole
def test_a_server_that_was_killed_goes_on_with_the_next_round(
    tmp_path: pathlib.Path,
) -> None:
    """It began again with round 1, which every site had answered."""
    kept = tmp_path / "rounds"
    kept.mkdir()
    config, clients = row_clients(tmp_path / "a")
    whole = Sites(tmp_path, clients=clients).run(rounds=config.num_rounds)
    _, clients = row_clients(tmp_path / "b")
    sites = Sites(tmp_path, clients=clients)
    sites.run(kept=kept)
    again = sites.run(rounds=config.num_rounds - 1, kept=kept)
    assert again.last_round == config.num_rounds
    assert_same(again.arrays, whole.arrays)  # with the server's momentum
    assert_same(again.last_sum, whole.last_sum)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("phase", "charged"),
    [("setup", 0), ("share_keys", 0), ("collect_masked_vectors", 3), ("unmask", 5)],
)
def test_a_failed_round_is_charged_where_a_site_had_answered_and_never_made_up(
    phase: str, charged: int, tmp_path: pathlib.Path
) -> None:
    """docs/deploy.md says so: two of five leave in a phase, which is one too many."""
    sites = Sites(tmp_path, dies=phase, how_many=2)
    assert sites.run(kept=tmp_path).num_sums == 0
    rounds = [mod.site.read().last_round for mod in sites.mods.values()]
    assert sum(rounds) == charged and max(rounds) <= 1
    sites.dies, sites.dead = "", set()
    planned = sites.policy.config.num_rounds
    again = sites.run(rounds=planned - 1, kept=tmp_path)
    assert (again.last_round, again.num_sums) == (planned, planned - 1)
    with pytest.raises(Refused, match="is not one of the 5 rounds"):
        answer(
            sites.mods[1].site, model(), lambda: Trained(model()), round_num=planned + 1
        )


@pytest.mark.hole
def test_a_round_without_a_sum_is_not_asked_again(tmp_path: pathlib.Path) -> None:
    """The sites have charged it."""
    sites = Sites(tmp_path, dies="collect_masked_vectors", how_many=2)
    sites.run(kept=tmp_path)
    sites.dies, sites.dead = "", set()
    again = sites.run(kept=tmp_path)
    assert again.last_round == 2 and again.num_sums == 1


def test_what_leaves_is_masked(tmp_path: pathlib.Path) -> None:
    """A masked vector is uniform in 2^32, and its weight and examples are 1."""
    sites = Sites(tmp_path)
    sites.run()
    vectors = [
        reply.content.config_records["secaggplus_configs"]["masked_params"]
        for reply in sites.sent
        if "masked_params" in reply.content.config_records["secaggplus_configs"]
    ]
    assert len(vectors) == CLIENTS
    numbers = np.concatenate(
        [bytes_to_ndarray(leaf).ravel() for vector in vectors for leaf in vector]
    )
    assert numbers.min() >= 0 and numbers.max() > 2**31
    assert abs(np.mean(numbers) / 2**31 - 1) < 0.2
    for reply in sites.sent:
        assert not any(record for record in reply.content.array_records.values())


def asked(sites: Sites, stage: str, **changes: Any) -> str:
    """Why a site refuses a request, a plain one without a stage; "" if it does not."""
    wanted, content = sites.policy.protocol, RecordDict()
    named = {"stage": stage, "sample_num": CLIENTS, "share_num": CLIENTS}
    named |= {"threshold": 4, "max_weight": wanted["max_weight"]}
    named |= {"clipping_range": wanted["clipping_range"]}
    named |= {"target_range": wanted["quantization_range"]}
    named |= {"mod_range": wanted["modulus_range"]}
    named |= {"agreement": sites.policy.agreement}
    if stage:
        content["secaggplus_configs"] = ConfigRecord(named | changes)
    message = Message(content, dst_node_id=1, message_type="train")
    message.metadata.__dict__["_message_id"] = "1"
    reply = sites.mods[1](message, sites.contexts[1], None)
    return reply.error.reason if reply.has_error() else ""


def test_a_server_that_asks_for_more_is_refused(tmp_path: pathlib.Path) -> None:
    sites = Sites(tmp_path)
    for name, value in (
        ("threshold", 2),
        ("sample_num", 2),
        ("sample_num", 6),
        ("share_num", 3),
        ("clipping_range", 8.0),
        ("mod_range", 2**30),
        ("max_weight", 1000.0),
    ):
        assert name in asked(sites, "setup", **{name: value})
    assert asked(sites, "setup") == ""
    assert "other settings" in asked(sites, "setup", agreement="0")
    both = {"active_nids": [1, 2, 3, 4], "dead_nids": [1]}
    assert "not both" in asked(sites, "unmask", **both)
    strange = {"active_nids": [1, 2, 3, 9], "dead_nids": []}
    assert "shared no keys" in asked(sites, "unmask", **strange)
    few = {"ctxts": [b"", b""], "srcs": [1, 2]}
    assert "fewer than 4" in asked(sites, "collect_masked_vectors", **few)
    assert "within secure aggregation alone" in asked(sites, "")
    assert all(mod.site.read().last_round == 0 for mod in sites.mods.values())


def test_masks_read_the_whole_key() -> None:
    """Flower's own fold it by XOR into 32 bits: these two keys have one mask there."""
    keys = [bytes([7] * 4 + [0] * 28), bytes([0] * 28 + [7] * 4)]
    folded = [pseudo_rand_gen(key, 2**32, [(1000,)])[0] for key in keys]
    assert np.array_equal(*folded)
    first, second = (masks(key, 2**32, [(1000,), ()])[0] for key in keys)
    assert not np.any(first == second)
    assert np.array_equal(first, masks(keys[0], 2**32, [(1000,), ()])[0])
    with pytest.raises(ValueError, match="must be 2\\^32"):
        masks(keys[0], 2**31, [(1,)])


def test_other_adapters_do_not_send_a_share_unmasked() -> None:
    with pytest.raises(ValueError, match=r"take deploy\.flower_sums\.SumMod"):
        policy(**SUMS).check_takes_updates()
    with pytest.raises(ValueError, match="must be secure_aggregation"):
        _ = policy(**UPDATE_CLIP).protocol
