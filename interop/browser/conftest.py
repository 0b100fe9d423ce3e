"""A hub of the built program and a browser without a window, for the tests of the console."""

import json
import os
import queue
import subprocess
import threading
import urllib.request
from pathlib import Path

import pytest
from mails import Relay
from page import Page
from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

READY_WITHIN_S = 60
COMMAND_WITHIN_S = 60
# No proxy between a test and its own loopback.
OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Hub:
    """A running hub."""

    def __init__(self, program: str, folder: Path, *options: str) -> None:
        self.program = program
        self.data_dir = folder / "data"
        self.log = folder / "log"
        command = [program, "serve", "--json", "--listen", "127.0.0.1:0", "--data-dir", str(self.data_dir), *options]
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        ready = json.loads(self._first_line())
        self.url, self.console_url, self.token = ready["url"], ready["console_url"], ready["token"]

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

    def run(self, *arguments: str) -> dict:
        """What an administrator's command answers."""
        return self._run("--data-dir", str(self.data_dir), *arguments)

    def agent(self, *arguments: str) -> dict:
        """What a command answers that an agent gives under its own bearer."""
        return self._run("--url", self.url, "--token", self.token, *arguments)

    def _run(self, *arguments: str) -> dict:
        command = [self.program, "--json", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_WITHIN_S, check=False)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return json.loads(done.stdout)

    def tool(self, name: str, **arguments: object) -> dict:
        """What a tool answers an agent over HTTP."""
        request = urllib.request.Request(
            f"{self.url}/v1/tools/{name}",
            json.dumps(arguments).encode(),
            {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json"},
        )
        with OPENER.open(request, timeout=COMMAND_WITHIN_S) as answer:
            return json.load(answer)

    def stop(self) -> None:
        """Ends the process."""
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="session")
def program() -> str:
    """The program, as SWITCHBOARD_BIN names it."""
    path = os.environ.get("SWITCHBOARD_BIN")
    assert path, "SWITCHBOARD_BIN names the program; `./test browser` builds it and sets it"
    return path


def pytest_configure(config) -> None:
    """Names the marks that tests carry."""
    config.addinivalue_line("markers", "config(text): the hub's configuration")
    config.addinivalue_line("markers", "policy(text): the hub's rules")


@pytest.fixture
def relay():
    """A mail relay that keeps what it is given."""
    relay = Relay()
    yield relay
    relay.shutdown()
    relay.server_close()


@pytest.fixture
def hub(request, program: str, tmp_path: Path):
    """A hub on an empty data directory, under the configuration that the test carries."""
    options = []
    if mark := request.node.get_closest_marker("config"):
        file = tmp_path / "config.toml"
        text = mark.args[0]
        if "RELAY_PORT" in text:
            text = text.replace("RELAY_PORT", str(request.getfixturevalue("relay").port))
        file.write_text(text)
        options = ["--config", str(file)]
    if mark := request.node.get_closest_marker("policy"):
        rules = tmp_path / "data" / "policies" / "people.toml"
        rules.parent.mkdir(parents=True)
        rules.write_text(mark.args[0])
    hub = Hub(program, tmp_path, *options)
    yield hub
    hub.stop()


@pytest.fixture(scope="session")
def driver():
    """Chromium without a window. It has no business with any host but the hub."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--proxy-server=direct://",
        "--lang=en-GB",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    driver.set_page_load_timeout(READY_WITHIN_S)
    yield driver
    driver.quit()


@pytest.fixture
def page(driver, hub: Hub):
    """A browser that has never been at this hub. Nothing may have gone wrong in it, and nobody else been asked, when the test ends."""
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    driver.set_window_size(1280, 900)
    driver.get("about:blank")
    driver.get_log("browser")
    driver.get_log("performance")
    page = Page(driver, hub.url)
    yield page
    page.quiet()
    driver.get("about:blank")
