"""Settings: defaults by data set, limits, and refusals in one sentence."""

import dataclasses
import pathlib
import types
import typing

import numpy as np
import pytest
from small_runs import digits

from fedsvp_jax import config as configs
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.data.datasets import DATA_SETS
from fedsvp_jax.federation import build, plan

FIELDS = {field.name: field for field in dataclasses.fields(ExperimentConfig)}


def test_every_setting_explains_itself_and_its_default_is_allowed() -> None:
    for name, field in FIELDS.items():
        assert field.metadata["help"].rstrip(")").endswith((".", "tfds:NAME")), name
    ExperimentConfig()


@pytest.mark.parametrize(
    "name", [*sorted(DATA_SETS.keys() - {"tfds"}), "npz", "csv", "tfds:mnist"]
)
def test_every_data_set_resolves_to_settings_without_gaps(name: str) -> None:
    config = resolve(ExperimentConfig(dataset=name))
    gaps = {n for n in FIELDS if getattr(config, n) is None}
    unset = "data_dir features_dir label_column client_column drop_columns schema "
    unset += "test_data classes private_category "
    unset += "total_epsilon max_test_examples max_uploads local_steps class_shares "
    unset += "class_weights "
    by_device = "client_chunk_size coalition_chunk_size"
    assert gaps == {*(unset + by_device).split()}
    assert resolve(config) == config


@pytest.mark.hole
def test_a_setting_is_none_only_where_its_type_says_so() -> None:
    """num_clients was an int, and None until its config was resolved."""
    for name, field in FIELDS.items():
        members = typing.get_args(field.type)
        is_optional = (
            isinstance(field.type, types.UnionType) and None.__class__ in members
        )
        assert is_optional == (field.default is None), name


def test_a_resolved_config_names_the_settings_that_every_data_set_fills_in() -> None:
    filled: set[str] = set(FIELDS)
    for name in (*sorted(DATA_SETS.keys() - {"tfds"}), "npz", "csv"):
        config = resolve(ExperimentConfig(dataset=name))
        filled &= {n for n in FIELDS if getattr(config, n) is not None}
    needed = configs.ResolvedConfig.__annotations__
    assert needed.keys() == {n for n in filled if FIELDS[n].default is None}
    for name, kind in needed.items():
        assert FIELDS[name].type == kind | None


def test_settings_that_were_not_resolved_are_refused_with_what_to_call() -> None:
    config = ExperimentConfig()
    for call in (
        plan.make_configured_mechanism,
        lambda config: build([config], digits()),
    ):
        with pytest.raises(ValueError, match=r"call fedsvp_jax\.config\.resolve"):
            call(config)


def test_what_is_set_wins_over_the_defaults() -> None:
    """Of the data set, and of δ: the published one over the batch size."""
    config = resolve(ExperimentConfig(num_clients=8, cohort_size=2, class_share=0.2))
    assert (config.num_clients, config.cohort_size) == (8, 2)
    assert (config.class_share, config.model) == (0.2, "small_cnn")
    for changes, delta in (
        ({"batch_size": 50}, 1 / 50),
        ({"batch_size": 50, "delta": 1e-3}, 1e-3),
        ({"batch_size": 1}, 0.5),
    ):
        assert resolve(ExperimentConfig(**changes)).delta == delta


def test_published_settings_are_the_defaults_on_the_papers_data() -> None:
    """FedSVA (arXiv 2503.12958v2), sec. 4.1."""
    config = resolve(ExperimentConfig(dataset="cifar10"))
    assert (config.num_clients, config.cohort_size) == (100, 10)
    assert (config.num_hbc_clients, config.local_epochs) == (10, 2)
    assert (config.batch_size, config.l2_norm_clip) == (50, 20.0)
    assert (config.partition, config.model) == ("paper", "resnet18")


@pytest.mark.parametrize("dataset", ["digits", "mnist"])
@pytest.mark.parametrize(("clients", "curious"), [(10, 1), (20, 2), (55, 5)])
def test_a_tenth_of_the_clients_is_curious(dataset: str, clients: int, curious: int):
    """Typed clients kept the data set's number: of 10 on MNIST, all of them."""
    config = resolve(ExperimentConfig(dataset=dataset, num_clients=clients))
    assert config.num_hbc_clients == curious


def own(folder: pathlib.Path, rows: int = 400, **more: np.ndarray) -> ExperimentConfig:
    """Of an .npz with a private column, tone."""
    numbers = np.arange(rows)
    tones = {"column_tone_train": np.array(["high", "low", "mid"])[numbers % 3]}
    x, y = np.zeros((rows, 2), np.float32), numbers % 2
    parts = {"x_train": x, "y_train": y, "x_test": x[:4], "y_test": y[:4]}
    np.savez(folder / "own.npz", **parts, **tones, **more)
    return ExperimentConfig(dataset="npz", data_dir=str(folder / "own.npz"))


def test_defaults_of_own_data_follow_from_their_size(tmp_path: pathlib.Path) -> None:
    """U17: at the papers' 100 clients and C = 20 the noise drowned most of them."""
    config = resolve(own(tmp_path))
    assert (config.partition, config.num_clients, config.cohort_size) == ("iid", 8, 8)
    assert (config.num_hbc_clients, config.batch_size) == (0, 10)
    assert config.l2_norm_clip == 1 and resolve(config) == config
    typed = dataclasses.replace(own(tmp_path), num_clients=40, l2_norm_clip=3.0)
    typed = resolve(typed)
    assert (typed.num_clients, typed.batch_size, typed.l2_norm_clip) == (40, 2, 3)


def test_writers_with_enough_examples_are_the_clients(tmp_path: pathlib.Path) -> None:
    """U11: by_writer failed on the inherited 100 clients."""
    writers = np.repeat(np.arange(13), [20] * 12 + [1])
    config = resolve(own(tmp_path, len(writers), writer_train=writers))
    assert (config.partition, config.num_clients) == ("by_writer", 12)
    assert (config.cohort_size, config.num_hbc_clients) == (10, 0)


def test_a_private_category_is_named_and_the_column_counts_the_attributes(
    tmp_path: pathlib.Path,
) -> None:
    private = {"attributes": "column:tone", "private_category": "mid"}
    toned = dataclasses.replace(own(tmp_path), **private)
    config = resolve(toned)
    assert (config.private_attribute, config.num_attributes) == (2, 3)
    assert resolve(config) == config
    for changes, message in (
        ({"private_category": "mit"}, "one of high, low, mid.*did you mean mid"),
        ({"private_attribute": 1}, "private_attribute must be 2, the number of"),
        ({"attributes": "class"}, "give its number as private_attribute"),
    ):
        with pytest.raises(ValueError, match=message):
            resolve(dataclasses.replace(toned, **changes))
    adult = ExperimentConfig(dataset="adult", attributes="column:race")
    assert resolve(adult).num_attributes == 5


def test_a_large_epsilon_is_told_only_what_its_mechanism_takes() -> None:
    """U3: fedsva was sent to the analytic calibration, which it then refused."""
    with pytest.raises(ValueError, match="epsilon must be < 1") as raised:
        plan.make_configured_mechanism(resolve(ExperimentConfig(epsilon=2.0)))
    assert "calibration='analytic'" not in str(raised.value)
    nbafl = resolve(ExperimentConfig(epsilon=2.0, mechanism="nbafl"))
    with pytest.raises(ValueError, match="take calibration='analytic'"):
        plan.make_configured_mechanism(nbafl)
