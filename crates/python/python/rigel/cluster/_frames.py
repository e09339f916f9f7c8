"""Frames: what travels between a worker and whoever started it. `rigel_worker::frame` describes them."""

import hashlib
import mmap
import struct
from typing import NamedTuple

PROTOCOL = 1
HELLO, JOB, STOP, PROGRESS, DONE, FAILED = b"HELO", b"JOB.", b"STOP", b"PROG", b"DONE", b"FAIL"
_KINDS = {HELLO, JOB, STOP, PROGRESS, DONE, FAILED}
_HEADER = struct.Struct("<4sQQ")
#: Bytes that are read or written, and hashed, in one go: the other side works on the next meanwhile.
_PIECE = 128 << 10


#: Bytes of a buffer that are kept between frames.
_KEPT = 64 << 20


class Done(NamedTuple):
    """The payload of `DONE`."""

    report: bytes
    result: bytes


class Frame(NamedTuple):
    kind: bytes
    job: int
    payload: bytes | Done


class FrameError(Exception):
    """The input was not a frame."""


def write(stream, kind, job, payload=b""):
    header = _HEADER.pack(kind, job, len(payload))
    digest = hashlib.sha256(header)
    stream.write(header)
    for piece in _pieces(payload):
        digest.update(piece)
        stream.write(piece)
    stream.write(digest.digest())
    stream.flush()


def _pieces(payload):
    view = memoryview(payload)
    return (view[at : at + _PIECE] for at in range(0, len(view), _PIECE))


def read(stream, most, kept=None):
    """The next frame, with a payload of at most `most` bytes; `None` at the end of the stream. Who reads many frames
    gives a `bytearray` that is kept between them: memory that the process has already is faster."""
    header = stream.read(_HEADER.size)
    if not header:
        return None
    _whole(len(header), _HEADER.size)
    kind, job, length = _HEADER.unpack(header)
    if kind not in _KINDS:
        raise FrameError(f"{header!r} is not the beginning of a frame: the worker does not speak this protocol")
    if length > most:
        raise FrameError(f"a frame of {length} bytes; at most {most} are accepted")
    digest = hashlib.sha256(header)
    payload = _room(length, kept)
    for piece in _pieces(payload):
        _whole(stream.readinto(piece), len(piece))
        digest.update(piece)
    expected = stream.read(32)
    _whole(len(expected), 32)
    if expected != digest.digest():
        raise FrameError("a frame was altered on its way: its hash does not match")
    return Frame(kind, job, _split_done(payload) if kind == DONE else bytes(payload))


def _room(length, kept):
    """Memory for a payload. The system gives mapped memory as bytes come, not as the other side promises."""
    if length > _KEPT:
        return memoryview(mmap.mmap(-1, length))
    if kept is None:
        kept = bytearray()
    if len(kept) < length:
        kept.extend(bytes(length - len(kept)))
    return memoryview(kept)[:length]


def _whole(found, expected):
    if found < expected:
        raise FrameError(f"the stream ended inside a frame, after {found} of {expected} bytes")


def _split_done(payload):
    _whole(len(payload), 4)
    (length,) = struct.unpack_from("<I", payload)
    _whole(len(payload), 4 + length)
    return Done(bytes(payload[4 : 4 + length]), bytes(payload[4 + length :]))


def join_done(report, result):
    """The payload of `DONE`."""
    return struct.pack("<I", len(report)) + report + result
