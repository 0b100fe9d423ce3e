"""A hub of the built program for the tests: started on a free port with a data directory of its own, ended with them."""

import json
import os
import queue
import subprocess
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

READY_WITHIN_S = 60


@dataclass(frozen=True)
class Token:
    """A bearer and the instance it belongs to."""

    instance_id: str
    bearer: str


class Hub:
    """A running hub."""

    def __init__(self, program: str, folder: Path) -> None:
        self.program = program
        self.data_dir = folder / "data"
        self.log = folder / "log"
        command = [program, "serve", "--json", "--listen", "127.0.0.1:0", "--data-dir", str(self.data_dir)]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.url = json.loads(self._first_line())["url"]

    def _first_line(self) -> str:
        lines: queue.Queue[str] = queue.Queue()

        def read() -> None:
            for line in self.process.stdout:
                lines.put(line)

        threading.Thread(target=read, daemon=True).start()
        try:
            return lines.get(timeout=READY_WITHIN_S)
        except queue.Empty:
            self.stop()
            raise AssertionError(f"the hub is not ready:\n{self.log.read_text()}") from None

    def run(self, *arguments: str) -> str:
        """Runs an administrator's command against this hub and returns what it prints."""
        command = [self.program, *arguments, "--data-dir", str(self.data_dir)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def token(self, label: str) -> Token:
        """Makes a bearer."""
        made = json.loads(self.run("token", "create", "--label", label, "--json"))
        return Token(made["instance_id"], made["token"])

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def program() -> str:
    """The program, as SWITCHBOARD_BIN names it."""
    path = os.environ.get("SWITCHBOARD_BIN")
    assert path, "SWITCHBOARD_BIN names the program; `./test interop` builds it and sets it"
    return path


@pytest.fixture
def hub(program: str, tmp_path: Path) -> Hub:
    """A hub on an empty data directory."""
    hub = Hub(program, tmp_path)
    yield hub
    hub.stop()


@pytest.fixture
def anyio_backend() -> str:
    """The one event loop the tests run on."""
    return "asyncio"
