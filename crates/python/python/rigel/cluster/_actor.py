"""The Ray actor around a worker's process: one a GPU, or one a share of the CPUs."""

import collections
import socket
import threading
import time

from ._worker import JobFailed, Worker, WorkerDied


#: Jobs that an actor has at the most: those that its worker works on, and as many that wait there.
MOST_JOBS = 32
#: Calls of an actor at once: its jobs, and what is said about them.
MOST_CALLS = MOST_JOBS + 4


class WorkerActor:
    """Starts the worker, and starts it again if it has died. Every outcome is a value: an exception of an actor's call
    means that the actor or its machine is gone."""

    def __init__(self, command, environment, start_timeout):
        self._command = command
        self._environment = environment
        self._start_timeout = start_timeout
        #: Jobs are given one after another, and a worker is started by one of them.
        self._giving = threading.Lock()
        #: Orders a job's start with its cancellation, and with the end of a worker.
        self._changed = threading.Condition()
        self._worker = None
        #: Whether the worker gets no more jobs, and ends after those that it has.
        self._retired = False
        self._stopped = set()
        #: The workers of the jobs under way, by number.
        self._running = {}
        #: Jobs that are over, for a cancellation that comes late.
        self._over = collections.deque(maxlen=256)
        self._metrics = Metrics()

    def ready(self):
        """Starts the worker: where it runs and how many jobs it works on at once, or why it does not start."""
        import ray

        place = {"node": ray.get_runtime_context().get_node_id(), "host": socket.gethostname()}
        try:
            with self._giving:
                worker = self._started()
            at_once, waiting = worker.at_once, max(0, int(worker.greeting["most_waiting"]))
            # More would be refused. An actor has no more calls at once, either.
            at_once = min(at_once, MOST_JOBS // 2)
            limits = {"at_once": at_once, "most": at_once + min(at_once, waiting)}
            return {**place, **limits, "pid": worker.pid, "name": worker.greeting["name"]}
        except WorkerDied as error:
            return {**place, "error": str(error)}

    def run(self, number, payload, timeout):
        """Two objects: what happened, and the result."""
        began = time.monotonic()
        try:
            worker, job = self._give(number, payload, timeout)
            report, result = worker.outcome(job)
            answer = {"report": report}
        except JobFailed as error:
            answer = {"failed": str(error), "kind": error.kind, "report": error.report, "beside": error.beside}
            result = b""
        except WorkerDied as error:
            answer = {"failed": str(error), "kind": error.kind, "report": {}, "beside": error.beside}
            result = b""
        finally:
            with self._changed:
                worker = self._running.pop(number, None)
                self._over.append(number)
                self._stopped.discard(number)
                self._changed.notify_all()
        if answer.get("kind") in ("elsewhere", "panic"):
            # A worker that says so itself, or that has panicked, may be of no use any more: a new one is next.
            self._retire(worker)
        answer["seconds"] = time.monotonic() - began
        try:
            self._metrics.count(answer, len(payload) if isinstance(payload, bytes) else 0, len(result))
        except Exception as error:
            # A report is the worker's own words. A result must not be lost because they are of another kind.
            answer["report"]["metrics"] = f"not counted: {error}"
        return answer, result

    def _give(self, number, payload, timeout):
        if not isinstance(payload, bytes):
            raise JobFailed(f"the job's object is of the type {type(payload).__name__}; it should be bytes")
        self._check(number)
        with self._giving:
            while True:
                worker = self._started()
                with self._changed:
                    # A cancellation comes either before the worker has the job, or reaches the worker after it.
                    self._check(number)
                    if worker is not self._worker or self._retired:
                        continue
                    job = worker.give(number, payload, timeout)
                    self._running[number] = worker
                    return worker, job

    def _check(self, number):
        if number in self._stopped:
            raise JobFailed("the job was cancelled before it began", "stopped")

    def stop(self, number):
        """Cancels a job, before it came too."""
        with self._changed:
            if number in self._running:
                self._running[number].stop(number)
            elif number not in self._over:
                self._stopped.add(number)

    def progress(self):
        """The last progress of the jobs, by number."""
        with self._changed:
            running = list(self._running.items())
        return {number: worker.progress(number) for number, worker in running}

    def _started(self):
        """The worker for the next job: the one that is there, or a new one."""
        with self._changed:
            # Two workers at once would not fit on the device.
            self._changed.wait_for(lambda: not self._retired or not self._running)
            if self._worker is not None and (self._retired or self._worker.closed):
                self._worker.close()
                self._worker = None
            self._retired = False
            worker = self._worker
        if worker is None:
            worker = Worker(self._command, environment=self._environment, start_timeout=self._start_timeout)
            with self._changed:
                self._worker = worker
        return worker

    def _retire(self, worker):
        """Gives a worker no more jobs. It ends with the last one that it has."""
        with self._changed:
            if worker is None or worker is not self._worker:
                return
            self._retired = True
            if not self._running:
                worker.close()


class Metrics:
    """The metrics that Ray exports to Prometheus and shows on its dashboard."""

    def __init__(self):
        from ray.util.metrics import Counter, Gauge, Histogram

        self._jobs = Counter("rigel_jobs", "Jobs by outcome", tag_keys=("outcome",))
        self._bytes = Counter("rigel_bytes", "Bytes of jobs and results", tag_keys=("direction",))
        self._phases = Counter("rigel_phase_seconds", "Seconds of proofs by phase", tag_keys=("phase",))
        self._memory = Gauge("rigel_device_memory_bytes", "Peak device memory of the last proof")
        bounds = [0.01 * 2**n for n in range(16)]
        self._seconds = Histogram("rigel_job_seconds", "Seconds of jobs in their worker", boundaries=bounds)
        self._lock = threading.Lock()

    def count(self, answer, bytes_in, bytes_out):
        with self._lock:
            self._count(answer, bytes_in, bytes_out)

    def _count(self, answer, bytes_in, bytes_out):
        self._jobs.inc(tags={"outcome": answer.get("kind", "done")})
        self._seconds.observe(answer["seconds"])
        for direction, count in (("in", bytes_in), ("out", bytes_out)):
            if count:
                self._bytes.inc(count, tags={"direction": direction})
        phases = answer["report"].get("phases")
        for phase, milliseconds in phases.items() if isinstance(phases, dict) else ():
            if isinstance(milliseconds, (int, float)) and milliseconds > 0:
                self._phases.inc(milliseconds / 1e3, tags={"phase": phase})
        proof = answer["report"].get("proof")
        if isinstance(proof, dict) and proof.get("peak_bytes"):
            self._memory.set(proof["peak_bytes"])
