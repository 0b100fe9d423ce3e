"""One installation of the published engine lean-ctx: its own home, its own project folder, enrolled with a hub."""

import json
import os
import re
import subprocess
from pathlib import Path

import anyio.from_thread
from hub import Hub, eventually
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters

COMMAND_SECONDS_MAX = 300
# The relay looks every two seconds for what there is to send; this leaves room for a busy machine.
RELAY_SECONDS_MAX = 180


class Engine:
    """An engine set up as its user would: configuration, `hive connect`, a person's approval, `hive sync`."""

    def __init__(self, binary: str, home: Path, hub: Hub, url: str, label: str):
        self.binary, self.home, self.hub, self.url, self.label = binary, home, hub, url, label
        self.project = home / "payments"
        self.project.mkdir(parents=True)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(home), "NO_PROXY": "127.0.0.1"}
        for kind in ("config", "data", "state", "cache", "runtime"):
            self.env[f"XDG_{kind.upper()}_{'DIR' if kind == 'runtime' else 'HOME'}"] = str(folder(home / kind))
        # The published version opens its connector for loopback addresses only.
        self.env |= {"LEAN_CTX_HIVE_PREVIEW": "1", "LEAN_CTX_NO_BROWSER": "1", "LEAN_CTX_NO_UPDATE_CHECK": "1"}
        self.env |= {"DO_NOT_TRACK": "1", "LEAN_CTX_NO_COCKPIT": "1", "LEAN_CTX_NO_INDEX": "1"}
        self.relay = self.portal = None
        self.shown = []
        self.git("init", "-q")
        self.git("remote", "add", "origin", "https://github.com/acme/payments.git")
        self.configure()
        self.connect()
        self.command("hive", "sync")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.project, env=self.env, check=True)

    def configure(self):
        root_key = self.hub.command("keys", "show")["root_key"]
        lines = ["[hive]", f'url = "{self.url}"', f'root_key = "{root_key}"', 'bus = "auto"']
        lines += [f"{what} = false" for what in ("auto_capture", "metrics_upload", "receipts_upload")]
        (folder(self.home / "config/lean-ctx") / "config.toml").write_text("\n".join(lines) + "\n")

    def connect(self):
        """The device flow; its code is approved on the hub's side."""
        process = self.start("hive", "connect", "--no-browser", "--label", self.label)
        try:
            device = eventually(self.waiting_device, f"{self.label} asks to be let in")
            self.hub.command("device", "approve", device["user_code"])
        except BaseException:
            process.kill()
            raise
        self.connected = finish(process)
        assert process.returncode == 0, self.connected
        listed = self.hub.command("token", "list")
        (self.instance_id,) = [one["instance_id"] for one in listed if one["label"] == self.label]

    def waiting_device(self):
        return next((one for one in self.hub.command("device", "list") if one["label"] == self.label), None)

    def start(self, *arguments, log=subprocess.PIPE) -> subprocess.Popen:
        return subprocess.Popen(
            [self.binary, *arguments],
            cwd=self.project,
            env=self.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def command(self, *arguments) -> str:
        """The output of a command that must succeed."""
        process = self.start(*arguments)
        output = finish(process)
        assert process.returncode == 0, output
        return output

    def go_online(self, role: str):
        """Start relay and MCP server, and register an agent there."""
        self.relay_log = self.home / "relay.log"
        with self.relay_log.open("w") as log:
            self.relay = self.start("hive", "bus", "relay", "--for", "1800", log=log)
        self.portal = anyio.from_thread.start_blocking_portal()
        portal = self.portal.__enter__()
        server = StdioServerParameters(command=self.binary, args=["mcp"], env=self.env, cwd=self.project)
        self.session = portal.wrap_async_context_manager(Client(server))
        client = self.session.__enter__()
        self.call = lambda tool, arguments: portal.call(client.call_tool, tool, arguments)
        registered = self.agent_tool("register", agent_type="claude", role=role)
        self.agent = registered.partition("registered: ")[2].split()[0]

    def stop(self):
        if self.portal:
            self.session.__exit__(None, None, None)
            self.portal.__exit__(None, None, None)
        if self.relay and self.relay.poll() is None:
            self.relay.kill()
            self.relay.wait()

    def agent_tool(self, action: str, **arguments) -> str:
        """What the engine's MCP tool for agents answers."""
        result = self.call("ctx_agent", {"action": action} | arguments)
        return "\n".join(block.text for block in result.content)

    def vault_address(self) -> str:
        """The vault that its project's repository is shared in, as `hive status` names it."""
        status = self.command("hive", "status")
        shared = re.search(r"^Project: .* (\S+/\S+) \(shared\)$", status, re.MULTILINE)
        assert shared, status
        return shared[1]

    def knows(self, other: "Engine") -> bool:
        """Whether the hub told this engine of the other's agent."""
        presence = self.home / "data/lean-ctx/hive/bus/presence.json"
        agents = json.loads(presence.read_text())["agents"] if presence.exists() else {}
        return agents.get(other.agent, {}).get("instance_id") == other.instance_id

    def hears(self, *texts: str, action: str = "inbox") -> str:
        """The first answer, of those it gets from now on, that holds all texts."""
        seen = len(self.shown)

        def look():
            self.shown.append(self.agent_tool(action))
            return next((shown for shown in self.shown[seen:] if all(text in shown for text in texts)), None)

        return eventually(look, f"{self.label} is shown {texts}", RELAY_SECONDS_MAX)

    def was_told(self, pattern: str) -> bool:
        """Whether any answer so far, or the next, matches."""
        self.shown.append(self.agent_tool("inbox"))
        return any(re.search(pattern, shown) for shown in self.shown)


def finish(process: subprocess.Popen) -> str:
    """Its whole output, once it has ended."""
    try:
        return process.communicate(timeout=COMMAND_SECONDS_MAX)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        raise


def folder(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    return path
