"""The real hub: started, spoken to and killed as a process of its own."""

import json
import os
import select
import signal
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS_MAX = 120
# No proxy between a test and its own loopback.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def binary() -> str:
    target = os.environ.get("CARGO_TARGET_DIR") or ROOT / "target"
    return os.environ.get("SWITCHBOARD_BIN") or str(Path(target) / "debug/switchboard")


class Hub:
    """A hub with its data in `folder`. Its log is `folder/hub.log`."""

    def __init__(self, folder: Path):
        self.data_dir = folder / "data"
        self.log = folder / "hub.log"
        self.url = None
        self.start()

    def start(self):
        """Start it; again on the same port, with the same data, when it ran before."""
        listen = urllib.parse.urlsplit(self.url).netloc if self.url else "127.0.0.1:0"
        command = [binary(), "serve", "--json", "--listen", listen, "--data-dir", self.data_dir]
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True, env=environment()
            )
        readable = select.select([self.process.stdout], [], [], READY_SECONDS_MAX)[0]
        line = self.process.stdout.readline() if readable else ""
        assert line, f"the hub did not start:\n{self.log.read_text()[-2000:]}"
        ready = json.loads(line)
        assert ready["ready"] is True
        self.url = ready["url"]

    def kill(self):
        """As the power would: no chance to say or write anything."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Let it end in order; by force when it does not."""
        self.process.terminate()
        try:
            self.process.wait(READY_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise

    def says(self, *arguments) -> str:
        """What a command of `switchboard` prints; it must succeed."""
        command = [binary(), *arguments, "--data-dir", self.data_dir]
        done = subprocess.run(command, capture_output=True, text=True, timeout=READY_SECONDS_MAX, env=environment())
        assert done.returncode == 0, f"{' '.join(map(str, arguments))}: {done.stderr}"
        return done.stdout

    def command(self, *arguments):
        """The same as data."""
        return json.loads(self.says(*arguments, "--json"))

    def get(self, path: str, token: str, **query):
        """A JSON answer of the hub's API, with a bearer."""
        url = f"{self.url}{path}?{urllib.parse.urlencode(query)}"
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})
        try:
            with OPENER.open(request, timeout=30) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{url}: {error.code} {error.read().decode()}") from error

    def messages(self, channel: str, token: str) -> list[dict]:
        """What is stored on a channel, as far as the bearer may read it, oldest first."""
        found, after = [], {}
        while True:
            page = self.get("/v1/messages", token, network="org", channel=channel, **after)
            found += page["messages"]
            if not page.get("next"):
                return found
            after = {"after_gid": page["next"]}


def environment() -> dict:
    """Ours, without settings of another hub."""
    return {name: value for name, value in os.environ.items() if not name.startswith("SWITCHBOARD_")}


def eventually(look, what: str, seconds: float = 180):
    """The first true value of `look()`. It is polled because it shows at other programs, which tell nobody."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, f"{what}: not within {seconds} s"
        time.sleep(0.2)
    return found
