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


class Frame(NamedTuple):
    kind: bytes
    job: int
    #: Of `DONE` a view, which `split_done` makes bytes of; otherwise bytes.
    payload: bytes | memoryview


class FrameError(Exception):
    """What came was not a frame."""


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


def read(stream, most):
    """The next frame, with a payload of at most `most` bytes; `None` at the end of the stream."""
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
    # The system gives mapped memory as bytes come, not as the other side promises.
    payload = memoryview(bytearray(length) if length <= _PIECE else mmap.mmap(-1, length))
    for piece in _pieces(payload):
        _whole(stream.readinto(piece), len(piece))
        digest.update(piece)
    expected = stream.read(32)
    _whole(len(expected), 32)
    if expected != digest.digest():
        raise FrameError("a frame was altered on its way: its hash does not match")
    return Frame(kind, job, payload if kind == DONE else bytes(payload))


def _whole(found, expected):
    if found < expected:
        raise FrameError(f"the stream ended inside a frame, after {found} of {expected} bytes")


def split_done(payload):
    """The report's text and the result in the payload of `DONE`."""
    (length,) = struct.unpack_from("<I", payload)
    return bytes(payload[4 : 4 + length]), bytes(payload[4 + length :])


def join_done(report, result):
    """The payload of `DONE`."""
    return struct.pack("<I", len(report)) + report + result
