"""A line between an engine and the hub that can be cut at one exact moment.

It passes bytes on in both directions. Told to, it waits for the hub's next `message.stored`, keeps it from the engine and
closes the connection: the hub has the message on disk, and the engine cannot know.
"""

import json
import socket
import threading


class Line:
    def __init__(self, hub_address: tuple[str, int]):
        self.hub_address = hub_address
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = "http://127.0.0.1:%d" % self.listener.getsockname()[1]
        self.armed = threading.Event()
        self.cut = threading.Event()
        self.kept_back: dict | None = None
        self.stored: list[dict] = []
        threading.Thread(target=self.accept, daemon=True).start()

    def cut_at_next_stored(self):
        self.cut.clear()
        self.armed.set()

    def close(self):
        self.listener.close()

    def accept(self):
        while True:
            try:
                engine, _ = self.listener.accept()
            except OSError:
                return  # closed
            try:
                hub = socket.create_connection(self.hub_address)
            except OSError:
                engine.close()  # the hub is away; the engine comes again
                continue
            threading.Thread(target=self.carry, args=(engine, hub, lambda _: True), daemon=True).start()
            threading.Thread(target=self.carry, args=(hub, engine, self.watch), daemon=True).start()

    def carry(self, source, target, passes):
        """Until either side ends; then both do."""
        try:
            while (data := source.recv(65536)) and passes(data):
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()

    def watch(self, data: bytes) -> bool:
        """Notes what the hub confirms. Its frames are short and plain, each comes in one piece over loopback."""
        confirmed = [frame for frame in frames(data) if frame.get("t") == "message.stored"]
        if confirmed and self.armed.is_set():
            self.armed.clear()
            self.kept_back = confirmed[0]
            self.cut.set()
            return False
        self.stored += confirmed
        return True


def frames(data: bytes) -> list[dict]:
    """The JSON texts of the WebSocket frames in `data`."""
    found = []
    text = data.decode(errors="replace")
    at = text.find("{")
    while at >= 0:
        try:
            frame, end = json.JSONDecoder().raw_decode(text, at)
        except ValueError:
            end = at + 1
        else:
            found.append(frame)
        at = text.find("{", end)
    return found
