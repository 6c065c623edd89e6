"""Frames on a socket: what is too long, unknown, cut short or late is refused at once."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Iterator

import pytest

from tideline_operator.reading.frames import (
    Channel,
    ClosedError,
    FrameError,
    FrameKind,
    OverdueError,
)

Pair = tuple[Channel, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        yield Channel(ours, time.monotonic() + 0.5), theirs


def test_a_frame_comes_as_it_was_sent(pair: Pair) -> None:
    channel, theirs = pair
    for body in (b"", b"{}", b"x" * 50_000):
        Channel(theirs).send(FrameKind.RESULT, body)
        assert channel.receive(50_000) == (FrameKind.RESULT, body)


def test_a_frame_that_is_too_long_is_refused_before_it_is_read(pair: Pair) -> None:
    channel, theirs = pair
    theirs.sendall(struct.pack("!cI", b"R", 11))
    with pytest.raises(FrameError, match="11 B"):
        channel.receive(10)


def test_a_frame_of_an_unknown_kind_is_refused(pair: Pair) -> None:
    channel, theirs = pair
    theirs.sendall(struct.pack("!cI", b"?", 0))
    with pytest.raises(FrameError, match="unknown kind"):
        channel.receive(10)


def test_a_frame_that_drips_is_late(pair: Pair) -> None:
    channel, theirs = pair
    theirs.sendall(struct.pack("!cI", b"R", 10) + b"abc")
    started_s = time.monotonic()
    kind, length = channel.receive_header(10)
    with pytest.raises(OverdueError):
        channel.receive_body(length, within_s=0.1)
    assert (kind, time.monotonic() - started_s < 0.4) == (FrameKind.RESULT, True)
    with pytest.raises(OverdueError):
        channel.receive(10)


def test_one_who_does_not_read_makes_the_sender_late(pair: Pair) -> None:
    channel, _ = pair
    with pytest.raises(OverdueError):
        channel.send(FrameKind.RESULT, b"x" * 10_000_000)


def test_the_end_of_the_other_side_is_noticed(pair: Pair) -> None:
    channel, theirs = pair
    theirs.sendall(b"R\0")
    theirs.close()
    with pytest.raises(ClosedError):
        channel.receive(10)
