"""A RISC Zero program over a cluster: run once, its segments proven where there is room while it runs.

    from rigel.cluster import Cluster, risc0

    with Cluster("auto") as cluster:
        proven = risc0.prove(cluster, "guest.elf", stdin=b"input", gpus=0.5)
        open("receipt.bin", "wb").write(proven.receipt)

`rigel-risc0` must be on every machine. `rigel-risc0 dispatch` runs the program on this one and makes the receipt of the
seals, `rigel-risc0 worker` proves segments on the others. The receipt is upstream's composite receipt, equal to that of
`rigel-risc0 prove`, and upstream's verifier has accepted it for the program.
"""

import json
import queue
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

from . import _frames as frames
from ._cluster import _Line
from ._job import Job, Result
from ._worker import JobFailed, Worker

__all__ = ["Proven", "prove"]


@dataclass
class Proven:
    """A program's receipt, and how it came about."""

    #: Upstream's `Receipt`, as upstream's programs write it (bincode).
    receipt: bytes = field(repr=False)
    journal: bytes = field(repr=False)
    #: The program's image id, in hexadecimal digits, which a receipt is verified against.
    image_id: str
    #: Cycles, the number of segments, milliseconds of the run and of everything.
    report: dict
    #: The segments, in order: where and how often each was tried, and its worker's report. They have no output.
    segments: list = field(repr=False)


def prove(
    cluster,
    program,
    stdin=b"",
    *,
    segment_po2=None,
    max_cycles=None,
    binary="rigel-risc0",
    retries=2,
    hedge=None,
    timeout=None,
    progress=None,
    **place,
):
    """Runs a program and proves the run on the workers of a cluster.

    - `program`: the file's name, or its bytes: ELF for the `v1compat` kernel, or RISC Zero's own format.
    - `stdin`: what the program reads as its standard input.
    - `segment_po2`: the largest segments, as a power of two of rows; otherwise 20. A segment that does not fit on a
      worker's GPU is an error that says so.
    - `binary`: `rigel-risc0`, at the same path on all machines. If it is a sequence, arguments follow.
    - `place`: `gpus`, `cpus`, `memory`, `workers`, `environment`, `start_timeout` of `Cluster.map`. A segment's
      preflight takes longer than its proof on a GPU, on one core: with `gpus=0.5` two workers share a GPU, and one
      proves while the other prepares. Each needs 9.3 GiB of the GPU at 2^20 rows.
    - the others: as in `Cluster.map`.

    Raises `JobFailed` if the program fails, or if a segment has no proof after its retries.
    """
    binary = [binary] if isinstance(binary, (str, Path)) else list(binary)
    program = program if isinstance(program, bytes) else Path(program).read_bytes()
    asked = {"program_bytes": len(program), "segment_po2": segment_po2, "max_cycles": max_cycles}
    pool = cluster.pool([*binary, "worker"], **place)
    events = _Events(lambda: _window(pool))
    show = sys.stderr.isatty() if progress is None else progress
    line = _Line(None) if show else None
    waiting, proven = {}, {}
    leader = Worker([*map(str, binary), "dispatch"], events=events)
    try:
        leader.give(0, json.dumps(asked).encode() + b"\n" + program + stdin)
        while True:
            event = leader.event()
            if isinstance(event, Result):
                events.settle()
                del waiting[event.index]
                if event.error is not None:
                    error = event.error
                    raise JobFailed(f"segment {event.index} has no proof: {error}", error.kind, error.report)
                leader.answer(event.index, event.report, event.output)
                event.forget()
                proven[event.index] = event
                if line:
                    line.count(event, pool.state())
            elif event.kind == frames.JOB:
                job = Job(event.job, event.payload, retries, hedge, timeout)
                waiting[event.job] = job
                job.future.add_done_callback(lambda future: events.put(future.result()))
                pool.submit(job)
            elif event.kind == frames.FAILED:
                answer = json.loads(event.payload)
                raise JobFailed(answer["message"], answer["kind"], answer["report"])
            elif event.kind == frames.DONE:
                report, receipt = json.loads(event.payload.report), event.payload.result
                journal, image_id = bytes.fromhex(report.pop("journal")), report.pop("image_id")
                return Proven(receipt, journal, image_id, report, [proven[index] for index in sorted(proven)])
    finally:
        for job in waiting.values():
            pool.cancel(job)
        events.close()
        leader.close()
        if line:
            line.end()


def _window(pool):
    """The most segments by which the program may be ahead: as many jobs as `map` takes from an iterable."""
    return pool.window()


class _Events:
    """A queue of frames and results. A segment waits before it while too many are on their way to a proof, and with it
    the thread that reads, and so the program that writes them."""

    def __init__(self, most):
        self._most = most
        self._queue = queue.SimpleQueue()
        self._changed = threading.Condition()
        self._open = 0
        self._closed = False

    def put(self, event):
        if isinstance(event, frames.Frame) and event.kind == frames.JOB:
            with self._changed:
                # The cluster may grow while nothing else happens.
                while not self._closed and self._open >= self._most():
                    self._changed.wait(2.0)
                self._open += 1
        self._queue.put(event)

    def get(self, timeout=None):
        return self._queue.get(timeout=timeout)

    def settle(self):
        """Notes that one segment less is on its way."""
        with self._changed:
            self._open -= 1
            self._changed.notify()

    def close(self):
        with self._changed:
            self._closed = True
            self._changed.notify()
