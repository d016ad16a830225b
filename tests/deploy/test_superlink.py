"""The example over a real SuperLink and three SuperNodes on 127.0.0.1, with TLS."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import jax
import numpy as np
import pytest
from deployed import simulated
from flax import serialization

pytest.importorskip("flwr")

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "flower"
NODES = 3
_SECONDS = 600  # for one run: a client's process imports JAX for every message

pytestmark = [
    pytest.mark.across("the example, over servers and clients that are processes"),
    pytest.mark.slow,
]


def _tool(name: str) -> str:
    return str(pathlib.Path(sys.executable).with_name(name))


def _free_ports(number: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(number)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _wait_for(port: int) -> None:
    for _ in range(120):
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(0.5)
    raise TimeoutError(f"nothing listens on port {port}")


def _certificates(folder: pathlib.Path) -> None:
    """An authority of our own, and a server's certificate that it signed."""
    (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1")
    new_key = ("openssl", "req", "-newkey", "rsa:2048", "-nodes")
    for command in (
        (*new_key, "-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=CA"),
        (*new_key, "-keyout", "server.key", "-out", "csr", "-subj", "/CN=localhost"),
        (
            *("openssl", "x509", "-req", "-in", "csr", "-CA", "ca.crt"),
            *("-CAkey", "ca.key", "-CAcreateserial", "-days", "2"),
            *("-extfile", "names", "-out", "server.pem"),
        ),
    ):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)


class Federation:
    """A SuperLink and its SuperNodes; the clients' states are in `folder/state`."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        self.state = folder / "state"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._env = os.environ | {
            "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "FEDSVP_TEST_SEED": "0",
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_HOME": str(folder / "home"),
        }

    def start(self) -> None:
        (self.folder / "home").mkdir()
        _certificates(self.folder)
        link, *nodes = _free_ports(1 + NODES)
        tls = (
            *("--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem"),
            *("--ssl-keyfile", "server.key", "--host", "127.0.0.1"),
        )
        alone = "--disable-runtime-dependency-installation"
        self._start("flower-superlink", *tls, "--port", str(link), alone)
        _wait_for(link)
        for number, port in enumerate(nodes):
            self._start(
                *("flower-supernode", *tls, "--port", str(port)),
                *("--superlink", f"127.0.0.1:{link}", "--root-certificates", "ca.crt"),
                *("--node-config", f'partition-id={number} state="{self.state}"'),
            )
        for port in nodes:
            _wait_for(port)
        (self.folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n[superlink.test]\n'
            f'address = "127.0.0.1:{link}"\n'
            f'root-certificates = "{self.folder / "ca.crt"}"\n'
        )

    def begin(self, method: str) -> None:
        """The clients' state files."""
        command = (sys.executable, "-m", "digits.begin", f"--state={self.state}")
        subprocess.run(
            [*command, f"--method={method}"],
            cwd=EXAMPLE,
            env=self._env,
            check=True,
            capture_output=True,
        )

    def _start(self, name: str, *arguments: str) -> None:
        with (self.folder / f"{len(self._processes)}-{name}.log").open("wb") as log:
            self._processes.append(
                subprocess.Popen(
                    [_tool(name), *arguments],
                    cwd=self.folder,
                    env=self._env,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            )

    def run(self, settings: str) -> tuple[str, list[np.ndarray]]:
        """What `flwr run` printed, and the final model."""
        model = self.folder / "model.msgpack"
        ended = subprocess.run(
            [
                *(_tool("flwr"), "run", str(EXAMPLE), "--stream"),
                *("--run-config", f'{settings} output="{model}"'),
            ],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert model.is_file(), ended
        saved = serialization.msgpack_restore(model.read_bytes())
        return ended.stdout + ended.stderr, jax.tree.leaves(saved["params"])

    def stop(self) -> None:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            for process in self._processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, kind)
            time.sleep(2)
        for process in self._processes:
            process.wait(10)


@pytest.fixture
def flower(tmp_path: pathlib.Path) -> Iterator[Federation]:
    made = Federation(tmp_path)
    try:
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("method", ["fedsva", "attribute"])
def test_three_supernodes_end_with_the_simulators_model(
    flower: Federation, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    from digits.federation import settings  # type: ignore[import-not-found]

    flower.begin(method)
    flower.start()
    told, arrays = flower.run(f'method="{method}"')
    assert told.count("Received 3 results and 0 failures") == 5, told
    wanted = simulated(settings(method))
    for got, leaf in zip(arrays, wanted, strict=True):
        np.testing.assert_allclose(got, leaf, rtol=2e-6, atol=2e-6)


def test_a_client_that_refuses_is_left_out_and_the_run_goes_on(
    flower: Federation,
) -> None:
    flower.begin("fedsva")
    (flower.state / "client-2.json").write_text("damaged")
    flower.start()
    told, arrays = flower.run('method="fedsva" num-server-rounds=2')
    assert told.count("Received 2 results and 1 failures") == 2, told
    assert "is damaged" in told
    assert all(np.all(np.isfinite(leaf)) for leaf in arrays)
    assert (flower.state / "client-2.json").read_text() == "damaged"
