"""Frames: whole however the bytes arrive, and an error for what is not a frame."""

from __future__ import annotations

import socket

import pytest

from conformance_worker import codec, link, messages


def test_frames_come_out_whole_however_the_bytes_arrive() -> None:
    data = link.frame(messages.Probe()) + link.frame(messages.Stop())
    for size in range(1, len(data)):
        decoder = link.Decoder()
        bodies = []
        for start in range(0, len(data), size):
            decoder.feed(data[start : start + size])
            while (body := decoder.next_body()) is not None:
                bodies.append(codec.decode(messages.ToWorker, body))
        assert bodies == [messages.Probe(), messages.Stop()]


def test_rubbish_is_an_error_and_not_an_allocation() -> None:
    decoder = link.Decoder()
    decoder.feed(b"Traceback (most recent call last):")
    with pytest.raises(link.LinkError, match="over the limit"):
        decoder.next_body()


def test_a_message_that_is_too_long_is_not_sent() -> None:
    message = messages.ProbeFailed("E", "x" * (link.MAX_FRAME_BYTES + 1), "")
    with pytest.raises(link.LinkError, match="over the limit"):
        link.frame(message)


def test_a_link_tells_a_closed_socket_from_a_message() -> None:
    left, right = socket.socketpair()
    ours, theirs = link.Link(left), link.Link(right)
    theirs.send(messages.Probe())
    theirs.close()
    assert ours.receive(messages.ToWorker) == messages.Probe()
    assert ours.receive(messages.ToWorker) is None
