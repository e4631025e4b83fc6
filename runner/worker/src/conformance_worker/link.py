"""Frames over a Unix socket: four little-endian length bytes, then one JSON object.

`Decoder` does no I/O, as on the runner's side; `Link` is the socket around it.
"""

from __future__ import annotations

import socket
from typing import Any

from conformance_worker import codec

MAX_FRAME_BYTES = 16 * 1024 * 1024
"""Longest body of a frame. Tensors never travel here."""


class LinkError(RuntimeError):
    """A byte stream that is not a sequence of frames."""


class Decoder:
    """Takes frames out of a byte stream."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> None:
        """Adds bytes as they arrive."""
        self._buffer += data

    def next_body(self) -> bytes | None:
        """Takes the next whole body, if there is one."""
        if len(self._buffer) < 4:
            return None
        length = int.from_bytes(self._buffer[:4], "little")
        if length > MAX_FRAME_BYTES:
            raise LinkError(
                f"a frame of {length} bytes is over the limit of {MAX_FRAME_BYTES} bytes"
            )
        if len(self._buffer) < 4 + length:
            return None
        body = bytes(self._buffer[4 : 4 + length])
        del self._buffer[: 4 + length]
        return body


def frame(message: codec.Tagged) -> bytes:
    """Writes one message as a frame."""
    body = codec.encode(message)
    if len(body) > MAX_FRAME_BYTES:
        raise LinkError(
            f"a frame of {len(body)} bytes is over the limit of {MAX_FRAME_BYTES} bytes"
        )
    return len(body).to_bytes(4, "little") + body


class Link:
    """One end of a connected socket that carries frames."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._decoder = Decoder()
        self._ended = False

    @classmethod
    def connect(cls, path: str) -> Link:
        """Connects to the socket that the runner listens on."""
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.connect(path)
        # A case may start a program; it must not inherit the conversation.
        sock.set_inheritable(False)
        return cls(sock)

    def fileno(self) -> int:
        """For selectors."""
        return self._socket.fileno()

    def send(self, message: codec.Tagged) -> None:
        """Sends one message; `OSError` where the runner is gone."""
        self._socket.sendall(frame(message))

    def receive(self, union: Any) -> Any | None:
        """Waits for the next message of `union`; nothing once the other side has closed."""
        while (body := self._decoder.next_body()) is None:
            if not self._fill():
                return None
        return codec.decode(union, body)

    def receive_ready(self, union: Any) -> list[Any]:
        """Reads once and gives the messages that are whole; `ended` tells the end of file."""
        if not self._fill():
            self._ended = True
        whole = []
        while (body := self._decoder.next_body()) is not None:
            whole.append(codec.decode(union, body))
        return whole

    @property
    def ended(self) -> bool:
        """Whether the other side has closed."""
        return self._ended

    def _fill(self) -> bool:
        try:
            data = self._socket.recv(1 << 16)
        except ConnectionResetError:
            return False
        self._decoder.feed(data)
        return bool(data)

    def close(self) -> None:
        """Closes this end."""
        self._socket.close()
