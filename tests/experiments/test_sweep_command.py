"""experiments.sweep as a user types it."""

import pytest
from commands import Ended, assert_sentence, command

REFUSED = {
    "--epsilons=much": "epsilons must be numbers",
    "--epsilons=": "epsilons",
    "--mechanisms=none,fedsv": "did you mean fedsva",
    "--seeds=3:1": "seeds must be a list",
    "--seeds=0:1:2": "seeds must be a list",
    "--epsilon=0.5": "epsilon",
    "--mechanisms=none,fedsva --epsilons=0.5,2": "epsilon",
    "--mechanisms=": "mechanism",
    "--noise_stds=.1": "noise_stds is only read by gaussian",
    "--mechanisms=gaussian --noise_stds=.1,much": "noise_stds must be numbers",
    "--num_devices=99": "num_devices must be at most 1",
    "--sweep_devices=2": "devices",
    "--part=3/2": "part must be I/N",
    "--total_epsilon=0.000001 --mechanisms=fedsva": "total_epsilon",
}


@pytest.fixture(scope="module")
def ends(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Ended]:
    folder = tmp_path_factory.mktemp("refused")
    small = ("experiments.sweep", "--model=mlp", "--num_rounds=1")
    place = f"--output_dir={folder / 'sweep'}"
    found = {case: command(*small, *case.split(), place) for case in REFUSED}
    assert list(folder.iterdir()) == []
    return found


@pytest.mark.parametrize("case", list(REFUSED))
def test_bad_input_is_one_line_and_status_two_and_nothing_is_written(
    case: str, ends: dict[str, Ended]
) -> None:
    assert_sentence(ends[case], REFUSED[case])
    assert ends[case].stdout == "", ends[case]
