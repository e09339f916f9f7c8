"""The Ray actor around a worker's process: one a GPU, or one a share of the CPUs."""

import socket
import threading
import time

from ._worker import JobFailed, Worker, WorkerDied


class WorkerActor:
    """Starts the worker, and starts it again if it has died. Every outcome is a value: an exception of an actor's call
    means that the actor or its machine is gone."""

    def __init__(self, command, environment, start_timeout):
        self._command = command
        self._environment = environment
        self._start_timeout = start_timeout
        self._worker = None
        #: Orders a job's start with its cancellation.
        self._lock = threading.Lock()
        self._stopped = set()
        self._running = None
        #: The latest job that is over; numbers of jobs increase.
        self._over = 0
        self._metrics = Metrics()

    def ready(self):
        """Starts the worker: where it runs, or why it does not start."""
        import ray

        place = {"node": ray.get_runtime_context().get_node_id(), "host": socket.gethostname()}
        try:
            return {**place, "pid": self._started().pid, "name": self._worker.greeting["name"]}
        except WorkerDied as error:
            return {**place, "error": str(error)}

    def run(self, number, payload, timeout):
        """Two objects: what happened, and the result."""
        began = time.monotonic()
        try:
            report, result = self._work(number, payload, timeout)
            answer = {"report": report}
        except JobFailed as error:
            answer, result = {"failed": str(error), "kind": error.kind, "report": error.report}, b""
        except WorkerDied as error:
            self._worker = None
            answer, result = {"failed": str(error), "kind": error.kind, "report": {}}, b""
        finally:
            with self._lock:
                self._running = None
                self._over = number
                self._stopped.discard(number)
        if answer.get("kind") in ("elsewhere", "panic") or (self._worker and self._worker.closed):
            # A worker that says so itself, or that has panicked, may be of no use any more: a new one is next.
            self._restart()
        answer["seconds"] = time.monotonic() - began
        try:
            self._metrics.count(answer, len(payload) if isinstance(payload, bytes) else 0, len(result))
        except Exception as error:
            # A report is the worker's own words. A result must not be lost because they are of another kind.
            answer["report"]["metrics"] = f"not counted: {error}"
        return answer, result

    def _work(self, number, payload, timeout):
        if not isinstance(payload, bytes):
            raise JobFailed(f"the job's object is of the type {type(payload).__name__}; it should be bytes")
        if number in self._stopped:
            raise JobFailed("the job was cancelled before it began", "stopped")
        worker = self._started()
        with self._lock:
            # A cancellation comes either before the worker has the job, or reaches the worker after it.
            if number in self._stopped:
                raise JobFailed("the job was cancelled before it began", "stopped")
            deadline = worker.give(number, payload, timeout)
            self._running = number
        return worker.outcome(number, deadline, timeout)

    def stop(self, number):
        """Cancels a job, before it came too."""
        with self._lock:
            if number > self._over:
                self._stopped.add(number)
            if self._running == number:
                self._worker.stop(number)

    def progress(self):
        """What the job has said last."""
        return self._worker.progress if self._worker else None

    def _started(self):
        if self._worker is None:
            self._worker = Worker(self._command, environment=self._environment, start_timeout=self._start_timeout)
        return self._worker

    def _restart(self):
        self._worker.close()
        self._worker = None


class Metrics:
    """What Ray exports to Prometheus and shows on its dashboard."""

    def __init__(self):
        from ray.util.metrics import Counter, Gauge, Histogram

        self._jobs = Counter("rigel_jobs", "Jobs by outcome", tag_keys=("outcome",))
        self._bytes = Counter("rigel_bytes", "Bytes of jobs and results", tag_keys=("direction",))
        self._phases = Counter("rigel_phase_seconds", "Seconds of proofs by phase", tag_keys=("phase",))
        self._memory = Gauge("rigel_device_memory_bytes", "Peak device memory of the last proof")
        bounds = [0.01 * 2**n for n in range(16)]
        self._seconds = Histogram("rigel_job_seconds", "Seconds of jobs in their worker", boundaries=bounds)

    def count(self, answer, bytes_in, bytes_out):
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
