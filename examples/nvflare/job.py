"""Five rounds of FedSVA on digits in NVFlare's simulator, on this machine.

    python examples/nvflare/job.py --new_state [--folder=FOLDER]

FOLDER/state holds the log of what each site has spent, FOLDER/model.npz the final
model. With --new_state the sites begin their logs, which they do once.
"""

import argparse
import pathlib

import numpy as np
from federation import ROUNDS, SITES, make_client
from model import NpzModel
from nvflare import FedJob, FilterType
from nvflare.app_common.workflows.fedavg import FedAvg
from nvflare.fuel.utils.constants import FrameworkType
from nvflare.job_config.script_runner import ScriptRunner

from fedsvp_jax.deploy.nvflare import PrivacyFilter

HERE = pathlib.Path(__file__).parent


def make_job(folder: pathlib.Path, privacy: PrivacyFilter) -> FedJob:
    """The job: averages go on without a site that refuses."""
    arrays = make_client(0, folder / "state").initial_arrays
    named = {f"{place:04d}": leaf for place, leaf in enumerate(arrays)}
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(folder / "start.npz", **named)
    job = FedJob(name="digits", min_clients=SITES)
    job.set_app_packages(["fedsvp_jax"])  # it is installed at every site
    job.to_server(
        FedAvg(num_clients=SITES, num_rounds=ROUNDS, ignore_result_error=True)
    )
    model = NpzModel(str(folder / "start.npz"), str(folder / "model.npz"))
    job.to_server(model, id="persistor")
    script, told = str(HERE / "client.py"), str(folder / "state")
    job.to_clients(ScriptRunner(script, told, framework=FrameworkType.NUMPY))
    job.to_clients(str(HERE / "federation.py"))
    # A filter is asked about the tasks that it names: "*" would name none.
    for side in (FilterType.TASK_DATA, FilterType.TASK_RESULT):
        job.to_clients(privacy, filter_type=side, tasks=["train"])
    return job


def begin(folder: pathlib.Path) -> None:
    """What every site does for itself, on its own machine."""
    for number in range(SITES):
        make_client(number, folder / "state").begin()


def main() -> None:
    """Trains."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default="nvflare-run")
    parser.add_argument("--new_state", action="store_true")
    asked = parser.parse_args()
    folder = asked.folder.resolve()
    if asked.new_state:
        begin(folder)
    job = make_job(folder, PrivacyFilter(str(folder / "state")))
    job.simulator_run(str(folder / "workspace"), n_clients=SITES)


if __name__ == "__main__":
    main()
