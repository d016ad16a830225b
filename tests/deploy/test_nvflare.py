"""The filter for NVIDIA FLARE: in the environment of test-deploy."""

import os
import pathlib
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from deployed import EXAMPLES, UPDATE_CLIP, example, model, policy, simulated

pytest.importorskip("nvflare")

from nvflare.apis.dxo import DXO, DataKind, from_shareable
from nvflare.apis.fl_constant import ReturnCode
from nvflare.apis.shareable import Shareable, make_reply

from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.deploy import StateFile
from fedsvp_jax.deploy.nvflare import PrivacyFilter

SETTINGS: dict[str, Any] = UPDATE_CLIP | {
    "dataset": "digits",
    "num_rounds": 5,
    "num_clients": 3,
    "num_hbc_clients": 1,
    "cohort_size": 3,
}
SITE: Any = SimpleNamespace(get_identity_name=lambda: "site-3")


def result(round_index: int, kind: str = DataKind.WEIGHT_DIFF) -> Shareable:
    named = {f"{place}": leaf for place, leaf in enumerate(model())}
    meta = {"NUM_STEPS_CURRENT_ROUND": 30, "initial_metrics": {"loss": 0.123}}
    shareable = DXO(kind, named, meta).to_shareable()
    shareable.set_header("current_round", round_index)
    shareable.set_header("loss", 0.123)
    return shareable


def privacy(folder: pathlib.Path, **changes: Any) -> PrivacyFilter:
    return PrivacyFilter(SETTINGS | changes, 20, str(folder))


def test_a_result_leaves_as_noised_arrays_and_a_number_of_examples(
    tmp_path: pathlib.Path,
) -> None:
    sent = privacy(tmp_path).process(result(0), SITE)
    private = from_shareable(sent)
    assert private.meta == {"NUM_STEPS_CURRENT_ROUND": 30}
    assert "0.123" not in str(sent)
    for leaf, start in zip(private.data.values(), model(), strict=True):
        assert leaf.shape == start.shape and leaf.dtype == np.float32
        assert not np.allclose(leaf, start, atol=0.01)
    state = StateFile(tmp_path / "site-3.json", policy(**UPDATE_CLIP)).read()
    assert (state.last_round, int(state.ledger["uploads"][0])) == (1, 1)


def test_what_is_refused_becomes_an_error_and_the_state_is_unharmed(
    tmp_path: pathlib.Path,
) -> None:
    around = privacy(tmp_path, max_uploads=1)
    around.process(result(0), SITE)
    before = (tmp_path / "site-3.json").read_bytes()
    for shareable, words in (
        (result(0), "round 1 is over"),
        (result(1), "exceed this client's promise, max_uploads"),
        (result(1, kind=DataKind.WEIGHTS), "must be WEIGHT_DIFF"),
        (Shareable(), "the client failed; its own log says why"),
    ):
        error = around.process(shareable, SITE)
        assert error.get_return_code() == ReturnCode.TASK_RESULT_FILTER_ERROR
        assert words in error.get_header("refused")
    failed = make_reply(ReturnCode.EXECUTION_EXCEPTION, {"why": "record 17"})
    assert "17" not in str(around.process(failed, SITE))
    assert (tmp_path / "site-3.json").read_bytes() == before


# A job whose noise is seeded, in NVFlare's simulator.
SEEDED = """
from fedsvp_jax.deploy import Seeded
from fedsvp_jax.deploy.nvflare import PrivacyFilter
class SeededFilter(PrivacyFilter):
    def randomness(self, site):
        return Seeded(0, int(site[-1]) - 1)
"""
JOB = """
import pathlib, sys
from job import MIN_NUM_EXAMPLES, SETTINGS, SITES, make_job
from seeded import SeededFilter
folder = pathlib.Path(sys.argv[1])
privacy = SeededFilter(SETTINGS, MIN_NUM_EXAMPLES, str(folder / "state"))
make_job(folder, privacy).simulator_run(str(folder / "workspace"), n_clients=SITES)
"""


def run(folder: pathlib.Path) -> list[np.ndarray]:
    """The final model of the example's five rounds on three sites."""
    (folder / "seeded.py").write_text(SEEDED)
    ended = subprocess.run(
        [sys.executable, "-c", JOB, str(folder)],
        env=os.environ
        | {
            "PYTHONPATH": f"{EXAMPLES / 'nvflare'}:{folder}:{EXAMPLES.parent}",
            "JAX_PLATFORMS": "cpu",
            "FEDSVP_TEST_SEED": "0",
        },
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
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
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "site-3.json").write_text("damaged")
    arrays = run(tmp_path)
    assert all(np.all(np.isfinite(leaf)) for leaf in arrays)
    assert (tmp_path / "state" / "site-3.json").read_text() == "damaged"
    for site in ("site-1", "site-2"):
        state = (tmp_path / "state" / f"{site}.json").read_text()
        assert '"last_round": 5' in state
