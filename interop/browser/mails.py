"""A mail relay on loopback that keeps what it is given."""

import email
import email.policy
import queue
import socketserver
import threading

COMES_WITHIN_S = 30


class Conversation(socketserver.StreamRequestHandler):
    """One connection: whatever is said is taken."""

    def handle(self) -> None:
        self.say("220 relay.test")
        while command := self.rfile.readline():
            if command.upper().startswith(b"DATA"):
                self.say("354 go on")
                lines = list(iter(self.rfile.readline, b".\r\n"))
                self.server.taken.put(b"".join(line.removeprefix(b".") for line in lines))
            self.say("250 ok")

    def say(self, answer: str) -> None:
        self.wfile.write(f"{answer}\r\n".encode())


class Relay(socketserver.ThreadingTCPServer):
    """The relay."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Conversation)
        self.taken: queue.Queue[bytes] = queue.Queue()
        self.port = self.server_address[1]
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def next_html(self) -> str:
        """The HTML of the next mail that comes."""
        mail = email.message_from_bytes(self.taken.get(timeout=COMES_WITHIN_S), policy=email.policy.default)
        return mail.get_body(("html",)).get_content()
