"""Kinds of workers, jobs and their results."""

from concurrent.futures import Future
from dataclasses import dataclass, field

from ._worker import JobFailed


class ClusterError(Exception):
    """The cluster can't do what was asked."""


@dataclass(frozen=True)
class Kind:
    """A kind of worker: its command, and its share of a machine."""

    command: tuple
    gpus: float = 1
    cpus: float = 1
    memory: int | None = None
    workers: int | None = None
    environment: tuple = ()
    start_timeout: float = 120.0

    @property
    def variables(self):
        """The variables that are set in its worker's environment."""
        variables = dict(self.environment)
        # A worker without a GPU must not find one by itself, and one with a GPU must not prove on the CPU.
        name, value = ("CUDA_VISIBLE_DEVICES", "") if self.gpus == 0 else ("RIGEL_DEVICE", "cuda:0")
        variables.setdefault(name, value)
        if 0 < self.gpus < 1:
            # The workers that share a GPU have its memory together: each makes one proof at a time.
            variables.setdefault("RIGEL_WORKER_AT_ONCE", "1")
        return variables

    @property
    def needs(self):
        """The resources that a worker takes of a machine, by Ray's names."""
        needs = {"CPU": self.cpus, "GPU": self.gpus, "memory": self.memory}
        return {name: need for name, need in needs.items() if need}


@dataclass
class Result:
    """A job's outcome. `output` raises the error if there is one."""

    index: int
    error: JobFailed | None
    report: dict
    #: Seconds from the start of the first attempt to the arrival of the result.
    seconds: float
    tries: int
    #: The machine that the result comes from.
    host: str | None
    #: Ray's names of the machines of all attempts, in the order of their starts.
    nodes: tuple = ()
    _output: bytes = field(repr=False, default=b"")

    @property
    def size(self):
        """Bytes of the output; 0 if there is none."""
        return len(self._output)

    @property
    def output(self):
        if self.error is not None:
            raise self.error
        return self._output

    def forget(self):
        """Drops the output, which somebody else holds by now."""
        self._output = b""


class Job:
    """A job in the pool. `future` gets its `Result`, and never an exception."""

    def __init__(self, index, payload, retries, hedge, timeout):
        self.index = index
        self.payload = payload
        #: The same before it became an object, for a second cluster after the first is gone.
        self.source = payload
        self.retries = retries
        self.hedge = hedge
        self.timeout = timeout
        self.future = Future()
        self.tries = 0
        self.nodes = []
        self.faults = 0
        self.avoid = set()
        #: Attempts that are under way, by number.
        self.running = {}
        #: Whether it gets a worker to itself, because one has failed that worked on it and on others.
        self.alone = False
        self.began = None
        self.cancelled = False

    @property
    def progress(self):
        """The last progress of the attempt that is furthest."""
        said = [attempt.progress for attempt in list(self.running.values())]
        return max(filter(None, said), key=lambda progress: progress.get("fraction", 0), default=None)
