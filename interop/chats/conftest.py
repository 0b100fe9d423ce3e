"""A stand-in of a chat service for the tests: the program that the channels' own tests are about, driven by lines of JSON."""

import json
import os
import subprocess
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parents[2] / "target/debug/switchboard-standin"


class Standin:
    """A running stand-in. Calling it does one act and returns what came of it."""

    def __init__(self, kind: str) -> None:
        program = os.environ.get("SWITCHBOARD_STANDIN", str(PROGRAM))
        self.process = subprocess.Popen([program, kind], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()

    def __call__(self, act: str, **members: object) -> dict:
        self.process.stdin.write(json.dumps({"act": act, **members}) + "\n")
        self.process.stdin.flush()
        done = json.loads(self.process.stdout.readline())
        assert "error" not in done, done
        return done


@pytest.fixture
def standin(request: pytest.FixtureRequest) -> Standin:
    """The stand-in whose kind the test's module names as KIND."""
    standin = Standin(request.module.KIND)
    yield standin
    standin.process.stdin.close()
    standin.process.wait(timeout=10)
