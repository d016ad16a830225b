"""--plugin=FILE.py: a mechanism from outside in the commands, its settings as flags."""

import json
import pathlib
import re
import shlex

import pytest
from commands import SMALL_RUN, assert_sentence, command, succeeds

pytestmark = pytest.mark.across("a mechanism from outside, in every command")

FILE = '''
import flax.struct
import jax.numpy as jnp

from fedsvp_jax import mechanisms
from fedsvp_jax.mechanisms import base, calibration, sensitivity
from fedsvp_jax.settings import Settings, setting


@flax.struct.dataclass(frozen=True)
class TwoPhaseSettings(Settings):
    """Settings of two_phase."""

    late_multiplier: float = setting(4.0, "z of the second half.", above=0, traced=True)


def make_two_phase(config):
    rule = sensitivity.make_sensitivity(config)
    z = jnp.asarray(config.settings.late_multiplier, jnp.float32)

    def calibrate(ratio, round_num, bound):
        z_t = jnp.where(round_num < config.num_rounds // 2, 2 * z, z)
        epsilon = calibration.concentrated_epsilon(z_t, config.delta)
        return base.claimed(z_t, epsilon, config.delta)

    law = base.Law(calibrate, any_epsilon=True, num_rounds=config.num_rounds)
    return base.chain(rule, law)


mechanisms.register_mechanism(
    "two_phase",
    make_two_phase,
    settings=TwoPhaseSettings,
    summary="twice the noise in the first half",
    noise_setting="late_multiplier",
)
'''
RUN = (
    "experiments.train",
    *SMALL_RUN,
    "--mechanism=two_phase",
    "--sensitivity=update_clip",
    "--num_rounds=2",
)


@pytest.fixture
def plugin(tmp_path: pathlib.Path) -> str:
    path = tmp_path / "two_phase.py"
    path.write_text(FILE)
    return f"--plugin={path}"


def test_a_run_has_its_flags_records_it_and_prints_a_command_that_repeats_it(
    plugin: str, tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("plotly", reason="the page prints the command")
    line = (*RUN, plugin, "--late_multiplier=2")
    shown = succeeds(*line, "--dry_run", f"--output_dir={tmp_path}/dry").stdout
    assert "two_phase" in shown
    first = tmp_path / "first"
    succeeds(*line, f"--output_dir={first}")
    config = json.loads((first / "config.json").read_text())
    assert (config["late_multiplier"], config["plugin"]) == (2.0, plugin[9:])
    rows = (first / "clients.jsonl").read_text().splitlines()
    assert {json.loads(row)["noise_multiplier"] for row in rows} == {4.0, 2.0}
    page = (first / "report.html").read_text()
    words = shlex.split(re.search(r"python -m (experiments.train .*?)<", page)[1])
    again = [word.replace("=DIR", f"={tmp_path}/again") for word in words]
    succeeds(*again)
    for name in ("config.json", "metrics.jsonl", "clients.jsonl"):
        assert (first / name).read_bytes() == (tmp_path / "again" / name).read_bytes()


def test_a_sweep_has_it_and_without_the_plugin_nobody_knows_the_mechanism(
    plugin: str, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "sweep"
    line = ("experiments.sweep", *SMALL_RUN, "--mechanisms=two_phase", "--seeds=0")
    line += ("--num_rounds=1", "--sensitivity=update_clip")
    shown = succeeds(*line, plugin, f"--output_dir={folder}").stdout
    assert "two_phase" in shown and "two_phase" in (folder / "table.md").read_text()
    assert_sentence(command(*line, "--output_dir=x"), "mechanism must be one of")
    config = f"--config={folder / 'config.json'}"
    assert_sentence(command(*line, config, "--output_dir=x"), "mechanism must be one")
    assert_sentence(command(*line, "--plugin=no.py"), "plugin must be a file FILE.py")
    assert "--late_multiplier" in succeeds(*line, plugin, "--help").stdout
    ended = command(*line, plugin, "--epsilons=.1", "--output_dir=x")
    assert_sentence(ended, "two_phase, whose noise --late_multiplier sets; remove it")
