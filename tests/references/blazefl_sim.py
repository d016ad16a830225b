"""BlazeFL on the workloads of the other peers, its documented FedAvg with two threads.

Started by `experiments.benchmark.peers` with BlazeFL's Python. `common` and
`torch_models` are the helpers of the other scripts, in the folder --scripts. Each of
two threads trains one client after the other; PyTorch itself uses one thread in each.
The bits of the model after the rounds are printed, so that runs can be compared.
"""

import hashlib
import logging
import sys
import time
from importlib import metadata

import common

arguments, work = common.parse("blazefl", parallels=(int, 2, "clients at once"))
common.set_threads(1)

import torch  # noqa: E402
from blazefl.contrib import fedavg  # noqa: E402
from blazefl.reproducibility import setup_reproducibility  # noqa: E402
from torch_models import make_model  # noqa: E402

logging.disable(logging.WARNING)
torch.set_num_threads(max(1, arguments.threads // arguments.parallels))
setup_reproducibility(0)
inputs, labels = (torch.from_numpy(array) for array in common.make_data(work))


class Selector:
    """BlazeFL asks for a model by name."""

    def select_model(self, model_name: str) -> torch.nn.Module:
        """The workload's model, whatever the name."""
        del model_name
        return make_model(work)


class Clients:
    """BlazeFL asks for a client's batches."""

    def get_dataloader(
        self, type_: str, cid: int, batch_size: int, generator: torch.Generator
    ) -> torch.utils.data.DataLoader:
        """The client's batches in a new order."""
        del type_
        return torch.utils.data.DataLoader(
            torch.utils.data.TensorDataset(inputs[cid], labels[cid]),
            batch_size=batch_size,
            shuffle=True,
            generator=generator,
        )


trainer = fedavg.FedAvgThreadPoolClientTrainer(
    model_selector=Selector(),
    model_name="",
    dataset=Clients(),
    device="cpu",
    num_clients=work["clients"],
    epochs=work["epochs"],
    batch_size=work["batch"],
    lr=work["lr"],
    seed=0,
    num_parallels=arguments.parallels,
)
trainer.progress_fn = iter
handler = fedavg.FedAvgBaseServerHandler(
    model_selector=Selector(),
    model_name="",
    dataset=Clients(),
    global_round=arguments.warmup + arguments.rounds,
    num_clients=work["clients"],
    sample_ratio=work["k"] / work["clients"],
    device="cpu",
    batch_size=work["batch"],
    seed=0,
)
draw, seconds = common.cohort_rng(), []
for _ in range(arguments.warmup + arguments.rounds):
    start = time.perf_counter()
    cohort = [int(client) for client in common.sample_cohort(draw, work)]
    trainer.local_process(handler.downlink_package(), cohort)
    for package in trainer.uplink_package():
        handler.load(package)
    seconds.append(time.perf_counter() - start)

digest = hashlib.sha256()
for parameter in handler.model.state_dict().values():
    digest.update(parameter.numpy().tobytes())
common.report(
    "blazefl",
    arguments,
    work,
    seconds,
    {
        "blazefl": metadata.version("blazefl"),
        "torch": torch.__version__,
        "python": sys.version.split()[0],
    },
    params_sha256=digest.hexdigest(),
)
