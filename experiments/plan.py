"""Says what a table can afford: risk, accuracy and AUC by ε and by whom you trust.

  fedsvp plan DATA.csv --schema=schema.toml --total_epsilon=1,3,8
  fedsvp plan --num_clients=54 --num_examples=1192 --schema=schema.toml

The second is for whoever has no rows: --num_examples is of all clients together, and
--max_num_examples of the largest. All others count as equal, and the rows for the test
as the schema's test_fraction beside them.

Of DATA.csv only the number of rows of every client, of every person of a [person]
column, and a column `split` are read, which are public in any case; they are divided as
`train` divides them. As many synthetic rows are drawn from the
schema: numbers uniformly between their bounds, categories evenly, classes by a random
linear model in the shares that the schema states. Nobody
knows before a run how much your columns tell of the class. So two such sets of rows are
drawn: the best AUC of one is the smaller number of --auc, that of the other the larger.
Every figure is an interval from the one to the other. The route of train --goal is
trained on both at every ε and seed, for three kinds of trust, beside logistic
regression without any privacy:

- nobody: the server sees each upload, and every client adds all of the noise itself;
- secure_aggregation: the server sees sums alone, of which clients share the noise;
- trusted_server: one server holds all rows: train --client_column=none.

First stands a recommendation, or why there is none: the smallest ε from which on the
private model is "better than guessing", with secure aggregation where that is a choice,
and the AUC that a model of your columns must reach without privacy. It is the ε for
columns that tell little, if one that was tried suffices there; a smaller one that
suffices where they tell more is named. Then both stand by kind of trust: for an AUC
near the smaller number of --auc, and for one midway between the two. The table has,
for every ε, the AUC that must be reached. "Better" is as after a training
(`scores.verdict`): the 95 % interval of AUC, on as many test rows as the table has,
lies above 1/2, and the log loss below that of the classes' shares.

Written to --output_dir: epsilon.html, a page with a slider for ε that needs no network,
and epsilon.json, its numbers; a folder with those of another table is refused. Risk is
what ε and δ bound, whatever an adversary knows of all other rows
(fedsvp_jax/accounting/tradeoff.py).

Exit status: 0 done; 2 a file cannot be read (one line says why).
"""

import bisect
import dataclasses
import itertools
import pathlib
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy as np
from absl import flags
from scipy import special

from fedsvp_jax import federation, run
from fedsvp_jax.accounting import claims
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.files import Record, read_json
from fedsvp_jax.core.progress import progress_bar
from fedsvp_jax.data.tables import files, table_file
from fedsvp_jax.data.tables import scores as table_scores
from fedsvp_jax.data.tables.schema import SchemaColumn, read_schema
from fedsvp_jax.data.tables.table import NOBODY, blank_rows, from_table
from fedsvp_jax.report import epsilon_page, read
from fedsvp_jax.run import sweep

from . import command, flag_values, goal, messages

command.define("plan")
_LABELS = {
    "nobody": "server sees each upload",
    "secure_aggregation": "secure aggregation",
    "trusted_server": "trusted server",
}
_HOLDER = "one holder of all rows"  # without clients there is no server to trust
_NOTHING = "no feature"  # in the place of all columns: no two rows are the same
_TESTED = 2000  # synthetic rows for the test
_FITTED = 4000  # synthetic rows that fit the slope
_STEPS = 40  # of the fit of the biases
_SLOPES = np.linspace(0, 64, 8193)  # among which the fit chooses


def logits_of(scores: np.ndarray, shares: Sequence[float], auc: float) -> np.ndarray:
    """(n, classes) slope·scores + biases: classes of these shares and this best AUC.

    The AUC is that of the chances themselves, over classes drawn by them, a mean over
    classes of each against the rest; the slope is found by halving, the biases by
    repeated correction.

    Args:
      scores: (n, classes) of the random linear model.
      shares: of the classes.
      auc: in (1/2, 1).
    """
    fitted = scores[:_FITTED]
    draws = np.random.default_rng(0).gumbel(size=fitted.shape)
    proportions = np.asarray(shares) / np.sum(shares)

    def biased(slope: float) -> np.ndarray:
        bias = np.log(proportions)
        for _ in range(_STEPS):
            chances = special.softmax(slope * fitted + bias, axis=1)
            bias += np.log(proportions / chances.mean(0))
        return bias

    def area_of(slope: float) -> float:
        logits = slope * fitted + biased(slope)
        chances = special.softmax(logits, axis=1)
        scored = table_scores.of_table(chances, (logits + draws).argmax(1), None)
        return scored["auc"] or 1.0  # None: a class has no row

    slope = _SLOPES[bisect.bisect(_SLOPES[:-1], auc, key=area_of)]
    return slope * scores + biased(slope)


def divided(schema: Any, table: Any, client: str | None, source: str) -> Any:
    """The data set of a training on the table, without its features and classes.

    Args:
      client: the column of clients; None: the schema's.
      source: the file, in messages.

    Raises:
      ValueError: as `from_table`, of columns that are not in the schema, too.
    """
    features = schema.columns.keys() - {client or schema.client, schema.person}
    count = len(next(iter(table.values())))
    columns = {name: table[name] for name in table if name and name not in features}
    columns |= {
        schema.label: [schema.classes[0]] * count,
        _NOTHING: np.arange(count) + 1e9 + 0.5,
    }
    # Beside 1e9 the rows differ too little to be asked of.
    nothing = {_NOTHING: SchemaColumn("number", (0, 2e9), from_data=False)}
    schema = dataclasses.replace(schema, columns=nothing, shares=())
    return from_table(columns, schema=schema, client=client, name=source)


def synthetic(schema: Any, data: Any, seed: int, auc: float) -> Any:
    """`divided` data with features and classes of the schema's shape."""
    rng = np.random.default_rng(seed)
    rows, blocks = len(data.train_labels) + _TESTED, []
    for column in schema.features.values():
        if column.type == "category":
            one_hot = np.eye(column.width, dtype=np.float32)
            blocks.append(one_hot[rng.integers(column.width, size=rows)])
        else:
            uniform = rng.uniform(-1, 1, (rows, column.width))
            blocks.append(uniform.astype(np.float32))
    inputs = np.concatenate(blocks, axis=1)
    scores = inputs @ rng.normal(size=(inputs.shape[1], len(schema.classes)))
    logits = logits_of((scores - scores.mean(0)) / scores.std(), schema.shares, auc)
    labels = (logits + rng.gumbel(size=logits.shape)).argmax(1).astype(np.int32)
    return dataclasses.replace(
        data,
        name=f"made-up rows of AUC {auc:g}",
        train_inputs=inputs[_TESTED:],
        train_labels=labels[_TESTED:],
        test_inputs=inputs[:_TESTED],
        test_labels=labels[:_TESTED],
        test_writers=None,
        columns={},
        test_columns={},
        schema=schema,
        from_records=schema.from_records,
        public_test=True,
    )


def main(arguments: Sequence[str]) -> None:
    """Trains on synthetic rows at every ε and kind of trust, and prints the table."""
    values = flags.FLAGS
    if len(arguments) - 1 + bool(values.num_examples) != 1:
        raise ValueError(
            "name one table, or state --num_clients and --num_examples in its place"
        )
    epsilons = sorted(flag_values.numbers("total_epsilon", values.total_epsilon))
    ExperimentConfig(dataset="csv", total_epsilon=epsilons[0])  # refuses 0
    areas = sorted(flag_values.numbers("auc", values.auc))
    if len(areas) > 2 or not 0.5 < areas[0] <= areas[-1] < 1:
        raise ValueError(
            "auc must be one or two numbers between 0.5 and 1, got "
            f"{','.join(values.auc)}"
        )
    schema = read_schema(pathlib.Path(values.schema))
    if not schema.shares:
        raise ValueError(
            f"{values.schema} states no shares of the classes: add shares = [...] "
            "below [label], as they are known without the records (a registry, a "
            "publication)"
        )
    if examples := values.num_examples:
        if values.client_column:
            raise ValueError("client_column is a table's: name the table, or remove it")
        largest = values.max_num_examples or -(-examples // values.num_clients)
        stated = goal.stated_sizes(values.num_clients, examples, largest)
        path, data = pathlib.Path("stated rows"), blank_rows(schema, stated)
        fraction = schema.test_fraction or 0.2
        tested = max(1, round(examples * fraction / (1 - fraction)))
    else:
        path = pathlib.Path(arguments[1])
        columns, _ = table_file.read_table(path, schema)
        client = values.client_column or schema.client
        client = None if client == NOBODY else client
        files.check_columns(
            (client, schema.person, *schema.features), columns, str(path)
        )
        data = divided(schema, columns, values.client_column, str(path))
        tested = len(data.test_labels)
    page_data = pathlib.Path(values.output_dir, "epsilon.json")
    if page_data.exists() and read_json(page_data).get("data") != path.stem:
        raise ValueError(f"{page_data} is of another table: name a new --output_dir")
    sizes = goal.training_sizes(data, values.num_clients)
    plans = [
        _planned(synthetic(schema, data, values.seed, area), epsilons, len(sizes))
        for area in areas
    ]
    counts = np.maximum(np.rint(tested * np.array(schema.shares)), 1)
    document = _joined(plans, areas, counts) | {
        "data": path.stem,
        "choice": "trust",
        "guessing": max(schema.shares),
        "test_rows": None,
        "opens": len(epsilons) // 2,
    }
    print(
        messages.filled(
            "plan.txt",
            sizes=sizes,
            document=document,
            better=table_scores.BETTER,
            tested=tested,
            stated=bool(values.num_examples),
            schema=schema,
        )
    )
    command.print_files(epsilon_page.write_epsilon_page(values.output_dir, document))


def _worth(accuracy: Record, counts: np.ndarray) -> Record:
    """Its `worth`: the verdict, or from which best AUC of columns on it is `BETTER`.

    It is that of the worst training. Between the weak and the strong columns its AUC,
    and its log loss above that of the shares, are taken as linear in the best AUC.

    Returns:
      Also that AUC, `needed`: in hundredths, rounded up; None where the verdict is
      another even of the strong columns.
    """
    ends = np.array([accuracy[name] for name in ("auc_between", "excess", "best")])
    needed = None
    for area, excess, best in np.linspace(ends[:, 1], ends[:, 0], 101).tolist():
        verdict = table_scores.verdict(_auc_interval(area, counts), excess, 0.0)
        if verdict != table_scores.BETTER:
            if needed:
                verdict = f"{table_scores.BETTER} if the best AUC is ≥ {needed:.2f}"
            return {"worth": verdict, "needed": needed}
        needed = round(best + 0.005 - 1e-6, 2)  # up
    return {"worth": verdict, "needed": accuracy["best"][0]}


def _auc_interval(area: float, counts: np.ndarray) -> list[float]:
    """As `scores.of_table` has it: of two classes, the second says all."""
    areas = [area] * (len(counts) if len(counts) > 2 else 1)
    return table_scores.mean_interval(areas, counts)


def _planned(data: Any, epsilons: Sequence[float], num_clients: int) -> Record:
    """What epsilon.json says of one strength: kinds of trust, and the reference.

    Beside the accuracy of each stand the `trained`, the scores of its models. A bar
    shows on standard error how many kinds of trust at how many ε are done.
    """
    values = flags.FLAGS
    kinds = [*_LABELS]
    if data.schema.unit == "client":
        kinds = ["secure_aggregation"]
    elif num_clients == 1:
        kinds = ["nobody"]
    if values.noise_trust:
        kinds = [values.noise_trust]
    steps = [*itertools.product(kinds, epsilons)]
    document: Record = {}
    points = []
    for trust, epsilon in progress_bar(
        steps, total=len(steps), unit="trust and ε", desc=data.name
    ):
        document = _swept(data, trust, epsilon, num_clients)
        (point,) = document["points"]
        one_holder = num_clients == 1
        point["mechanism"] = _HOLDER if one_holder else _LABELS[trust]
        if one_holder or trust == "trusted_server":
            # Of one client's server: it sees what whoever sees the models sees.
            main = next(
                guarantee
                for guarantee in point["guarantees"]
                if guarantee["adversary"] == point["adversary"]
            )
            point["adversary"] = main["adversary"] = "whoever sees the models"
            point["guarantees"] = [main]
        points.append(point)
    config = ExperimentConfig(dataset="csv", num_attributes=1)
    scores = run.reference_scores(resolve(config, data), data)
    accuracy = scores["accuracy"]
    reference = {"lower": accuracy, "upper": accuracy, "trained": [scores]}
    return document | {"points": points, "reference": reference}


def _swept(data: Any, trust: str, epsilon: float, num_clients: int) -> Record:
    """`epsilon_page.document` of the route, whose one point has its `trained` too."""
    values = flags.FLAGS
    if trust == "trusted_server":
        trust, num_clients = "nobody", 1
        data = dataclasses.replace(data, train_writers=None)
    sizes = goal.training_sizes(data, num_clients)
    base = ExperimentConfig(
        dataset="csv",
        seed=values.seed,
        noise_trust=trust,
        colluders=values.colluders or goal.default_colluders(num_clients),
        num_clients=num_clients,
        total_epsilon=epsilon,
    )
    route = goal.route_settings(base, data)
    route |= {"solve": "uploads", "total_epsilon": None}
    route["eval_every"] = route["num_rounds"]
    config = resolve(dataclasses.replace(base, **route), data)
    assumptions = _assumptions(base, data, goal.has_whole_steps(data, sizes))
    plan = sweep.SweepPlan(
        (config.mechanism,),
        (config.epsilon,),
        (*range(values.seed, values.seed + values.num_seeds),),
        None,
        (epsilon,),
    )
    with tempfile.TemporaryDirectory() as folder:
        sweep.sweep(config, plan, folder, dataset=data)
        swept = read.read_sweep(folder)
        for cell in swept.cells:
            for claim in cell["guarantees"]:
                key = claim["adversary"], claim["copies"]
                claim["assumptions"] = assumptions.get(key, claim["assumptions"])
        document = epsilon_page.document(
            swept, rows="synthetic rows that were drawn from the schema"
        )
    (point,) = document["points"]
    of_rows = data.schema.unit != "client"
    point["noise"] = goal.steps(base, data, sizes).noise if of_rows else None
    point["accuracy"]["trained"] = [cell["test_scores"] for cell in swept.cells]
    return document


def _assumptions(
    base: ExperimentConfig, data: Any, is_whole: bool
) -> dict[tuple[str, int], str]:
    """What the claims of train --goal rest on, by adversary and copies."""
    base = dataclasses.replace(
        base,
        secret_noise=True,
        noise_sampler="discrete" if is_whole else base.noise_sampler,
    )
    config = resolve(dataclasses.replace(base, **goal.route_settings(base, data)), data)
    program = federation.build([config], data, noise_key=bytes(8))  # draws nothing
    return {
        (claim.adversary, claim.copies): claim.assumptions
        for claim in claims.table(program.accounts[0], ["rdp"])
        if claim.method == "rdp"
    }


def _joined(
    plans: Sequence[Record], areas: Sequence[float], counts: np.ndarray
) -> Record:
    """One document: every figure from the plan of weak columns to that of strong.

    The interval of an AUC is that of the table's test rows, `counts` by class.
    """
    weak, strong = plans[0], plans[-1]
    words = (
        "from the lower end of the 95 % interval on synthetic rows whose columns tell "
        f"little of the class (best AUC {areas[0]:g}) to the upper end on rows whose "
        f"columns tell much ({areas[-1]:g})"
    )

    def between(low: Record, high: Record) -> Record:
        both = low["trained"], high["trained"]
        tried = [[scores["auc"] or 0.5 for scores in trained] for trained in both]
        ends = {
            "auc_between": [*map(min, tried)],
            "excess": [
                max(each["log_loss"] - each["guessing_log_loss"] for each in trained)
                for trained in both
            ],
            "best": [areas[0], areas[-1]],
        }
        return ends | {
            **_worth(ends, counts),
            "tried": tried,
            "seeds": len(both[0]),
            "mean": None,  # of two sorts of tables there is none
            "lower": min(low["lower"], high["lower"]),
            "upper": max(low["upper"], high["upper"]),
            "auc": None,
            "auc_ends": [
                _auc_interval(min(tried[0]), counts)[0],
                _auc_interval(max(tried[1]), counts)[1],
            ],
            "interval": words,
        }

    points = [
        point | {"accuracy": between(point["accuracy"], other["accuracy"])}
        for point, other in zip(weak["points"], strong["points"], strict=True)
    ]
    reference = between(weak["reference"], strong["reference"]) | {
        "name": "logistic regression without privacy"
    }
    return weak | {"points": points, "reference": reference}


if __name__ == "__main__":  # `output_dir` is a flag of other commands too
    command.define("plan_output")
    command.run(main, __doc__, takes_arguments=True)
