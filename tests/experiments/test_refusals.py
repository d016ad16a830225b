"""Bad input ends a command with one sentence, and nothing is written.

Of commands that have checks of their own; settings: tests/test_refusals.py. A flag that
no chosen mechanism reads is bad input too, and no page shows it.
"""

import pathlib

import pytest
from commands import assert_refused, assert_sentence, command

from fedsvp_jax.report import provenance

TRAIN = "experiments.train --model=mlp --num_rounds=1"
SWEEP = "experiments.sweep --model=mlp --num_rounds=1 --seeds=0"
ATTACK = "experiments.attack --attack="
NOBODY = "is not read by mechanisms none, dp_fedavg; remove it"
# Command -> flags added to it -> what the sentence holds.
REFUSED = {
    TRAIN: {
        "--epsilon=much": "flag --epsilon=much: could not convert string to float",
        "--num_rounds=many": "flag --num_rounds=many: invalid literal for int()",
        "--report=no": "flag --report=no: ('Non-boolean argument to boolean flag'",
        "--epsilom=1": "flag 'epsilom' (did you mean epsilon?)",
        "--rounds=5": "flag 'rounds' (did you mean num_rounds?)",
        "--epochs=5": "(did you mean local_epochs?)",
        "--lr=.1": "(did you mean learning_rate?)",
        "--clients=3": "(did you mean num_clients?)",
        "--batch=3": "(did you mean batch_size?)",
        "--mechanism=FedAvg": "(did you mean none?)",
        "--xyzzy=1": "Unknown command line flag 'xyzzy'",
        "--dataset=store": "dataset store needs data_dir",
        "--dataset=store --data_dir=docs": "docs/store.json: No such file",
        "--num_devices=99": "num_devices times sweep_devices must be at most ",
        "--num_devices=0": "num_devices",
        "--preset=proved_mnist --epsilon=2": "(epsilon is that of one upload",
        "--mechanism=dp_fedavg --epsilon=2": "remove it (total_epsilon is the ε of",
        "--total_epsilon=2 --solve=noise --epsilon=1": "epsilon must be left out: --s",
        "--preset=proved": "--preset=proved: value should be one of <fedadam|fedavg|",
        "epsilon=1": "epsilon=1",
    },
    SWEEP: {
        "--epsilons=much": "epsilons must be numbers",
        "--epsilons=": "epsilons",
        "--mechanisms=none,fedsv": "did you mean fedsva",
        "--mechanisms=fedavg": "(did you mean none?)",
        "--seeds=3:1": "seeds must be a list",
        "--epsilon=0.5": "epsilon",
        "--mechanisms=none,fedsva --epsilons=0.5,2": "epsilon",
        "--mechanisms=": "mechanism",
        "--sweep_devices=2": "devices",
        "--part=3/2": "part must be I/N",
        "--dataset=store --data_dir=docs": "a single run alone",
    },
    "experiments.build_store": {
        "--dataset=digits --partition=by_writer": "by_writer needs writers",
    },
    f"{ATTACK}acgan --num_images=20 --num_attackers=2 --num_hbc_clients=2": {
        "--num_hbc_clients=1": "num_attackers must be at most num_hbc_clients",
        "--num_attributes=1": "attributes must be class",
        "--mechanisms=none --mechanism=none": "mechanism must be left out",
        "--num_images=2": "num_images",
        "--epsilon=2 --mechanisms=none,nbafl": "epsilon",
    },
    f"{ATTACK}audit": {
        "--attack=guess": "--attack=guess",
        "--attack=mia": "(did you mean membership?)",
        "--mechanism=nbafl": "mechanism must be left out",
        "--downlink_noise": "downlink_noise must be left out",
        "--audit_mechanisms=none": "audit_mechanisms must add noise",
        "--audit_mechanisms=nbalf": "did you mean nbafl",
        "--audit_examples=3": "audit_examples must be at least batch_size = 10",
    },
    f"{ATTACK}gradient_inversion --model=mlp": {
        "--mechanism=nbafl": "mechanism must be left out: inversion_defences",
        "--contribution_release=laplace": "contribution_release must be left out",
        "--batch_size=2": "batch_size must be left out",
        "--local_epochs=3": "local_epochs must be left out",
        "--inversion_defences=nbafl": "inversion_defences must be MECHANISM",
        "--inversion_defences=none:paper,none:paper": "each defence once",
        "--inversion_defences=gaussian:paper:-1": "must be MECHANISM:CLIPPING or",
    },
    f"{ATTACK}membership --num_rounds=6": {
        "--epsilon=1 --membership_epsilons=1": "membership_epsilons must be left out",
        "--membership_epsilons=little": "membership_epsilons must be numbers",
        "--membership_epsilons=-1": "epsilon must be greater than 0",
        "--membership_examples=5000": "membership_examples must be at most 1442",
    },
}
# A flag that the chosen mechanism, or another setting, leaves unread.
UNREAD = {
    f"{TRAIN} --mechanism=dp_fedavg": {
        "--relation=add_remove": "--relation is not read by mechanism dp_fedavg; remove"
        " it (total_epsilon is the ε of the whole run, and every claim names its own",
        "--epsilon=0.1": "--epsilon is not read by mechanism dp_fedavg; remove it",
        "--count_noise_std=3": "is only read with --adaptive_clip=true; remove",
    },
    f"{TRAIN} --mechanism=gaussian": {
        "--calibration=classical": "--calibration is not read by mechanism gaussian;",
    },
    f"{TRAIN} --mechanism=fedsva": {
        "--release_epsilon=1": "--release_epsilon is only read with "
        "--contribution_release=laplace or --contribution_release=randomized_response;",
        "--relation=add_remove": "only read with --clipping=update_clip or",
        "--total_accounting=pld": "is only read with --total_epsilon; remove",
        "--solve=noise": "--solve is only read with --total_epsilon; remove",
    },
    f"{TRAIN} --mechanism=nbafl --clipping=per_example --batches=poisson"
    " --relation=add_remove --local_steps=3": {
        "--local_epochs=3": "--local_epochs is only read without --local_steps; remove",
    },
    f"{TRAIN} --mechanism=fedsdp --contribution_release=worst_case": {
        "--shapley=additive": "--shapley is only read with "
        "--contribution_release=raw or --contribution_release=laplace or "
        "--contribution_release=randomized_response; remove it",
    },
    f"{TRAIN} --mechanism=nbafl": {
        "--vote_epsilon=1": "--vote_epsilon is only read with "
        "--influence_filter=join; remove it",
        "--dirichlet_alpha=2": "only read with --partition=dirichlet; remove",
        "--corrupted_points=1": "is only read with --corrupted_share; remove",
    },
    f"{SWEEP} --mechanisms=none,dp_fedavg": {"--epsilons=0.2": f"--epsilons {NOBODY}"},
}


@pytest.mark.parametrize("line", REFUSED)
def test_bad_input_is_one_sentence_and_nothing_is_written(
    line: str, tmp_path: pathlib.Path
) -> None:
    assert_refused(line.split(), REFUSED[line], tmp_path / "run")


@pytest.mark.hole
@pytest.mark.parametrize("line", UNREAD)
def test_a_flag_that_nothing_reads_is_refused(
    line: str, tmp_path: pathlib.Path
) -> None:
    assert_refused(line.split(), UNREAD[line], tmp_path / "run")


@pytest.mark.hole
@pytest.mark.parametrize(
    ("flags", "messages"),
    [
        (
            "--epsilom=1 --num_rounds=many --num_devices=0 --epsilon=-1",
            ("epsilom", "--num_rounds=many", "--num_devices=0", "epsilon must be gr"),
        ),
        ("--noxyzzy --num_rounds=0 --report=no", ("noxyzzy", "num_rounds", "report")),
    ],
)
def test_all_wrong_flags_are_told_at_once(flags: str, messages: tuple[str]) -> None:
    """The first alone was, and the next one in the next try."""
    ended = command(*TRAIN.split(), *flags.split())  # without --output_dir, too
    for message in (*messages, "state --output_dir"):
        assert_sentence(ended, message)


@pytest.mark.hole
@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("schema {}/stay.csv", "error: {}/stay.csv: No such file"),
        ("train --data={}/stay.csv --label_column=y", "--data={}/stay.csv: No such"),
        (
            "train --data={}/stays.csv --schema={}/stay.csv --goal=proved",
            "--schema={}/stay.csv: No such file",
        ),
        ("plan {}/stay.csv --schema={}/schema.toml", "error: {}/stay.csv: No such"),
    ],
)
def test_a_missing_file_is_named_with_its_flag_and_its_neighbour(
    line: str, message: str, tmp_path: pathlib.Path
) -> None:
    """It said `[Errno 2]`, or the setting in the place of the flag."""
    (tmp_path / "stays.csv").write_text("x,y\n1,a\n2,b\n")
    declared = '[label]\ncolumn = "y"\nclasses = ["a", "b"]\nshares = [0.5, 0.5]\n'
    (tmp_path / "schema.toml").write_text(f"schema = 1\n{declared}")
    words = line.replace("{}", str(tmp_path)).split()
    more = ["--total_epsilon=3"] * (words[0] == "train" and "--goal=proved" in words)
    more += [f"--output_dir={tmp_path}/run"] * (words[0] == "train")
    ended = command(f"experiments.{words[0]}", *words[1:], *more)
    assert_sentence(ended, message.replace("{}", str(tmp_path)))
    assert f"did you mean {tmp_path}/stays.csv?" in ended.stderr


def test_a_sweep_takes_a_flag_that_one_mechanism_reads(tmp_path: pathlib.Path) -> None:
    for read in (
        "--mechanisms=none,nbafl --epsilons=0.2",
        "--mechanisms=none,fedsva --shapley=additive --utility=loss",
    ):
        line = f"{SWEEP} {read} --num_devices=99 --output_dir={tmp_path}/a"
        assert "num_devices" in command(*line.split()).stderr


@pytest.mark.parametrize(
    ("mechanism", "flags"),
    [
        ("none", "--epsilon=3 --delta=0.1 --shapley=additive"),
        ("nbafl", "--contribution_release=laplace --decay=1"),
    ],
)
def test_what_only_other_mechanisms_read_is_said_once(
    mechanism: str, flags: str, tmp_path: pathlib.Path
) -> None:
    """So that a script can try mechanisms with the same flags."""
    line = f"{TRAIN} --mechanism={mechanism} {flags} --corrupted_points=1"
    ended = command(*line.split(), f"--output_dir={tmp_path / 'run'}")
    (note,) = [one for one in ended.stderr.splitlines() if one.startswith("note: ")]
    assert note.endswith(f"not read by mechanism {mechanism}")
    assert all(flag.split("=")[0] in note for flag in flags.split())
    assert "--corrupted_points is only read" in ended.stderr


@pytest.mark.hole
def test_the_command_that_repeats_a_result_leaves_out_what_is_not_read() -> None:
    config = {"mechanism": "none", "epsilon": 3.0, "delta": 0.1, "seed": 1}
    assert provenance.command_line("train", config, []) == (
        "fedsvp train --mechanism=none --seed=1 --output_dir=DIR"
    )
    swept = {"mechanisms": ["none", "dp_fedavg"], "epsilons": [0.2], "seeds": [0]}
    assert "epsilon" not in provenance.command_line("sweep", config | swept, [])
    assert "epsilon" not in provenance.read_settings(config)
