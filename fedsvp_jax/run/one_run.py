"""One run, from settings to a folder of results."""

import hashlib

import numpy as np

from fedsvp_jax import federation
from fedsvp_jax.accounting import tradeoff
from fedsvp_jax.config import ResolvedConfig
from fedsvp_jax.core.files import AnyPath, Record, plain, replace_file, write_json
from fedsvp_jax.core.losses import ExampleLoss
from fedsvp_jax.core.structs import Model
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.tables import schema
from fedsvp_jax.federation import federated_data
from fedsvp_jax.federation.plan import recorded_settings
from fedsvp_jax.round.state import Aggregator

from . import final_scores, noise_key, published_scores
from .checkpoint import Checkpointer
from .environment import environment
from .folder import RunFolder
from .options import USUAL, Options
from .placement import Placement
from .session import Session
from .stopping import StopRequests
from .trained_model import SCHEMA
from .trainer import Trainer


def train(
    config: ResolvedConfig,
    output_dir: AnyPath,
    *,
    dataset: Dataset | ClientStore | None = None,
    model: Model | None = None,
    loss: ExampleLoss | None = None,
    aggregator: Aggregator | None = None,
    placement: Placement | None = None,
    options: Options = USUAL,
) -> Record:
    """Runs one resolved config and writes its folder.

    Files: config.json, metrics.jsonl, clients.jsonl, summary.json, checkpoints/, and
    schema.toml of a table that has one. They are byte-identical when the same settings
    run again on the same machine, interrupted or not; with `secret_noise`, where the
    same noise.key lies in the folder.

    Args:
      config: resolved settings (`config.resolve`).
      output_dir: new or empty, or with `options.resume` the folder of the same run.
      dataset: loaded by name when None.
      model: built by name when None.
      loss: `(output, target) -> ()` of one example: what training lowers and metrics
        report; cross-entropy with the labels when None (`losses`).
      aggregator: in the place of the average (`federation.build`).
      placement: where and in which portions the work runs.
      options: how it is kept and watched.

    Returns:
      The content of summary.json: lists and plain numbers, None where not finite.

    Raises:
      ValueError: settings, data or folder are not fit; nothing was overwritten.
      OSError: the folder cannot be written; every checkpoint stays.
      FloatingPointError: the run diverged; what it wrote so far stays.
      stopping.Stopped: SIGINT or SIGTERM came; the state is saved.
    """
    data = dataset or federated_data.load_data(config)
    folder = RunFolder(output_dir)
    secret = noise_key.of_folder(folder.path) if config.secret_noise else None
    program = federation.build(
        [config],
        data,
        model=model,
        loss=loss,
        aggregator=aggregator,
        noise_key=secret,
    )
    (config,) = program.configs
    published_scores.check(program, loss, data.schema)
    trainer = Trainer(program, placement=placement)
    if aggregator is not None and program.stream is None:
        trainer.lower()  # a part that does not fit is refused before anything is kept
    settings = recorded_settings(config, data, loss, model) | environment()
    if aggregator is not None:
        settings["aggregator"] = aggregator.decode.__qualname__
    secrets = {}
    if secret is not None:
        secrets[noise_key.FILE] = secret
        settings["noise_key"] = hashlib.sha256(secret).hexdigest()  # not another's
    folder.start(settings, resume=options.resume, secrets=secrets)
    if data.schema is not None:
        replace_file(folder.path / SCHEMA, schema.to_toml(data.schema).encode())
    with folder, StopRequests() as stop:
        checkpointer = Checkpointer(folder.path / "checkpoints", folder.identity)
        session = Session(trainer, folder, options, checkpointer)
        (summary,) = session.run(stop)
        attributes = program.data.counts.attributes
        summary = {
            "mechanism": config.mechanism,
            "rounds": session.done,
            "stopped_by": session.stopped_by,
            **summary,
            "attributes": attributes.names,
            "private_attribute": attributes.private,
            "by_client": session.accounts[0].by_client(),
        }
        if isinstance(data, Dataset) and data.schema is not None:
            summary["notices"] = data.notices
            summary["changed_cells"] = {
                name: {kind: [mask.sum(), mask.size] for kind, mask in masks.items()}
                for name, masks in data.changed_cells.items()
            }
        if program.data.client_names is not None:
            summary["client_names"] = program.data.client_names
        if config.influence_filter != "none" or config.corrupted_share > 0:
            summary["corrupted_clients"] = np.flatnonzero(program.data.corrupted[0])
        if config.influence_filter != "none":
            summary["rejected_clients"] = np.flatnonzero(
                ~np.asarray(session.state.admitted[0])
            )
        summary |= final_scores.scores_of(session, 0, settings, data, loss)
        summary["risk"] = tradeoff.by_adversary(session.accounts[0])
        if config.publish_scores:
            predicted = final_scores.predictions(session, 0, settings)
            columns = (
                data.schema.features if config.publish_columns and data.schema else {}
            )
            summary["published_scores"] = published_scores.noised_scores(
                *predicted, data.class_names, columns, program, summary
            )
        write_json(folder.path / "summary.json", summary)
    return plain(summary)
