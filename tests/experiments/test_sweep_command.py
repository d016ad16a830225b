"""experiments.sweep as a user types it."""

import pytest
from commands import Ended, assert_sentence, command

REFUSED = {
    "--epsilons=much": "epsilons must be numbers",
    "--epsilons=": "epsilons",
    "--epsilons=0.5,-1": "epsilon",
    "--mechanisms=none,fedsv": "did you mean fedsva",
    "--seeds=3:1": "seeds must be a list",
    "--seeds=-1": "seeds must be a list",
    "--seeds=a": "seeds must be a list",
    "--seeds=0:1:2": "seeds must be a list",
    "--delta=1": "delta",
    "--cohort_size=31": "cohort_size",
    "--dataset=mnist --data_dir=/nowhere": "/nowhere",
    "--epsilon=0.5": "epsilon",
    "--mechanisms=none,fedsva --epsilons=0.5,2": "epsilon",
    "--epsilons=0.5,2 --mechanisms=none,nbafl --seeds=0": "epsilon",
    "--mechanisms=": "mechanism",
    "--noise_stds=.1": "noise_stds is only read by gaussian",
    "--mechanisms=gaussian --noise_stds=.1,-1": "noise_std",
    "--mechanisms=gaussian --noise_stds=.1,much": "noise_stds must be numbers",
    "--max_test_examples=0": "max_test_examples",
    "--attributes=column:sex": "attributes=column:sex",
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
