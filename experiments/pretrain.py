"""Trains a backbone for the influence filter, to be used on another data set.

  python -m experiments.pretrain --dataset=cifar100 --data_dir=FOLDER \\
      --model=paper_cnn --pretrain_epochs=10 --output_dir=runs/backbone

The network is trained by plain SGD on all training images. It takes the place of a
published pretrained network, which would be stronger; nothing is downloaded. Pass the
file on with `experiments.influence --backbone=runs/backbone/backbone.safetensors`, for
a data set with images of the same shape and with the same --model.

Written to --output_dir: config.json, metrics.jsonl (one line per epoch),
backbone.safetensors (the weights after the last complete epoch). --resume continues.
"""

import pathlib

from absl import flags

from fedsvp_jax.config import ExperimentConfig

from . import command

_SETTINGS = (
    "dataset",
    "data_dir",
    "model",
    "batch_size",
    "learning_rate",
    "augment",
    "max_test_examples",
    "eval_batch_size",
    "seed",
)
_FILE = "backbone.safetensors"

command.define_settings(
    without=[
        name for name in ExperimentConfig.__dataclass_fields__ if name not in _SETTINGS
    ]
)
command.define_output()
flags.DEFINE_integer("pretrain_epochs", 10, "Epochs to train.", lower_bound=1)
flags.DEFINE_bool("progress", True, "Show a progress bar on a terminal.")


def train(values: flags.FlagValues, config: ExperimentConfig) -> dict[str, float]:
    """Trains, saves after each epoch and returns the last line of metrics.jsonl.

    Raises:
      FloatingPointError: the test loss is not finite.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np
    from tqdm import tqdm

    from fedsvp_jax import models, prng
    from fedsvp_jax.algorithm import evaluation
    from fedsvp_jax.algorithm.local_training import TrainingRecipe
    from fedsvp_jax.data import preprocessing
    from fedsvp_jax.devices import lanes
    from fedsvp_jax.federation import loading
    from fedsvp_jax.influence import pipeline
    from fedsvp_jax.structs import Model, Weights

    from .influence import backbone

    data = loading.load_dataset(config)
    examples = preprocessing.device_examples(data.train_inputs, data.train_labels)
    test = preprocessing.device_examples(data.test_inputs, data.test_labels)

    def build(num_classes: int) -> Model:
        return models.make_model(config.model, num_classes=num_classes)

    model, root = build(data.num_classes), prng.root_key(config.seed)
    example = preprocessing.normalize(examples.inputs[:1])
    chosen = {name: getattr(config, name) for name in _SETTINGS}
    chosen |= {"pretrain_epochs": values.pretrain_epochs}
    chosen |= {"data_fingerprint": data.fingerprint}
    folder = command.start_folder(values, chosen)
    path = folder.path / _FILE
    done = 0
    params, stats = model.init(prng.stream_key(root, prng.Stream.INIT), example)
    if path.exists():
        params, stats, about = backbone.load(path, build, example)
        done = int(about["epochs"])
    folder.keep_rounds("metrics.jsonl", done)

    @jax.jit
    def score(params, stats):  # type: ignore[no-untyped-def]
        return evaluation.evaluate(
            model,
            params,
            stats,
            test,
            batch_size=min(config.eval_batch_size, test.labels.shape[0]),
            devices=lanes.Devices(1, jnp.int32(0)),
        )

    bar = tqdm(
        range(done, values.pretrain_epochs),
        unit="epoch",
        initial=done,
        total=values.pretrain_epochs,
        disable=None if values.progress else True,
    )
    for epoch in bar:
        params, stats = pipeline.warm_up(
            model,
            TrainingRecipe(config.batch_size, 1, "mean", augment=config.augment),
            Weights(params, stats),
            examples,
            config.learning_rate,
            prng.round_key(root, epoch),
        )
        test_scores = score(params, stats)
        if not np.isfinite(test_scores.loss):
            raise FloatingPointError(
                f"training diverged in epoch {epoch + 1}; a smaller --learning_rate "
                "may help"
            )
        row = {
            "round": epoch + 1,
            "test_accuracy": np.asarray(test_scores.accuracy)[()],
            "test_loss": np.asarray(test_scores.loss)[()],
        }
        folder.append("metrics.jsonl", [row])
        about = {
            "dataset": data.name,
            "model": config.model,
            "num_classes": str(data.num_classes),
            "epochs": str(epoch + 1),
            "test_accuracy": f"{test_scores.accuracy:.4f}",
        }
        backbone.save(path, params, stats, about)
        bar.set_postfix(accuracy=about["test_accuracy"])
    return folder.rows("metrics.jsonl")[-1]


def main(_: list[str]) -> None:
    """Trains the backbone that the flags describe and prints its test accuracy."""
    values = flags.FLAGS
    command.start_jax(values)
    config = command.settings_from_flags(values)
    row = train(values, config)
    print(f"test_accuracy after {row['round']} epochs: {row['test_accuracy']:.4f}")
    command.print_files([pathlib.Path(values.output_dir) / _FILE])


if __name__ == "__main__":
    command.run(main, __doc__)
