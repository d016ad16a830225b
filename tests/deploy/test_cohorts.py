"""A coordinator that chooses who takes part in a round, and what it learns by it."""

import itertools
import math
import pathlib
from typing import Any

import numpy as np
import pytest
from deployed import SUMS, entries_of, policy

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Message, RecordDict
from flwr.common import bytes_to_ndarray
from flwr.common.secure_aggregation.crypto.shamir import combine_shares
from flwr.common.secure_aggregation.crypto.symmetric_encryption import (
    generate_shared_key,
)
from flwr.common.secure_aggregation.quantization import dequantize
from flwr.supercore.primitives.asymmetric import (
    bytes_to_private_key,
    bytes_to_public_key,
)
from sum_sites import CLIENTS, Sites

from fedsvp_jax.deploy import SECRET, Trained, answer, flower_sums
from fedsvp_jax.deploy.flower_sums import masks

RECORD, STATE = "secaggplus_configs", "secaggplus_state"
COLLUDERS, SIZE = 2, 40_000


def wide(sites: Sites) -> list[np.ndarray]:
    """Sites of so many numbers, whose updates are 0 and whose noise is secret."""
    sites.initial = [np.zeros(SIZE, np.float32)]
    for mod in sites.mods.values():
        mod.site.randomness = SECRET
        mod._train = lambda received, _: Trained(received)
    return sites.initial


def promised_std(sites: Sites) -> float:
    """z·C in steps: of the z that the ledger counts, behind which an update of length C
    is hidden.
    """
    found = {
        record.body["noise_multiplier"] / record.body["grid_step"]
        for mod in sites.mods.values()
        for record in entries_of(mod.site)
        if record.kind == "upload"
    }
    (multiplier,) = found
    return float(multiplier * sites.policy.config.l2_norm_clip)


def uploads(
    sites: Sites, monkeypatch: pytest.MonkeyPatch
) -> dict[tuple[int, int], Any]:
    """What each site adds to the sum, by round and site: a colluder knows its own."""
    noted: dict[tuple[int, int], Any] = {}

    def note(site: Any, *told: Any, **named: Any) -> Any:
        numbers, record = answer(site, *told, **named)
        noted[named["round_num"], int(site.path.name)] = numbers[0]
        return numbers, record

    monkeypatch.setattr(flower_sums, "answer", note)
    return noted


@pytest.mark.parametrize(
    ("away", "dies", "colluders"),
    [
        (0, "", 2),
        (1, "", 1),
        (0, "share_keys", 1),
        (0, "collect_masked_vectors", 1),
        (0, "unmask", 2),
    ],
)
def test_the_noise_that_colluders_do_not_know_is_no_less_than_the_ledgers(
    away: int,
    dies: str,
    colluders: int,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of every cohort from K - h + 1 to K; no draw had been measured.

    Colluders take off what they added; all that are left out and all colluders together
    are h.
    """
    sites = Sites(tmp_path, dies=dies, away=away)
    wide(sites)
    noted = uploads(sites, monkeypatch)
    found = sites.run()
    dead = {node - 1 for node in sites.dead} if dies != "unmask" else set()
    counted = sorted(site for _, site in noted if site not in dead)
    total = found.last_sum[0]
    np.testing.assert_array_equal(total, sum(noted[1, site] for site in counted))
    limit = promised_std(sites)
    for known in itertools.combinations(counted, colluders):
        rest = total - sum(noted[1, site] for site in known)
        others = len(counted) - colluders
        share = math.sqrt(others / (CLIENTS - COLLUDERS))
        assert share >= 1
        # 5 standard deviations of a std of so many draws
        assert abs(np.std(rest) / (limit * share) - 1) < 5 / math.sqrt(2 * SIZE)


def test_two_sums_with_and_without_a_site_hide_it_behind_both_noises(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same model is sent in two rounds; one site is there in the first alone."""
    sites = Sites(tmp_path)
    wide(sites)
    mark = np.float32(0.25)  # the update of the site that is left out then, in length
    target = sites.mods[1]
    target._train = lambda received, _: Trained([received[0] + mark / math.sqrt(SIZE)])
    noted = uploads(sites, monkeypatch)
    first = sites.run()
    del sites.mods[1]
    second = sites.run(kept=None, rounds=1, begins=2)
    gap = first.last_sum[0] - second.last_sum[0]
    alone = sum(noted[1, site] for site in range(1, CLIENTS))
    others = sum(noted[2, site] for site in range(1, CLIENTS))
    np.testing.assert_array_equal(gap, noted[1, 0] + alone - others)
    limit = promised_std(sites)
    # 5 shares of the first sum and 4 of the second, of 3 that a promise counts
    expected = limit * math.sqrt((CLIENTS + CLIENTS - 1) / (CLIENTS - COLLUDERS))
    step = entries_of(target.site)[-1].body["grid_step"]
    centred = gap - mark / math.sqrt(SIZE) / step
    assert abs(np.std(centred) / expected - 1) < 5 / math.sqrt(2 * SIZE)
    assert (
        target.site.read().last_round == 1
    )  # and what it did not answer costs nothing


def request(sites: Sites, node: int, stage: str, **fields: Any) -> Message:
    """What a node answers to a server that says what it likes."""
    content = RecordDict({RECORD: ConfigRecord({"stage": stage} | fields)})
    message = Message(content, dst_node_id=node, message_type="train")
    message.metadata.__dict__["_message_id"] = "again"
    return sites.mods[node](message, sites.contexts[node], None)


def test_a_site_opens_one_sum_of_a_round(tmp_path: pathlib.Path) -> None:
    """Asked again with another list of the dead, it would hand out both secrets."""
    sites = Sites(tmp_path)
    sites.run()
    others = [2, 3, 4, 5]
    for node in (1, 2):
        reply = request(sites, node, "unmask", active_nids=others, dead_nids=[1])
        assert reply.has_error()
    assert sites.run(begins=1).num_sums == 0  # the same round again, with new keys
    assert {mod.site.read().last_round for mod in sites.mods.values()} == {1}


def test_the_same_round_is_answered_once_in_whatever_cohort(
    tmp_path: pathlib.Path,
) -> None:
    """One cohort after another: 1 to 4, then 2 to 5, of which three have answered."""
    sites = Sites(tmp_path)
    last = sites.mods.pop(5)
    assert sites.run().num_sums == 1
    sites.mods[5] = last
    gone = sites.mods.pop(1)
    assert sites.run(begins=1).num_sums == 0
    sites.mods[1] = gone
    spent = [mod.site.read().last_round for mod in sites.mods.values()]
    assert spent == [1] * CLIENTS  # the fifth too: it had sent what nobody could open
    kept = tmp_path / "rounds"  # a server that begins anew, with sums of other rounds
    kept.mkdir()
    again = sites.run(kept=kept)
    assert again.num_sums == 0 and again.last_round == 1
    assert sites.run(kept=kept).num_sums == 1


@pytest.mark.hole
@pytest.mark.parametrize("colluders", [1, 2, 3, 4])
def test_shares_of_keys_that_colluders_pool_open_no_upload(
    colluders: int, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """h of 3 among 5 opened each upload: the threshold was K - h + 1 = 3 shares.

    All follow the protocol. The server has the masked vectors, and the colluders one
    share each of every other's two secrets.
    """
    sites = Sites(tmp_path, changes={"colluders": colluders})
    noted = uploads(sites, monkeypatch)
    received: dict[str, dict[int, Any]] = {"setup": {}, "collect_masked_vectors": {}}
    forward = sites.send_and_receive

    def listen(messages: Any, timeout: Any = None) -> list[Message]:
        messages = list(messages)
        stage = str(messages[0].content.config_records[RECORD]["stage"])
        replies = forward(messages, timeout)
        for reply in replies if stage in received else []:
            node = reply.metadata.src_node_id
            received[stage][node] = dict(reply.content.config_records[RECORD])
        return replies

    monkeypatch.setattr(sites, "send_and_receive", listen)
    assert sites.run().num_sums == 1
    target, pool = 1, range(2, 2 + colluders)
    states = [sites.contexts[node].state.config_records[STATE] for node in pool]

    def secret(name: str) -> bytes:
        shares = [
            dict(zip(s[f"{name}:K"], s[f"{name}:V"], strict=True))[target]
            for s in states
        ]
        return combine_shares(shares)

    vector = list(
        map(
            bytes_to_ndarray,
            received["collect_masked_vectors"][target]["masked_params"],
        )
    )
    shapes = [leaf.shape for leaf in vector]
    try:
        own, key = secret("rd_seed_share_dict"), secret("sk1_share_dict")
        private = bytes_to_private_key(key)
    except ValueError:
        return  # too few shares are no secret
    vector = [a - b for a, b in zip(vector, masks(own, 2**32, shapes), strict=True)]
    for node in range(2, CLIENTS + 1):
        public = bytes_to_public_key(received["setup"][node]["pk1"])
        pair = masks(generate_shared_key(private, public), 2**32, shapes)
        vector = [a + b for a, b in zip(vector, pair, strict=True)]
    steps = sites.policy.protocol["quantization_range"]
    opened = dequantize([leaf % 2**32 for leaf in vector[1:]], steps / 2, steps)
    assert np.abs(opened[0] - noted[1, 0]).max() > 1


@pytest.mark.hole
@pytest.mark.parametrize("clients", range(3, 9))
def test_no_number_of_colluders_has_enough_shares(clients: int) -> None:
    """Nor are two sums of a round opened by halves of a cohort."""
    for colluders in range(1, clients):
        sizes = {"num_clients": clients, "cohort_size": clients}
        made = policy(**SUMS | sizes | {"colluders": colluders})
        threshold = made.protocol["reconstruction_threshold"]
        assert threshold > colluders
        assert threshold >= clients - colluders + 1
        assert threshold <= clients
        assert 2 * threshold > clients
