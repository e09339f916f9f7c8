"""Frames: what travels between a worker and whoever started it. `rigel_worker::frame` describes them."""

import hashlib
import struct
from typing import NamedTuple

PROTOCOL = 1
HELLO, JOB, STOP, PROGRESS, DONE, FAILED = b"HELO", b"JOB.", b"STOP", b"PROG", b"DONE", b"FAIL"
_KINDS = {HELLO, JOB, STOP, PROGRESS, DONE, FAILED}
_HEADER = struct.Struct("<4sQQ")


class Frame(NamedTuple):
    kind: bytes
    job: int
    payload: bytes


class FrameError(Exception):
    """What came was not a frame."""


def write(stream, kind, job, payload=b""):
    header = _HEADER.pack(kind, job, len(payload))
    digest = hashlib.sha256(header)
    digest.update(payload)
    for part in (header, payload, digest.digest()):
        stream.write(part)
    stream.flush()


def read(stream, most):
    """The next frame, with a payload of at most `most` bytes; `None` at the end of the stream."""
    header = stream.read(_HEADER.size)
    if not header:
        return None
    _whole(header, _HEADER.size)
    kind, job, length = _HEADER.unpack(header)
    if kind not in _KINDS:
        raise FrameError(f"{header!r} is not the beginning of a frame: the worker does not speak this protocol")
    if length > most:
        raise FrameError(f"a frame of {length} bytes; at most {most} are accepted")
    payload = _whole(stream.read(length), length)
    digest = hashlib.sha256(header)
    digest.update(payload)
    if _whole(stream.read(32), 32) != digest.digest():
        raise FrameError("a frame was altered on its way: its hash does not match")
    return Frame(kind, job, payload)


def _whole(found, expected):
    if len(found) < expected:
        raise FrameError(f"the stream ended inside a frame, after {len(found)} of {expected} bytes")
    return found


def split_done(payload):
    """The report's text and the result in the payload of `DONE`."""
    (length,) = struct.unpack_from("<I", payload)
    return payload[4 : 4 + length], payload[4 + length :]


def join_done(report, result):
    """The payload of `DONE`."""
    return struct.pack("<I", len(report)) + report + result
