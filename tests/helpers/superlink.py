"""A SuperLink and its SuperNodes on 127.0.0.1, with TLS, for tests of Flower's apps."""

import contextlib
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).parents[2]
_SECONDS = 1200  # for one run: a client's process imports JAX for every message


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
    """A SuperLink and its SuperNodes; the clients' logs are in `folder/state`."""

    def __init__(self, folder: pathlib.Path, app: str, nodes: int) -> None:
        self.folder, self.app, self._nodes = folder, ROOT / "examples" / app, nodes
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
        link, *nodes = _free_ports(1 + self._nodes)
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
                "--node-config",
                f'partition-id={number} state="{self.state}" '
                f'log="{self.state / f"log-{number}"}"',
            )
        for port in nodes:
            _wait_for(port)
        (self.folder / "home" / "config.toml").write_text(
            f'[superlink]\ndefault = "test"\n[superlink.test]\n'
            f'address = "127.0.0.1:{link}"\n'
            f'root-certificates = "{self.folder / "ca.crt"}"\n'
        )

    def begin(self, *command: str) -> None:
        """The clients' logs, by a module of the app."""
        subprocess.run(
            [sys.executable, "-m", *command],
            cwd=self.app,
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

    def run(self, settings: str, file: pathlib.Path) -> str:
        """What `flwr run` printed; the app wrote the file."""
        ended = subprocess.run(
            [
                *(_tool("flwr"), "run", str(self.app), "--stream"),
                *("--run-config", settings),
            ],
            env=self._env,
            capture_output=True,
            text=True,
            timeout=_SECONDS,
            check=False,
        )
        assert file.is_file(), ended
        return ended.stdout + ended.stderr

    def kill_node(self, number: int, requests: int) -> None:
        """Kills a SuperNode as soon as it has got so many requests."""
        (log,) = self.folder.glob(f"{1 + number}-*.log")
        until = time.monotonic() + _SECONDS
        while log.read_bytes().count(b"Receiving: train message") < requests:
            if time.monotonic() > until:
                raise TimeoutError(f"node {number} got no {requests} requests")
            time.sleep(0.05)
        os.killpg(self._processes[1 + number].pid, signal.SIGKILL)

    def stop(self) -> None:
        for kind in (signal.SIGTERM, signal.SIGKILL):
            for process in self._processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, kind)
            time.sleep(2)
        for process in self._processes:
            process.wait(10)
