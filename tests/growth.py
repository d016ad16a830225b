"""How the cost of what grows grows: CPU seconds at four sizes, and their exponent.

  make growth
  python -m tests.growth [CASE ...] | tee docs/results/growth.jsonl

Each size is measured in a process of its own, so that its peak memory is its own: the
median of three, or one where one takes over ten seconds. A row of a case has its
seconds and MiB by size, the exponent of the seconds (the slope of their logarithms),
the commit and the kind of the machine.
docs/scaling.md shows them. The library's tests measure the smaller sizes, and fail
where an exponent passes 1.25.

Exit status: 0 done; 1 a size failed (its error is on standard error).
"""

import dataclasses
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from experiments import provenance
from experiments.attack import audit_play
from experiments.attack.audit_cases import cases_of
from fedsvp_jax import federation
from fedsvp_jax.accounting import Account, Participation, claims, composed_epsilon
from fedsvp_jax.config import ExperimentConfig, resolve
from fedsvp_jax.core.files import sha256
from fedsvp_jax.core.structs import Model
from fedsvp_jax.data import partition
from fedsvp_jax.data.dataset import ClientStore, Dataset
from fedsvp_jax.data.store.clients import StoredClients
from fedsvp_jax.data.train_validation import Division
from fedsvp_jax.deploy import Site, Trained, answer, chain, make_policy
from fedsvp_jax.deploy.witness import Seen
from fedsvp_jax.federation import loading
from fedsvp_jax.mechanisms import nothing_private
from fedsvp_jax.mechanisms.subsampling import SampledSteps
from fedsvp_jax.report import ledger, page, write_run_report, write_sweep_report
from fedsvp_jax.run import train
from fedsvp_jax.run.checkpoint import Checkpointer
from fedsvp_jax.run.folder import identity
from fedsvp_jax.run.parts import merge
from fedsvp_jax.run.sweep import SUM, SweepPlan, sweep
from fedsvp_jax.run.trainer import Trainer

Run = Callable[[], Any]
_TIMES, _LONG = 3, 10.0  # seconds


class Case(NamedTuple):
    """A cost and what it grows with.

    Attributes:
      by: the unit of the sizes.
      prepare: `(size, folder) -> run`; what `run` does is measured, more than once.
      sizes: four, for the table.
      quick: four, for the tests; () where they cannot be quick.
    """

    by: str
    prepare: Callable[[int, pathlib.Path], Run]
    sizes: tuple[int, ...]
    quick: tuple[int, ...] = ()


def _site(folder: pathlib.Path) -> Site:
    """A site that has begun and answered nothing yet."""
    config = ExperimentConfig(
        dataset="digits",
        mechanism="gaussian",
        clipping="update_clip",
        relation="add_remove",
        num_rounds=10**6,
    )
    site = Site(folder / "log", make_policy(config, min_num_examples=20))
    site.begin(30)
    return site


def _log(entries: int, folder: pathlib.Path) -> Site:
    """A site whose log has so many entries, countersigned as a round's are."""
    site = _site(folder)
    _round(site, 1)
    written, _ = chain.read_entries(site.path.read_bytes(), "log")
    site_key = chain.Key(folder / "log.key")
    witness_key = chain.Key(folder / "witness" / "witness.key")
    first, newest, lines = written[0].body, written[-1], []

    def seen() -> Seen:
        shown = Seen(first["site"], newest.number, newest.hash, first["witness"])
        return shown._replace(signature=witness_key.sign(shown.message("log")))

    for number in range(len(written) + 1, entries + 1):
        old, round_num = written[1 + number % 2], number // 2
        state = old.body["state"] | {"last_round": round_num}
        body = old.body | {"state": state, "round": round_num}
        body["witnessed"] = seen().signature
        newest, line = chain.new_entry(site_key, newest, old.kind, body)
        lines.append(line)
    with site.path.open("ab") as file:
        file.writelines(lines)
    text = json.dumps(seen()._asdict())
    (folder / "witness" / "log.seen.json").write_text(text)
    return Site(site.path)


def _round(site: Site, round_num: int) -> None:
    model = [np.zeros((4, 8), np.float32)]
    answer(site, model, lambda: Trained(model), round_num=round_num)


def _cold(entries: int, folder: pathlib.Path) -> Run:
    path = _log(entries, folder).path
    return lambda: Site(path).read()


def _warm(entries: int, folder: pathlib.Path) -> Run:
    site = _log(entries, folder)

    def next_round() -> None:
        _round(site, site.read().last_round + 1)

    next_round()
    return next_round


def _audit(entries: int, folder: pathlib.Path) -> Run:
    path = _log(entries, folder).path
    return lambda: ledger.audit(path, folder / "witness" / "log.seen.json")


def _account(clients: int, folder: pathlib.Path) -> Run:
    del folder
    config = ExperimentConfig(dataset="digits", mechanism="gaussian")
    account = make_policy(config, min_num_examples=20).account
    participation = Participation(clients)
    newest = [Account.of(account.mechanism, participation, account.terms)]
    rng, one = np.random.default_rng(0), nothing_private()
    noise = jax.tree.map(lambda leaf: np.full(100, leaf), one)

    def record() -> None:
        for _ in range(100):
            ids = rng.choice(clients, 100, replace=False, shuffle=False)
            newest[0] = newest[0].record(ids, noise)
            claims.row(newest[0], last=False)

    record()
    return record


def _store(clients: int, folder: pathlib.Path) -> Run:
    del folder
    rows = np.arange(4 * clients, dtype=np.int32)
    store = ClientStore(
        name="store",
        train_inputs=rows[:, None],
        train_labels=rows % 10,
        clients=np.stack([np.arange(clients) * 4, np.full(clients, 4)], axis=1),
        digests=np.zeros((clients, 32), np.uint8),
        test_inputs=rows[:1, None],
        test_labels=rows[:1],
        num_classes=10,
        fingerprint="",
    )
    chosen = np.random.default_rng(0).permutation(clients)
    table = np.arange(10, dtype=np.int32) // 5
    division = Division(0, frozenset(), 0, 0.8, "stratified")
    return StoredClients(store, chosen, table, 2, division).attribute_counts


def _writers(writers: int, folder: pathlib.Path) -> Run:
    del folder
    whose = np.random.default_rng(0).permutation(np.repeat(np.arange(writers), 10))
    return lambda: partition.by_writer(whose, writers, seed=0)


def _persons(clients: int, folder: pathlib.Path) -> Run:
    """Persons of five rows, five at each client."""
    del folder
    whose = np.random.default_rng(0).permutation(np.repeat(np.arange(5 * clients), 5))
    rows = np.zeros((len(whose), 1), np.float32)
    labels = np.arange(len(whose), dtype=np.int32) % 2
    data = Dataset(
        "made",
        rows,
        labels,
        rows[:2],
        labels[:2],
        num_classes=2,
        train_persons=whose.astype(np.int32),
    )
    config = ExperimentConfig(
        dataset="npz",
        mechanism="gaussian",
        num_clients=clients,
        cohort_size=2,
        num_hbc_clients=0,
        num_attributes=1,
        partition="iid",
        batch_size=2,
    )
    return lambda: loading.client_parts(resolve(config, data), data)


def _steps(number: int, folder: pathlib.Path) -> Run:
    del folder
    deltas = iter(np.linspace(1e-5, 2e-5, 100))  # what was composed is remembered
    steps = SampledSteps(2.0, 1e-3, number)
    return lambda: composed_epsilon("pld", 0.0, float(next(deltas)), steps=steps)


def _weights(weights: int, folder: pathlib.Path) -> Run:
    """A round of two clients, whose model has so many weights."""
    del folder
    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(40, 100)).astype(np.float32)
    labels = np.arange(40, dtype=np.int32) % 2
    data = Dataset("made", inputs, labels, inputs, labels, num_classes=2)
    width = weights // 102

    def init(key: Any, batch: Any) -> Any:
        first = jax.random.normal(key, (100, width)) / 10
        return {"first": first, "last": jnp.zeros((width, 2))}, {}

    def apply(params: Any, stats: Any, batch: Any, **rest: Any) -> Any:
        return jnp.tanh(batch @ params["first"]) @ params["last"], stats

    config = ExperimentConfig(
        dataset="npz",
        mechanism="gaussian",
        clipping="update_clip",
        num_clients=2,
        cohort_size=2,
        num_hbc_clients=0,
        num_attributes=1,
        partition="iid",
        batch_size=20,
        num_rounds=100,
    )
    program = federation.build([resolve(config, data)], data, model=Model(init, apply))
    trainer = Trainer(program)
    state: list[Any] = [trainer.initial_state(), 0]

    def advance() -> None:
        state[0], _ = trainer.advance(state[0], state[1], 1)
        state[1] += 1
        jax.block_until_ready(state[0])

    advance()
    return advance


def _command(*words: str) -> None:
    python = [sys.executable, "-m", *words]
    subprocess.run(python, check=True, stdout=subprocess.DEVNULL)


def _table(rows: int, columns: int, folder: pathlib.Path) -> Run:
    """`fedsvp schema` of a table of numbers and categories."""
    rng, path = np.random.default_rng(0), folder / "table.csv"
    names = ",".join(["class", *(f"c{number}" for number in range(columns))])
    with path.open("w") as file:  # line by line: a command's peak begins at this one's
        print(names, file=file)
        for label in rng.choice(["a", "b"], rows):
            numbers = rng.normal(size=columns).round(3).astype(str)
            print(label, *numbers, sep=",", file=file)
    places = iter(range(100))

    def draft() -> None:
        output = f"--output={folder / f'{next(places)}.toml'}"
        _command("experiments.schema", str(path), output)

    return draft


def _rows(rows: int, folder: pathlib.Path) -> Run:
    return _table(rows, 10, folder)


def _columns(columns: int, folder: pathlib.Path) -> Run:
    return _table(100, columns, folder)


def _checked(rounds: int, folder: pathlib.Path) -> Run:
    """`fedsvp check` of DP-SGD's noise over so many rounds."""
    path = folder / "dp.toml"
    settings = ['noise = "gaussian"', "std = 1.5", "clip = 1.0", 'unit = "record"']
    settings += ['added_by = "client"', "sampling_rate = 0.01"]
    path.write_text("\n".join([*settings, f"rounds = {rounds}", ""]))
    return lambda: _command("experiments.check", "toml", str(path))


def _cells(cells: int, folder: pathlib.Path) -> Run:
    places = iter(range(100))

    def swept() -> None:
        seeds = ",".join(map(str, range(cells)))
        output = f"--output_dir={folder / str(next(places))}"
        settings = ["--dataset=digits", "--mechanisms=gaussian", "--num_rounds=5"]
        _command("experiments.sweep", *settings, f"--seeds={seeds}", output)

    return swept


def _trials(trials: int, folder: pathlib.Path) -> Run:
    """One case of an audit: its games, claims and bounds, compiled."""
    del folder
    config = resolve(ExperimentConfig(dataset="digits", num_rounds=4, delta=1e-5))
    setting = audit_play.make_setting(config, 100, trials)
    case = cases_of("gaussian", config)[0]
    prepared = audit_play.prepare(setting, case)

    def play() -> None:
        audit_play.rows_of(setting, case, prepared, seed=0)

    play()
    return play


def _audited(trials: int, folder: pathlib.Path) -> Run:
    flags = ("audit", "--audit_mechanisms=nbafl", f"--audit_trials={trials}")
    return _attack(*flags, folder=folder)


def _attack(name: str, *flags: str, folder: pathlib.Path) -> Run:
    places = iter(range(100))

    def attack() -> None:
        output = f"--output_dir={folder / str(next(places))}"
        words = (f"--attack={name}", "--dataset=digits", *flags, output)
        _command("experiments.attack", *words)

    return attack


def _federations(number: int, folder: pathlib.Path) -> Run:
    flags = ("membership", "--num_rounds=2", "--local_epochs=1")
    flags += ("--membership_epsilons=1", f"--membership_shadows={number}")
    return _attack(*flags, folder=folder)


def _victims(number: int, folder: pathlib.Path) -> Run:
    flags = ("gradient_inversion", "--inversion_defences=none:paper")
    flags += ("--inversion_steps=50", f"--inversion_victims={number}")
    return _attack(*flags, folder=folder)


def _attacked(rounds: int, folder: pathlib.Path) -> Run:
    flags = ("acgan", "--attack_steps=10", "--classifier_steps=100")
    return _attack(*flags, f"--num_rounds={rounds}", folder=folder)


def _answered(weights: int, folder: pathlib.Path) -> Run:
    """A site's round with so many weights."""
    site = _site(folder)
    model, rounds = [np.zeros(weights, np.float32)], iter(range(1, 100))
    trained = Trained([np.ones(weights, np.float32)])

    def one_round() -> None:
        answer(site, model, lambda: trained, round_num=next(rounds))

    one_round()
    return one_round


def _of_cells(cells: int, folder: pathlib.Path) -> pathlib.Path:
    """The folder of a sweep of so many ε, whose rows are those of one cell."""
    base = resolve(ExperimentConfig(dataset="digits", model="mlp", num_rounds=2))
    sweep(base, SweepPlan(("gaussian",), (0.5,), (0,), "1/1"), folder / "one")
    (folder / "many").mkdir()
    epsilons = [0.1 + number / 1000 for number in range(cells)]
    config = json.loads((folder / "one" / "config.json").read_text())
    config |= {"epsilons": epsilons}
    (folder / "many" / "config.json").write_text(json.dumps(config))
    (cell,) = json.loads((folder / "one" / "cells.json").read_text())
    text = json.dumps([cell | {"epsilon": epsilon} for epsilon in epsilons])
    (folder / "many" / "cells.json").write_text(text)
    with (folder / "many" / "results.jsonl").open("w") as file:
        for line in (folder / "one" / "results.jsonl").read_text().splitlines():
            for epsilon in epsilons:
                print(json.dumps(json.loads(line) | {"epsilon": epsilon}), file=file)
    rows = (folder / "many" / "results.jsonl").read_bytes().splitlines(keepends=True)
    place = folder / "many" / "checkpoints" / "gaussian"
    state = {"rows": {"results.jsonl": sum(map(zlib.crc32, rows))}}
    Checkpointer(place, identity(config)).save(2, state)
    (folder / "many" / SUM).write_text(sha256(folder / "many" / "cells.json"))
    return folder / "many"


def _merged(cells: int, folder: pathlib.Path) -> Run:
    part, places = _of_cells(cells, folder), iter(range(100))
    return lambda: merge([part], folder / str(next(places)))


def _sweep_page(cells: int, folder: pathlib.Path) -> Run:
    place = _of_cells(cells, folder)
    return lambda: write_sweep_report(place)


def _built(cells: int, folder: pathlib.Path) -> Run:
    """The program of a sweep's cells, which differ in ε and keep a promise."""
    del folder
    base = ExperimentConfig(dataset="digits", total_epsilon=5.0, mechanism="gaussian")
    base = resolve(dataclasses.replace(base, clipping="update_clip"))
    data = loading.load_dataset(base)
    configs = [dataclasses.replace(base, seed=seed) for seed in range(cells)]
    return lambda: federation.build(configs, data)


def _rounds_page(rounds: int, folder: pathlib.Path) -> Run:
    """The page of a run of so many rounds, whose rows are those of one."""
    base = resolve(ExperimentConfig(dataset="digits", model="mlp", num_rounds=1))
    train(base, folder / "run")
    for name in ("metrics.jsonl", "clients.jsonl"):
        path = folder / "run" / name
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        with path.open("w") as file:
            for number in range(1, rounds + 1):
                for row in rows:
                    print(json.dumps(row | {"round": number}), file=file)
    return lambda: write_run_report(folder / "run")


def _ledger_page(entries: int, folder: pathlib.Path) -> Run:
    content = ledger.audit(_log(entries, folder).path)
    facts = {"ledger": content, "budgets": ()}
    return lambda: page.write(folder / "page.html", "ledger.html", **facts)


def _trained_rows(rows: int, folder: pathlib.Path) -> Run:
    """Two rounds of `fedsvp train` on a table of ten columns."""
    rng, path = np.random.default_rng(0), folder / "table.csv"
    with path.open("w") as file:
        print("class", *(f"c{number}" for number in range(10)), sep=",", file=file)
        for label in rng.choice(["a", "b"], rows):
            numbers = rng.normal(size=10).round(3).astype(str)
            print(label, *numbers, sep=",", file=file)
    schema, places = folder / "schema.toml", iter(range(100))
    _command("experiments.schema", str(path), f"--output={schema}")
    flags = ("--dataset=csv", f"--data_dir={path}", f"--schema={schema}")
    flags += ("--num_rounds=2", "--local_epochs=1", "--num_attributes=1")
    flags += ("--partition=iid", "--model=logistic", "--num_hbc_clients=0")

    def trained() -> None:
        output = f"--output_dir={folder / str(next(places))}"
        _command("experiments.train", *flags, output)

    return trained


_ENTRIES = (1_000, 10_000, 30_000, 100_000), (250, 500, 1_000, 2_000)
_CLIENTS = (1_000, 10_000, 100_000, 1_000_000)
_FEW_CLIENTS = (2_000, 4_000, 8_000, 16_000)  # whose rows a processor's cache takes
_FEW_WEIGHTS = (125_000, 250_000, 500_000, 1_000_000)
CASES = {
    "cold start of a site": Case("entries of its log", _cold, *_ENTRIES),
    "warm round of a site": Case("entries of its log", _warm, *_ENTRIES),
    "audit of a log": Case("entries", _audit, *_ENTRIES),
    "100 rounds in the account": Case(
        "clients", _account, _CLIENTS, (30_000, 60_000, 120_000, 240_000)
    ),
    "start of a store": Case("clients", _store, _CLIENTS, _FEW_CLIENTS),
    "partition by writer": Case("writers", _writers, _CLIENTS, _FEW_CLIENTS),
    "partition of persons": Case(
        "clients", _persons, (100, 1_000, 10_000, 100_000), (250, 500, 1_000, 2_000)
    ),
    "PLD of Poisson batches": Case(
        "steps", _steps, (10**4, 10**5, 10**6, 10**7), (10**4, 10**5, 10**6, 10**7)
    ),
    "round of two clients": Case(
        "weights", _weights, (10**6, 10**7, 3 * 10**7, 10**8), ()
    ),
    "schema of a table": Case("rows", _rows, (10**3, 10**4, 10**5, 10**6)),
    "schema of a wide table": Case("columns", _columns, (10, 100, 1_000, 10_000)),
    "check": Case("rounds", _checked, (10, 100, 1_000, 10_000)),
    "sweep": Case("seeds of three ε", _cells, (10, 30, 100, 300)),
    "case of an audit": Case("trials", _trials, (10**3, 10**4, 10**5, 10**6)),
    "audit of nbafl": Case("trials", _audited, (100, 1_000, 10_000, 100_000)),
    "membership": Case("federations", _federations, (8, 16, 32, 64)),
    "gradient inversion": Case("victims", _victims, (1, 3, 10, 30)),
    "reconstruction": Case("rounds", _attacked, (1, 4, 16, 64)),
    "round of a site": Case(
        "weights", _answered, (10**6, 10**7, 3 * 10**7, 10**8), _FEW_WEIGHTS
    ),
    "program of a sweep": Case("cells", _built, (10, 100, 300, 1_000)),
    "merge of a sweep": Case("cells", _merged, (10, 100, 300, 1_000)),
    "page of a sweep": Case("cells", _sweep_page, (10, 100, 300, 1_000)),
    "page of a run": Case("rounds", _rounds_page, (10, 100, 1_000, 10_000)),
    "page of a log": Case("entries", _ledger_page, (1_000, 3_000, 10_000, 30_000)),
    "train on a table": Case("rows", _trained_rows, (10**3, 10**4, 10**5, 10**6)),
}


def measured(case: Case, size: int) -> float:
    """CPU seconds of a run and of the processes that it starts.

    The median of three; of a run that takes over ten seconds, one.
    """

    def now() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.process_time() + children.ru_utime + children.ru_stime

    with tempfile.TemporaryDirectory() as folder:
        run, seconds = case.prepare(size, pathlib.Path(folder)), []
        while len(seconds) < _TIMES and max(seconds, default=0.0) < _LONG:
            begun = now()
            run()
            seconds.append(now() - begun)
    return statistics.median(seconds)


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """The slope of ln seconds by ln size, by least squares."""
    slope, _ = np.polyfit(np.log(sizes), np.log(np.maximum(seconds, 1e-4)), 1)
    return float(slope)


def _peak_mb() -> float:
    kinds = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return max(resource.getrusage(kind).ru_maxrss for kind in kinds) / 1024


def _row(name: str) -> dict[str, Any]:
    case, points = CASES[name], []
    for size in case.sizes:
        words = [sys.executable, "-m", __spec__.name, name, str(size)]
        run = subprocess.run(words, check=True, stdout=subprocess.PIPE)
        points.append(json.loads(run.stdout.splitlines()[-1]))
    seconds = [point["seconds"] for point in points]
    return {
        "case": name,
        "by": case.by,
        "sizes": case.sizes,
        "seconds": seconds,
        "peak_mb": [point["peak_mb"] for point in points],
        "exponent": round(exponent(case.sizes, seconds), 2),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "provenance": provenance.stamp(None, None),
    }


def main(arguments: Sequence[str]) -> None:
    """Prints one size's point, or the rows of the named cases."""
    if len(arguments) == 2 and arguments[1].isdigit():
        seconds = measured(CASES[arguments[0]], int(arguments[1]))
        print(json.dumps({"seconds": round(seconds, 4), "peak_mb": round(_peak_mb())}))
        return
    for name in arguments or CASES:
        print(json.dumps(_row(name)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
