"""A model endpoint on loopback that follows a script instead of thinking.

A coding agent pointed at it is the genuine program with its own loop, its own MCP client and its own handling of results;
only what it would ask a model is answered here. One `Model` plays the brain of one agent in one run: a function decides
from the tool results shown so far what it does next, and the model keeps what it was shown.

Three dialects, all as streams: Anthropic Messages, OpenAI Responses, Gemini streamGenerateContent.
"""

import json
import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True)
class Call:
    """A wish of the model: call this tool. The name is the server's own; the dialect finds what the agent made of it."""

    tool: str
    arguments: dict


@dataclass(frozen=True)
class Turn:
    """One request of the agent: the tools it offers, by its own name for each, and the results it has so far."""

    offered: list[dict]
    results: list[str]


@dataclass
class Model:
    """What `script` makes of the results so far: a call, or the words to end with."""

    script: Callable[[list[str]], Call | str]
    results: list[str] = field(default_factory=list)
    offered: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    def __enter__(self):
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), handler(self))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_port}"

    def move(self, turn: Turn) -> tuple[dict | None, Call | str]:
        """What the model says to `turn`, and the offered tool if it is a call."""
        if not turn.offered:
            return None, "A task."  # the agent asks for a title or the like
        self.offered = [tool["name"] for tool in turn.offered]
        if len(turn.results) >= len(self.results):
            self.results = turn.results
        move = self.script(turn.results)
        if isinstance(move, str):
            return None, move
        for tool in turn.offered:
            if re.search(rf"(^|_){re.escape(move.tool)}$", tool["name"]):
                return tool, move
        self.complaints.append(f"{move.tool} is not offered, only {self.offered}")
        return None, "The tool is not there."


def handler(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            for ending, (read, write) in DIALECTS.items():
                if path.endswith(ending):
                    turn = read(json.loads(body))
                    tool, move = model.move(turn)
                    return self.answer("text/event-stream", events(write(len(turn.results), tool, move)))
            if path.endswith(("count_tokens", "countTokens")):
                return self.answer("application/json", '{"input_tokens": 1, "totalTokens": 1}')
            self.answer("application/json", '{"error": {"message": "not served here"}}', 404)

        def do_GET(self):
            self.answer("application/json", '{"error": {"message": "not served here"}}', 404)

        do_HEAD = do_GET

        def answer(self, content_type, text, status=200):
            data = text.encode()
            self.send_response(status)
            self.send_header("content-type", content_type)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def log_message(self, *_):
            pass

    return Handler


def events(items: list[dict]) -> str:
    """Server-sent events; one with a type is also named by it."""
    named = ((f"event: {item['type']}\n" if "type" in item else "") + f"data: {json.dumps(item)}\n\n" for item in items)
    return "".join(named)


def plain(content) -> str:
    """The text of a tool result in whatever form an agent hands it over."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(plain(part.get("text", part)) if isinstance(part, dict) else plain(part) for part in content)
    return json.dumps(content, ensure_ascii=False)


def read_anthropic(body) -> Turn:
    blocks = [block for message in body["messages"] if isinstance(message["content"], list) for block in message["content"]]
    return Turn(body.get("tools") or [], [plain(block.get("content")) for block in blocks if block["type"] == "tool_result"])


def write_anthropic(number, tool, move):
    if tool:
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": tool["name"], "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(move.arguments)}
    else:
        block, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": move}
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {"id": f"msg_{number}", "type": "message", "role": "assistant", "model": "scripted", "content": []}
    message |= {"stop_reason": None, "stop_sequence": None, "usage": usage}
    stop = {"stop_reason": "tool_use" if tool else "end_turn", "stop_sequence": None}
    return [
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": block},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": stop, "usage": usage},
        {"type": "message_stop"},
    ]


def read_openai(body) -> Turn:
    offered = []
    for tool in body.get("tools") or []:
        if tool["type"] == "namespace":
            offered += [{"name": inner["name"], "namespace": tool["name"]} for inner in tool["tools"]]
        elif tool["type"] == "function":
            offered.append({"name": tool["name"]})
    results = [item for item in body["input"] if item["type"] == "function_call_output"]
    return Turn(offered, [plain(item["output"]) for item in results])


def write_openai(number, tool, move):
    if tool:
        item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}"}
        item |= tool | {"arguments": json.dumps(move.arguments), "status": "completed"}
    else:
        content = [{"type": "output_text", "text": move, "annotations": []}]
        item = {"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content, "status": "completed"}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    response = {"id": f"resp_{number}", "object": "response", "status": "completed", "output": [item], "usage": usage}
    return [
        {"type": "response.created", "response": response | {"status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]


def read_gemini(body) -> Turn:
    offered = [function for tool in body.get("tools") or [] for function in tool.get("functionDeclarations", [])]
    parts = [part for content in body["contents"] for part in content.get("parts", [])]
    answers = [part["functionResponse"]["response"] for part in parts if "functionResponse" in part]
    return Turn(offered, [plain(answer.get("output", answer)) for answer in answers])


def write_gemini(number, tool, move):
    part = {"functionCall": {"name": tool["name"], "args": move.arguments}} if tool else {"text": move}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    return [{"candidates": [candidate], "usageMetadata": usage, "responseId": f"r-{number}"}]


DIALECTS = {
    "/messages": (read_anthropic, write_anthropic),
    "/responses": (read_openai, write_openai),
    ":streamGenerateContent": (read_gemini, write_gemini),
}
