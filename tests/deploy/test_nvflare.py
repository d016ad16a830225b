"""The filter for NVIDIA FLARE: in the environment of test-deploy."""

import os
import pathlib
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from deployed import EXAMPLES, UPDATE_CLIP, example, model, policy, simulated

pytest.importorskip("nvflare")

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.filter import FilterChainType, FilterContextKey
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.fl_context import FLContext
from nvflare.apis.shareable import Shareable, make_reply

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.deploy import Refused, Site, fingerprint, make_policy
from fedsvp_jax.deploy.nvflare import PrivacyFilter

LOSS = 0.1234567890123  # which no noise in float32 prints


class Task(FLContext):  # type: ignore[misc]
    """The context of one task, whose properties stay with the client."""

    def get_identity_name(self, default: str = "") -> str:
        return "site-3"

    def set_prop(self, key: str, value: Any, private: bool, sticky: bool) -> None:
        assert private and not sticky
        super().set_prop(key, value, private, sticky)


def result(
    round_index: int, kind: str = DataKind.WEIGHT_DIFF, **told: Any
) -> Shareable:
    named = {f"{place}": leaf for place, leaf in enumerate(model())}
    meta = {"NUM_STEPS_CURRENT_ROUND": 31, "initial_metrics": {"loss": LOSS}} | told
    shareable = DXO(kind, named, meta).to_shareable()
    shareable.set_header("current_round", round_index)
    shareable.set_header("loss", LOSS)
    return shareable


def privacy(folder: pathlib.Path, **changes: Any) -> PrivacyFilter:
    Site(folder / "site-3.json", policy(**UPDATE_CLIP | changes)).begin(30)
    return PrivacyFilter(str(folder))


def sent(around: PrivacyFilter, round_index: int, reply: Shareable) -> Shareable:
    """What leaves the site, of a task that it was given."""
    site, chain = Task(), FilterContextKey.CHAIN_TYPE
    around.set_prop(chain, FilterChainType.TASK_DATA_CHAIN)
    around.process(result(round_index, DataKind.WEIGHTS), site)
    around.set_prop(chain, FilterChainType.TASK_RESULT_CHAIN)
    return around.process(reply, site)


def test_a_result_leaves_as_noised_arrays_and_a_number_of_examples(
    tmp_path: pathlib.Path,
) -> None:
    reply = sent(privacy(tmp_path), 0, result(0))
    private = from_shareable(reply)
    assert private.meta == {"NUM_STEPS_CURRENT_ROUND": 30}
    assert str(LOSS) not in str(reply)
    for leaf, start in zip(private.data.values(), model(), strict=True):
        assert leaf.shape == start.shape and leaf.dtype == np.float32
        assert not np.allclose(leaf, start, atol=0.01)
    state = Site(tmp_path / "site-3.json", policy(**UPDATE_CLIP)).read()
    assert (state.last_round, int(state.sums["uploads"][0])) == (1, 1)


def test_a_task_that_is_refused_is_not_trained_on_and_the_state_is_unharmed(
    tmp_path: pathlib.Path,
) -> None:
    around = privacy(tmp_path, max_uploads=1)
    sent(around, 0, result(0))
    before = (tmp_path / "site-3.json").read_bytes()
    for round_index, words in (
        (0, "round 1 is over"),
        (1, "exceed this client's promise"),
    ):
        with pytest.raises(Refused, match=words):
            sent(around, round_index, result(round_index))
    assert (tmp_path / "site-3.json").read_bytes() == before
    around.set_prop(FilterContextKey.CHAIN_TYPE, FilterChainType.TASK_RESULT_CHAIN)
    error = around.process(result(0), Task())  # whose data passed no filter
    assert error.get_return_code() == ReturnCode.TASK_RESULT_FILTER_ERROR
    assert "a filter of the task's data too" in error.get_header("refused")


@pytest.mark.hole
def test_a_training_that_fails_is_noise_to_the_server(tmp_path: pathlib.Path) -> None:
    failures = (
        make_reply(ReturnCode.EXECUTION_EXCEPTION, {"why": "record 17"}),
        result(0, kind=DataKind.WEIGHTS),
        Shareable(),
    )
    for place, failed in enumerate(failures):
        around = privacy(tmp_path / str(place))
        reply = sent(around, 0, failed)
        assert reply.get_return_code() == ReturnCode.OK
        assert "record 17" not in str(reply)
        private = from_shareable(reply)
        assert private.meta == {"NUM_STEPS_CURRENT_ROUND": 30}
        assert np.std(private.data["0"]) > 0.5
        assert around.site_of("site-3").read().last_round == 1


@pytest.mark.hole
def test_a_filter_compares_the_records_with_those_of_the_log(
    tmp_path: pathlib.Path,
) -> None:
    """A site's log was begun with records, and FLARE's filter took any."""
    records = tmp_path / "records.csv"
    records.write_text("age\n50\n")
    made, log = policy(**UPDATE_CLIP), tmp_path / "site-3.json"
    Site(log, made, data=fingerprint(records)).begin(30)
    around = PrivacyFilter(str(tmp_path), records=str(records))
    sent(around, 0, result(0))
    records.write_text("age\n51\n")
    with pytest.raises(Refused, match="its own log says why"):
        sent(PrivacyFilter(str(tmp_path), records=str(records)), 1, result(1))
    assert Site(log, made).read().last_round == 1


# A job whose noise is seeded, in NVFlare's simulator.
SEEDED = """
from fedsvp_jax.deploy import Seeded
from fedsvp_jax.deploy.nvflare import PrivacyFilter
class SeededFilter(PrivacyFilter):
    def site_of(self, site):
        opened = super().site_of(site)
        opened.randomness = Seeded(0, int(site[-1]) - 1)
        return opened
"""
JOB = """
import pathlib, sys
from job import SITES, begin, make_job
from seeded import SeededFilter
folder = pathlib.Path(sys.argv[1])
if sys.argv[2] == "begin":
    begin(folder)
privacy = SeededFilter(str(folder / "state"))
make_job(folder, privacy).simulator_run(str(folder / "workspace"), n_clients=SITES)
"""


def run(folder: pathlib.Path, first: str = "begin") -> list[np.ndarray]:
    """The final model of the example's five rounds on three sites."""
    (folder / "seeded.py").write_text(SEEDED)
    found = f"{EXAMPLES / 'nvflare'}:{folder}:{EXAMPLES.parent}"
    more = {"PYTHONPATH": found, "JAX_PLATFORMS": "cpu", "FEDSVP_TEST_SEED": "0"}
    line = [sys.executable, "-c", JOB, str(folder), first]
    named = {"env": os.environ | more, "cwd": folder, "timeout": 600}
    ended = subprocess.run(line, capture_output=True, text=True, **named)
    assert ended.returncode == 0, ended
    with np.load(folder / "model.npz") as saved:
        return [saved[name] for name in saved.files]


@pytest.mark.slow
def test_three_sites_end_with_the_simulators_model(tmp_path: pathlib.Path) -> None:
    config = resolve(ExperimentConfig(**example("nvflare/federation.py").SETTINGS))
    arrays = run(tmp_path)
    for got, leaf in zip(arrays, simulated(config), strict=True):
        np.testing.assert_allclose(got, leaf, rtol=1e-5, atol=1e-5)


@pytest.mark.slow
def test_a_site_that_refuses_is_left_out_and_the_job_goes_on(
    tmp_path: pathlib.Path,
) -> None:
    config = ExperimentConfig(**example("nvflare/federation.py").SETTINGS)
    made = make_policy(config, min_num_examples=90)
    for site in ("site-1", "site-2", "site-3"):
        Site(tmp_path / "state" / f"{site}.json", made).begin(400)
    (tmp_path / "state" / "site-3.json").write_text("damaged")
    arrays = run(tmp_path, "go on")
    assert all(np.all(np.isfinite(leaf)) for leaf in arrays)
    assert (tmp_path / "state" / "site-3.json").read_text() == "damaged"
    for site in ("site-1", "site-2"):
        assert Site(tmp_path / "state" / f"{site}.json").read().last_round == 5
