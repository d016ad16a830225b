"""The settings of every run, by theme: rounds, training, noise, scores, execution."""

import dataclasses

from .clips import CLIPS, Clip
from .settings import (
    FEATURE_MODELS,
    LEAST_CLIP,
    MODEL_NAMES,
    NEEDS_ESTIMATION,
    Settings,
    setting,
)

_LINEAR = "|".join(("model=logistic", *FEATURE_MODELS))


@dataclasses.dataclass(frozen=True)
class RoundSettings(Settings):
    """Rounds: how many clients train how long."""

    num_clients: int | None = setting(
        None,
        "M: clients of the federation. Default: 100 (digits: 30), of your own data the "
        "writers, or one for 50 examples.",
        at_least=1,
    )
    cohort_size: int | None = setting(
        None,
        "K: clients per round. Default: 10, of your own data at most all.",
        at_least=1,
    )
    cohorts: str = setting(
        "drawn",
        "drawn: every cohort is a uniform draw of its own. cyclic: the clients are "
        "dealt once into cohorts that take turns, so num_clients/cohort_size rounds "
        "lie between two uploads of a client. Where a claim rests on a whole cohort, "
        "one that is not whole does not upload.",
        choices=("drawn", "cyclic"),
    )
    num_rounds: int = setting(50, "T: rounds.", at_least=1)
    max_uploads: int | None = setting(
        None,
        "The most uploads of one client over the run that spend its budget; a client "
        "that has sent so many is not asked again. Where a claim rests on a whole "
        "cohort, one that is not whole does not upload. --solve=noise adds the least "
        "noise for so many. Default: one in every round.",
        at_least=1,
    )
    local_epochs: int = setting(
        2,
        "E: epochs of local training per round.",
        at_least=1,
        needs="local_steps=None",
    )
    batch_size: int | None = setting(
        None,
        "B: local batch size. Default: 50 (digits: 10), of your own data at most a "
        "quarter of a client's examples.",
        at_least=1,
    )
    batches: str = setting(
        "shuffled",
        "Which records a local step sees. shuffled: the next B of a random order, each "
        "once per epoch; poisson: every record with probability B/|D|, in secret, "
        "which amplifies privacy against the server too.",
        choices=("shuffled", "poisson"),
        needs="clipping=per_example",
    )
    local_steps: int | None = setting(
        None,
        "Local steps per round. Default: as many as --local_epochs epochs have.",
        at_least=1,
        needs="batches=poisson",
    )


@dataclasses.dataclass(frozen=True)
class TrainingSettings(Settings):
    """Training: the model and what a client computes with it."""

    model: str | None = setting(
        None,
        "Model. Default: small_cnn for digits, leaf_cnn for (Fashion-)MNIST and "
        "FEMNIST, paper_cnn for EMNIST, resnet18 for CIFAR, mlp for tables. logistic: "
        "one linear layer on a table's features. scatter_linear: a linear layer on "
        "scattering coefficients normalised within the image, scatter_channels_linear "
        "by channel; they are computed once.",
        choices=MODEL_NAMES,
    )
    class_shares: str | None = setting(
        None,
        "Public shares of the classes, in their order with commas between them: a "
        "linear model starts with biases that predict them. Default: all the same; "
        "--goal takes a schema's.",
        needs=_LINEAR,
    )
    class_weights: str | None = setting(
        None,
        "Public weights of the classes, in their order with commas between them: "
        "factors of the loss in local training, before anything is clipped. "
        "Default: 1 each.",
    )
    separate_clips: bool = setting(
        False,
        "Clip of each example of a linear model the residual (predicted probabilities "
        "less the label) to norm 1, and the features, with the 1 of the bias, to C, in "
        "the place of their product, the gradient. How much an example is shortened "
        "then hardly depends on its label, and probabilities keep the classes' shares.",
        needs=_LINEAR,
    )
    learning_rate: float | None = setting(
        None, "Step size of a client's SGD. Default: 0.1.", above=0
    )
    augment: bool | None = setting(
        None, "Random crop and flip of training images. Default: for CIFAR only."
    )
    weighting: str = setting(
        "examples",
        "Weights of the average of uploads: examples (n_i/n), or uniform (the "
        "authors' public code).",
        choices=("examples", "uniform"),
        needs="noise_trust=nobody",  # sums weigh all clients equally
    )
    compute_dtype: str = setting(
        "float32",
        "Number format of the products in local training. bfloat16 is meant for "
        "hardware that multiplies it (TPUs, GPUs); on a CPU it gains nothing so far "
        "(docs/performance.md). Weights, clip, noise, averages, utilities and "
        "accounting stay float32.",
        choices=("float32", "bfloat16"),
    )


@dataclasses.dataclass(frozen=True)
class NoiseSettings(Settings):
    """Noise: what every mechanism reads."""

    epsilon: float = setting(
        0.5,
        "Privacy budget ε of one upload. It is not the budget of the run: see "
        "--total_epsilon.",
        above=0,
        traced=True,
    )
    delta: float | None = setting(
        None,
        "Failure probability δ of one upload. Default: 1/batch_size, as published, "
        "which is far too large for a real guarantee.",
        above=0,
        below=1,
        traced=True,
    )
    l2_norm_clip: float | None = setting(
        None,
        "C: bound on the norm that --clipping names. FedAvg (mechanism none) clips "
        "its gradients too, unless C is inf. Default: 20 (digits, adult, your own: 1).",
        at_least=LEAST_CLIP,
        infinite=True,
        traced=True,
    )
    clipping: str = setting(
        "paper",
        "What C clips, hence the sensitivity that scales the noise. "
        + "; ".join(f"{clip.name}: {clip.words}" for clip in CLIPS.values())
        + ".",
        choices=tuple(CLIPS),
    )
    noise_examples_scale: float = setting(
        1.0,
        "The noise is that of a client with so many times the examples: 2C/|D| becomes "
        "2C/(scale·|D|). For the noise of a paper's clients on fewer examples; what is "
        "claimed is then about clients of the paper's size, and nominal.",
        above=0,
        needs="clipping=paper",
    )
    relation: str = setting(
        "replace_one",
        "Neighbouring relation: replace_one or add_remove (of update_clip: a whole "
        "client; of per_example: one record, or all rows of a person where a schema "
        "names one, which is left out of its batches; of "
        "attribute_records: the contribution of one private record). The relation of "
        "dp_fedavg is always add_remove.",
        choices=("replace_one", "add_remove"),
        needs="clipping="
        + "|".join(clip.name for clip in CLIPS.values() if clip.either_relation),
    )
    noise_trust: str = setting(
        "nobody",
        "Whom an upload's noise trusts. nobody: each client adds all of the noise, "
        "which hides its upload from the server too. secure_aggregation: nobody sees "
        "more than a cohort's sum, so each of its K clients adds a part of "
        "std/√(K − --colluders); the average then has equal weights.",
        choices=("nobody", "secure_aggregation"),
    )
    noise_sampler: str = setting(
        "gaussian",
        "gaussian: noise in floating point, whose rounding no proof covers. discrete: "
        "whole numbers of a grid from an exact sampler, which are sent and added up "
        "modulo 2^b; for clipped uploads. With per_example an upload is "
        "the one step's gradient of all of a client's rows.",
        choices=("gaussian", "discrete"),
    )
    noise_bits: int = setting(
        16,
        "b: bits per number of an upload; fewer make the grid coarser.",
        at_least=8,
        at_most=24,
        needs="noise_sampler=discrete",
    )
    colluders: int = setting(
        1,
        "h: honest-but-curious clients who pool what they know, for the guarantee "
        "against colluding clients and for the parts of noise that a cohort shares, "
        "where h counts the clients that drop out of a sum too.",
        at_least=1,
    )
    calibration: str = setting(
        "classical",
        "Gaussian noise for (ε, δ): classical (as published, proved for ε < 1) or "
        "analytic (Balle and Wang 2018).",
        choices=("classical", "analytic"),
    )
    allow_large_epsilon: bool = setting(
        False,
        "Let the classical calibration run at ε >= 1, without a proof.",
        needs="calibration=classical",
    )
    contribution_release: str = setting(
        "raw",
        "How the noise uses the contribution ratio R: raw (R itself, as published: "
        "the noise leaks R), worst_case (always R = 1), laplace or "
        "randomized_response (a differentially private estimate of R).",
        choices=("raw", "worst_case", "laplace", "randomized_response"),
    )
    release_epsilon: float = setting(
        0.1,
        "Budget of one release of R (laplace, randomized_response). At most 10: a draw "
        "in float32 cannot tell smaller probabilities apart.",
        above=0,
        at_most=10,
        needs="contribution_release=laplace|randomized_response",
        traced=True,
    )

    @property
    def clip(self) -> Clip:
        """The clipping rule that `clipping` names."""
        return CLIPS[self.clipping]

    @property
    def uploads_gradient(self) -> bool:
        """Whether an upload is the mean clipped gradient of all of a client's rows.

        It gets whole numbers of noise, which local steps cannot take.
        """
        return self.clip.in_steps and self.noise_sampler == "discrete"


@dataclasses.dataclass(frozen=True)
class MechanismChoice(Settings):
    """Mechanism: which one adds the noise."""

    mechanism: str = setting(
        "fedsva", "Noise mechanism; see the list at the top of this help."
    )


@dataclasses.dataclass(frozen=True)
class EvaluationSettings(Settings):
    """Evaluation: when and how the server tests the model."""

    eval_every: int = setting(1, "Rounds between evaluations.", at_least=1)
    validation_examples: int = setting(
        0,
        "So many test examples, the same for every seed, leave the test set and choose "
        "the best round.",
        at_least=0,
    )
    publish_scores: bool = setting(
        False,
        "Also write scores of the test rows that may be published, with noise: AUC "
        "(of two classes) and accuracy with 95 % intervals, in summary.json "
        "(`published_scores`). For runs that hide one record or person. No client "
        "trains on a test row, so the ε of the run stays the same. `fedsvp site "
        "propose` takes it too: over all sites, in scores.json.",
        needs="total_epsilon",
    )
    publish_columns: bool = setting(
        False,
        "With scores, also publish how many test rows of each class are in each part "
        "of each column, with shares and crude odds ratios: a Table 1 with noise.",
        needs="publish_scores",
    )
    eval_batch_size: int = setting(
        250, "Examples in one evaluation batch.", at_least=1, at_most=100_000
    )


@dataclasses.dataclass(frozen=True)
class ExecutionSettings(Settings):
    """Execution: the seed, and what may change the last bits."""

    seed: int = setting(0, "Seed of everything: data, cohorts, noise.", at_least=0)
    secret_noise: bool = setting(
        False,
        "Draw noise and Poisson batches from the system's entropy: a seed can be "
        "guessed. The key is kept in the run's folder (noise.key). --goal does so "
        "unless --seed is named.",
    )
    client_chunk_size: int | None = setting(
        None,
        "Clients that train side by side in one vmapped product; 1 trains them one by "
        "one. Another size may change the last bits. Default: by model, device and its "
        "memory.",
        at_least=1,
    )
    coalition_chunk_size: int | None = setting(
        None,
        "Coalitions of a client that train side by side; 1 trains them one by one. "
        "Another size may change the last bits. Default: 1 on a CPU, else by "
        "model and memory.",
        at_least=1,
        needs=NEEDS_ESTIMATION,
    )
    paired_noise: bool = setting(
        False,
        "Draw the noise from the seed alone, so that runs of one seed share it "
        "whatever their settings: comparisons then vary less. But of two published "
        "runs of a seed it cancels, and the updates are bare: every claim is nominal.",
    )
