"""One streamed run of a synthetic population, in a process of its own, measured.

  python population.py build FOLDER NUM_CLIENTS
  python population.py train FOLDER OUTPUT_DIR NUM_CLIENTS

`train` prints a JSON object: `peak_anon_kb`, the largest RssAnon of
/proc/self/status seen from the first import to the end (looked at every 2 ms), and
`round_seconds`, the median of the rounds after the first five. RssAnon leaves out
what VmHWM counts as well: pages of mapped files, the store's among them, which
the system drops when others need the memory.
"""

import json
import pathlib
import statistics
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np

IMAGES = 50
NUM_ROUNDS = 40


def anonymous_kb() -> int:
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1])
    raise OSError("/proc/self/status names no RssAnon")


class Watch:
    """The peak of `anonymous_kb` while it runs."""

    def __init__(self) -> None:
        self.peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._stop.is_set():
            self.peak = max(self.peak, anonymous_kb())
            time.sleep(0.002)

    def end(self) -> int:
        self._stop.set()
        self._thread.join()
        return max(self.peak, anonymous_kb())


def build(folder: pathlib.Path, num_clients: int) -> None:
    from fedsvp_jax.store.writer import (
        ClientExamples,
        StoreSource,
        write_store,
    )

    rng = np.random.default_rng(0)
    prototypes = rng.integers(0, 256, (10, 8, 8, 1))

    def examples(name: int) -> ClientExamples:
        labels = rng.integers(0, 10, IMAGES).astype(np.int32)
        noise = rng.integers(0, 256, (IMAGES, 8, 8, 1))
        images = ((prototypes[labels] + noise) // 2).astype(np.uint8)
        return ClientExamples(name, images, labels)

    def clients() -> Iterator[ClientExamples]:
        for name in range(num_clients):
            yield examples(name)

    test = examples(-1)
    write_store(
        folder, StoreSource("synthetic", clients(), test.inputs, test.labels, 10)
    )


def train(
    folder: pathlib.Path, output_dir: pathlib.Path, num_clients: int
) -> dict[str, float]:
    watch = Watch()
    from fedsvp_jax import run
    from fedsvp_jax.config import ExperimentConfig, resolve

    config = ExperimentConfig(
        dataset="store",
        data_dir=str(folder),
        model="small_cnn",
        mechanism="fedsva",
        num_clients=num_clients,
        num_hbc_clients=num_clients // 10,
        cohort_size=10,
        batch_size=10,
        num_rounds=NUM_ROUNDS,
    )
    run.train(resolve(config), output_dir)
    lines = (output_dir / "timing.jsonl").read_text().splitlines()
    seconds = [json.loads(line)["seconds"] for line in lines]
    return {
        "peak_anon_kb": watch.end(),
        "round_seconds": statistics.median(seconds[5:]),
    }


if __name__ == "__main__":
    what, store, *rest = sys.argv[1:]
    if what == "build":
        build(pathlib.Path(store), int(rest[0]))
    else:
        found = train(pathlib.Path(store), pathlib.Path(rest[0]), int(rest[1]))
        print(json.dumps(found))
