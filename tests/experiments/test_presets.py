"""Presets: every one is accepted as typed, and a small one tells what it shrank."""

import pytest
from commands import Ended, command

from experiments import presets
from experiments.reproduce import evidence

NAMES = presets.preset_names()
PAIRS = presets.preset_names("full")


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    """Every preset as a command line whose last flag alone is refused."""
    folder = tmp_path_factory.mktemp("refused")
    return {
        name: command(
            "experiments.sweep",
            f"--flagfile=experiments/presets/{name}.flags",
            "--data_dir=/nowhere",
            f"--output_dir={folder / name}",
            "--num_devices=99",
        )
        for name in NAMES
    }


@pytest.mark.parametrize("name", NAMES)
def test_a_presets_flags_are_accepted(name: str, ends: dict[str, Ended]) -> None:
    """What is refused is what was added: data that are not there, or the devices."""
    ended = ends[name]
    assert ended.status == 2, ended
    assert "/nowhere" in ended.stderr or "num_devices" in ended.stderr, ended.stderr


@pytest.mark.parametrize("name", PAIRS)
def test_a_small_preset_differs_only_in_what_its_head_says(name: str) -> None:
    full = presets.read_preset(name)
    small = presets.read_preset(name + "_small")
    changed = {
        flag: (full.flags.get(flag, "default"), small.flags.get(flag, "default"))
        for flag in full.flags.keys() | small.flags.keys()
        if full.flags.get(flag) != small.flags.get(flag)
    }
    assert changed == small.shrunk
    assert f"Against {name}.flags:" in small.head
    assert small.notes and not full.shrunk


def test_every_table_and_figure_of_the_page_has_its_presets() -> None:
    on_the_page = {
        *evidence.TABLES,
        *(scenario.response for scenario in evidence.SCENARIOS),
        *(f"fedsva_table2_n{n}_cifar10" for n in (2, 3, 4, 5)),
        *evidence.NOISE_FIGURES,
        *evidence.GAPS,
        evidence.CONTRIBUTION,
    }
    assert set(PAIRS) == on_the_page
    assert set(NAMES) == {"demo", *PAIRS, *(f"{name}_small" for name in PAIRS)}


@pytest.mark.parametrize("name", [n for n in PAIRS if n.startswith("fed")])
def test_the_full_size_is_the_published_set_up(name: str) -> None:
    flags = presets.read_preset(name).flags
    published = {
        "num_clients": "100",
        "num_hbc_clients": "10",
        "cohort_size": "10",
        "num_rounds": "400",
        "local_epochs": "2",
        "batch_size": "50",
        "learning_rate": "0.1",
        "l2_norm_clip": "20",
        "delta": "0.02",
    }
    assert published.items() <= flags.items()
    if name.startswith("fedsva_table1_cifar10"):
        assert (flags["model"], flags["dataset"]) == ("resnet18", "cifar10")
        assert flags["epsilons"] == "0.2,0.3,0.4,0.5" and flags["seeds"] == "0:5"


def test_an_unknown_preset_and_a_line_that_is_no_flag_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(ValueError, match="preset must be one of"):
        presets.read_preset("fedsva_table9")
    folder = tmp_path_factory.mktemp("presets")
    (folder / "odd.flags").write_text("# A preset.\nnum_rounds=3\n")
    monkeypatch.setattr(presets, "FOLDER", folder)
    with pytest.raises(ValueError, match="num_rounds=3"):
        presets.read_preset("odd")


def test_the_small_noise_is_the_published_formulas() -> None:
    """C over |D| of the small Table 1 presets is that of the full ones."""
    cifar = presets.read_preset("fedsva_table1_cifar10_small").flags
    examples = 0.8 * 50_000 * float(cifar["class_share"])
    assert float(cifar["l2_norm_clip"]) / examples == pytest.approx(20 / 2_000)
