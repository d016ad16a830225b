"""One run, from settings to a folder of results."""

import dataclasses
import os
import time
from typing import Any

import numpy as np
from tqdm import tqdm

from fedsvp_jax import models
from fedsvp_jax.accounting import promises
from fedsvp_jax.algorithm.state import RoundMetrics
from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.client_store import ClientStore
from fedsvp_jax.data.dataset import Dataset
from fedsvp_jax.devices import processes
from fedsvp_jax.engine.placement import Placement
from fedsvp_jax.engine.trainer import Trainer
from fedsvp_jax.federation import loading, plan
from fedsvp_jax.influence import Verdict, admission
from fedsvp_jax.mechanisms import make_mechanism
from fedsvp_jax.run import loop, records
from fedsvp_jax.run.checkpoint import SharedCheckpointer
from fedsvp_jax.run.environment import environment
from fedsvp_jax.run.folder import SharedFolder, plain
from fedsvp_jax.run.stopping import StopRequests
from fedsvp_jax.run.tensorboard import EventFiles
from fedsvp_jax.structs import Model
from fedsvp_jax.tree import cell_of, params_sha256


def train(
    config: ExperimentConfig,
    output_dir: str | os.PathLike[str],
    *,
    dataset: Dataset | ClientStore | None = None,
    model: Model | None = None,
    placement: Placement | None = None,
    resume: bool = False,
    checkpoint_every: int = 10,
    on_divergence: str = "stop",
    progress: bool = False,
    tensorboard: bool = False,
) -> dict[str, Any]:
    """Runs one resolved config and writes its folder.

    Files: config.json, metrics.jsonl, clients.jsonl, timing.jsonl, summary.json,
    checkpoints/. All but timing.jsonl are byte-identical when the same settings run
    again on the same machine, interrupted or not.

    Args:
      config: resolved settings (`config.resolve`).
      output_dir: new or empty, or with `resume` the folder of the same run.
      dataset: loaded by name when None.
      model: built by name when None.
      placement: where and in which portions the work runs.
      resume: go on from the newest intact checkpoint; without any, start.
      checkpoint_every: rounds between checkpoints.
      on_divergence: "stop" at NaN or infinity, or "continue".
      progress: draw a progress bar when standard error is a terminal.
      tensorboard: write event files as well, to output_dir/tensorboard.

    Returns:
      The content of summary.json.

    Raises:
      ValueError: settings, data or folder are not fit; nothing was overwritten.
      OSError: the folder cannot be written; every checkpoint stays.
      FloatingPointError: the run diverged; what it wrote so far stays.
      stopping.Stopped: SIGINT or SIGTERM came; the state is saved.
    """
    data = dataset or loading.load_population(config)
    folder = SharedFolder(output_dir)
    events = EventFiles(folder.path, wanted=tensorboard)
    trainer = Trainer(
        [config],
        data,
        model=model,
        placement=placement,
    )
    chunk = trainer.plan.client_chunk_size
    settings = plan.recorded_settings(config, data) | {"client_chunk_size": chunk}
    settings |= environment()
    layout = dataclasses.asdict(trainer.placement)
    processes.agree(settings | layout | {"checkpoint_every": checkpoint_every})
    folder.start(settings, resume=resume)
    mechanism = make_mechanism(config.mechanism, trainer.mechanism_configs[0])
    ledgers = [trainer.new_ledger(mechanism)]
    checkpointer = SharedCheckpointer(folder.path / "checkpoints")
    state, done = loop.restore(trainer, ledgers, checkpointer)
    for name in ("metrics.jsonl", "clients.jsonl", "timing.jsonl"):
        folder.keep_rounds(name, done, every=name != "timing.jsonl")
    rows = folder.rows("metrics.jsonl")
    events.start("", rows)
    accuracies = [row["test_accuracy"] for row in rows]
    diverged = [row["round"] for row in rows if records.diverged(row)]

    bar = tqdm(
        total=config.num_rounds,
        initial=done,
        unit="round",
        desc=config.mechanism,
        disable=None if progress and processes.is_first() else True,
    )
    clock = [time.perf_counter(), done]

    verdicts: list[Verdict] = []

    def on_round(
        cell: int, number: int, metrics: RoundMetrics, spent: dict[str, float]
    ) -> None:
        row = records.round_row(metrics, round_num=number, spent=spent)
        if trainer.admission is not None:
            passed = verdicts.pop() if verdicts else None
            row["influence_filter"] = passed and admission.verdict_record(passed)
        folder.hold("metrics.jsonl", [row])
        events.add("", plain(row))
        uploads = records.client_rows(
            metrics, round_num=number, at_upload=mechanism.step_noise_std is None
        )
        folder.hold("clients.jsonl", uploads)
        accuracy = records.number(row["test_accuracy"])
        accuracies.append(accuracy)
        if records.diverged(row):
            diverged.append(number)
        shown = "" if accuracy is None else f"{accuracy:.3f}"
        bar.set_postfix(accuracy=shown, epsilon=f"{spent['rdp']:.3g}")
        bar.update()

    def after_call(rounds_done: int) -> None:
        now = time.perf_counter()
        folder.write_held()
        events.flush()
        took = now - clock[0]
        count = max(rounds_done - clock[1], 1)
        row = {"round": rounds_done, "rounds": count, "seconds": took}
        folder.append("timing.jsonl", [row])
        clock[:] = [now, rounds_done]

    try:
        with StopRequests() as stop:
            state, done = loop.drive(
                trainer,
                mechanism,
                ledgers,
                state,
                done,
                checkpointer=checkpointer,
                checkpoint_every=checkpoint_every,
                on_divergence=on_divergence,
                stop=stop,
                on_round=on_round,
                after_call=after_call,
                on_verdict=verdicts.append,
            )
    finally:
        folder.write_held()
        bar.close()
        events.close()
        checkpointer.close()
    host = processes.to_host(state)
    params = cell_of(host.params, 0)
    summary = {
        "mechanism": config.mechanism,
        "rounds": done,
        "stopped_by_promise": done < config.num_rounds,
        **records.accuracy_summary(accuracies),
        "diverged_in_round": min(diverged, default=None),
        "params_sha256": params_sha256(params),
        "num_parameters": models.num_parameters(params),
        "attributes": trainer.federation.attributes.names,
        "private_attribute": trainer.federation.attributes.private,
        **promises.summary(config, trainer.mechanism_configs[0], ledgers[0], mechanism),
    }
    if trainer.admission is not None or config.corrupted_share > 0:
        summary |= admission.summary(
            config,
            trainer.federation.corrupted[0],
            np.asarray(host.admitted[0]),
            rounds=done,
            delta=config.target_delta,
        )
    folder.write("summary.json", summary)
    return summary
