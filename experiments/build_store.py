"""Writes a data set to disk client by client, for populations larger than memory.

  fedsvp build_store --dataset=femnist --data_dir=FOLDER \\
      --output_dir=stores/femnist
  fedsvp train --dataset=store --data_dir=stores/femnist \\
      --model=leaf_cnn --output_dir=runs/femnist

LEAF JSON is read file by file; other data sets are read whole, once. Clients that come
one by one from a program of your own are written by
fedsvp_jax.data.store.writer.write_store. --partition=by_writer makes every writer a
client; the other partitions divide data without writers among --num_clients. A run on
the store reads the clients of each cohort when they are sampled, and has the numbers
of the same run in memory.

Written to --output_dir: inputs.bin, labels.bin, clients.npz, store.json. The folder
appears when it is complete.

Exit status: 0 done; 2 bad input (one line says why).
"""

import dataclasses
import pathlib

from absl import flags

from fedsvp_jax.config import ExperimentConfig
from fedsvp_jax.data.source_settings import TableSettings

from . import command

_SETTINGS = {
    "dataset",
    "data_dir",
    "partition",
    "num_clients",
    "class_share",
    "dirichlet_alpha",
    "seed",
    *(field.name for field in dataclasses.fields(TableSettings)),
}
every = {field.name for field in dataclasses.fields(ExperimentConfig)}
command.define_settings(without=every - _SETTINGS)
command.define("build_store")


def main(_: list[str]) -> None:
    """Builds the store."""
    values = flags.FLAGS
    config = command.settings_from_flags(
        values, cohort_size=1, num_hbc_clients=0, batch_size=1
    )

    from fedsvp_jax.data.store import writer
    from fedsvp_jax.federation import store_builder

    folder = pathlib.Path(values.output_dir).expanduser()
    folder.parent.mkdir(parents=True, exist_ok=True)
    store = writer.write_store(folder, store_builder.store_source(config))
    sizes = store.clients[:, 1]
    print(
        f"{len(sizes)} clients with {sizes.min()} to {sizes.max()} examples each, "
        f"{sizes.sum()} in total, in {folder}"
    )


if __name__ == "__main__":
    command.run(main, __doc__)
