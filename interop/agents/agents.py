"""The published coding agents: how a user sets each up for a hub, and how one is run to its end.

Each gets a home folder of its own and a scripted model. It learns of the hub by the very lines that `switchboard token
create` prints for it.
"""

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from model import Model

PROGRAMS = Path(__file__).resolve().parents[2] / ".cache/npm-agents/node_modules/.bin"
NAME = "switchboard"
NOWHERE = "http://127.0.0.1:9"
# Each run makes two or three calls; starting the programs takes most of the time, and on a busy machine long.
RUN_SECONDS_MAX = 600
CONNECT_SECONDS_MAX = 120


@dataclass
class Agent:
    """One installed agent with a home of its own. `created`: what `switchboard token create` printed."""

    home: Path
    created: str
    env: dict = field(default_factory=dict)

    program = title = ""

    def __post_init__(self):
        self.work = self.home / "project"
        self.work.mkdir(parents=True)
        keep = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
        path = f"{PROGRAMS}:{os.environ['PATH']}"
        self.env = keep | {"PATH": path, "HOME": str(self.home), "NO_COLOR": "1"}
        # Nothing but loopback is reachable, so that no answer of anybody else decides a test.
        self.env |= {"NO_PROXY": "127.0.0.1", "HTTP_PROXY": NOWHERE, "HTTPS_PROXY": NOWHERE}
        self.prepare()
        self.command("sh", "-e", "-c", self.lines())

    def lines(self) -> str:
        """The lines to paste for this agent; the first stands behind its title."""
        found = re.search(rf"^  {self.title} +(.*\n(?: {{15}}.*\n)*)", self.created, re.MULTILINE)
        assert found, self.created
        return found[1]

    def start(self, *command, **env) -> subprocess.Popen:
        return subprocess.Popen(
            command,
            cwd=self.work,
            env=self.env | env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def command(self, *command) -> str:
        """The output of a command that must succeed."""
        process = self.start(*command)
        output = finish(process)
        assert process.returncode == 0, output
        return output

    def listed(self) -> str:
        """How the agent itself lists its servers."""
        return self.command(self.program, "mcp", "list")

    def prepare(self):
        """What stands before the hub: a model to work with."""
        raise NotImplementedError

    def run(self, model: Model) -> subprocess.Popen:
        """Start it on one task with this model, without anybody at its terminal."""
        raise NotImplementedError


class Claude(Agent):
    program, title = "claude", "Claude Code"

    def prepare(self):
        self.env |= {
            "ANTHROPIC_API_KEY": "dummy",
            "ENABLE_TOOL_SEARCH": "false",
            "MCP_CONNECTION_NONBLOCKING": "false",
            "MCP_CONNECT_TIMEOUT_MS": str(CONNECT_SECONDS_MAX * 1000),
            "MCP_TIMEOUT": str(CONNECT_SECONDS_MAX * 1000),
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_AUTOUPDATER": "1",
        }

    def run(self, model: Model) -> subprocess.Popen:
        options = ["--output-format", "json", "--max-turns", "8", "--allowedTools", f"mcp__{NAME}"]
        return self.start("claude", "-p", "Do your task.", *options, ANTHROPIC_BASE_URL=model.url)


class Codex(Agent):
    program, title = "codex", "Codex"

    def prepare(self):
        # What the first of its lines exports, a user's shell keeps.
        self.env |= dict(re.findall(r"export (\w+)=(\S+)", self.lines())) | {"MODEL_KEY": "dummy"}

    def run(self, model: Model) -> subprocess.Popen:
        provider = {"name": "scripted", "base_url": f"{model.url}/v1", "wire_api": "responses", "env_key": "MODEL_KEY"}
        table = ",".join(f"{key}={json.dumps(value)}" for key, value in provider.items())
        config = ['model_provider="scripted"', 'model="gpt-5"', f"model_providers.scripted={{{table}}}"]
        config += [f"mcp_servers.{NAME}.{limit}_timeout_sec={CONNECT_SECONDS_MAX}" for limit in ("startup", "tool")]
        options = [part for line in config for part in ("-c", line)]
        held_by_nobody = "--dangerously-bypass-approvals-and-sandbox"
        return self.start("codex", "exec", "--skip-git-repo-check", *options, held_by_nobody, "Do your task.")


class Gemini(Agent):
    program, title = "gemini", "Gemini"

    def prepare(self):
        self.env |= {"GEMINI_API_KEY": "dummy", "GEMINI_CLI_TRUST_WORKSPACE": "true"}
        settings = self.home / ".gemini/settings.json"
        settings.parent.mkdir()
        chosen = {"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": False}}
        settings.write_text(json.dumps(chosen))

    def run(self, model: Model) -> subprocess.Popen:
        options = ["--skip-trust", "-y", "-m", "gemini-2.5-flash"]
        return self.start("gemini", *options, "-p", "Do your task.", GOOGLE_GEMINI_BASE_URL=model.url)


def finish(process: subprocess.Popen) -> str:
    """Its whole output, once it has ended; ended by force when that takes too long."""
    try:
        return process.communicate(timeout=RUN_SECONDS_MAX)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return process.communicate()[0] + f"\n(killed after {RUN_SECONDS_MAX} s)"
