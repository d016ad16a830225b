"""Puts a data set's clients on disk, for populations larger than memory.

  python -m experiments.build_store --dataset=femnist --data_dir=FOLDER \\
      --output_dir=stores/femnist
  python -m experiments.train --dataset=store --data_dir=stores/femnist \\
      --model=leaf_cnn --output_dir=runs/femnist

One pass, a client at a time: LEAF json is read a file at a time, an .npz file's inputs
are unpacked beside the store and mapped, prepared tensorflow-datasets are read by
example. --partition=by_writer makes every writer a client; the other partitions
divide data without writers among --num_clients. A run on the store draws its clients
from it, reads a cohort a round, and has the numbers of the same run in memory.

Written to --output_dir: inputs.npy, labels.npy, clients.npy, test_inputs.npy,
test_labels.npy, store.json. The folder appears when it is complete.

Exit status: 0 done; 2 bad input, told in one line.
"""

import dataclasses
import pathlib
import tempfile

from absl import flags

from fedsvp_jax.config import ExperimentConfig

from . import command

_READ = (
    "dataset",
    "data_dir",
    "partition",
    "num_clients",
    "class_share",
    "dirichlet_alpha",
    "shards_per_client",
    "seed",
)
command.define_settings(
    without=[
        field.name
        for field in dataclasses.fields(ExperimentConfig)
        if field.name not in _READ
    ]
)
flags.DEFINE_string("output_dir", None, "Folder of the store, a new one.")
flags.mark_flag_as_required("output_dir")


def main(_: list[str]) -> None:
    """Builds what the flags name."""
    values = flags.FLAGS
    config = command.settings_from_flags(
        values, cohort_size=1, num_hbc_clients=0, batch_size=1
    )

    from fedsvp_jax.data import client_store
    from fedsvp_jax.federation import store_builder

    folder = pathlib.Path(values.output_dir).expanduser()
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".build_") as scratch:
        stream = store_builder.client_stream(config, pathlib.Path(scratch))
        store = client_store.write_store(folder, stream)
    sizes = store.clients[:, 1]
    print(
        f"{len(sizes)} clients with {sizes.min()} to {sizes.max()} examples, "
        f"{sizes.sum()} in all, in {folder}"
    )


if __name__ == "__main__":
    command.run(main, __doc__)
