"""A stand-in of a chat service: started as a process of its own on a free port, ended with the test."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

DEFAULT = Path(__file__).parents[2] / "target/debug/switchboard-standin"


class Standin:
    """A running stand-in."""

    def __init__(self, kind: str) -> None:
        program = os.environ.get("SWITCHBOARD_STANDIN", str(DEFAULT))
        self.process = subprocess.Popen([program, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def act(self, act: str, **rest: object) -> dict:
        """One act of a person or of the service; what it led to."""
        self.process.stdin.write(json.dumps({"act": act, **rest}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["ok"], answer
        return answer


@pytest.fixture
def standin() -> Iterator[Callable[[str], Standin]]:
    """Starts stand-ins by kind."""
    running: list[Standin] = []

    def start(kind: str) -> Standin:
        running.append(Standin(kind))
        return running[-1]

    yield start
    for one in running:
        one.process.kill()
        one.process.wait()
