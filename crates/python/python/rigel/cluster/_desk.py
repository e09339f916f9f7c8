"""The jobs of a server: their submission, progress and results."""

import secrets
import threading
import time
from collections import OrderedDict

from ._job import Job, Kind
from ._pool import Pool


class Refused(Exception):
    """A request that can't be served, with HTTP's code for it."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code

    def __reduce__(self):
        return Refused, (self.code, str(self))


class Desk:
    """Gives jobs to workers and keeps their results. There is one, whatever the number of HTTP servers.

    Ray Serve calls it from several threads: `_lock` guards the entries.
    """

    def __init__(self, kind, *, most_waiting, most_waiting_bytes, most_kept, most_kept_bytes, retries, timeout):
        import ray

        self._pool = Pool(ray, Kind(**kind))
        self._pool.watch()
        self._most_waiting = most_waiting
        self._most_waiting_bytes = most_waiting_bytes
        self._most_kept = most_kept
        self._most_kept_bytes = most_kept_bytes
        self._options = {"retries": retries, "hedge": None, "timeout": timeout}
        #: By name: when it was submitted, the job, the bytes of its input.
        self._entries = OrderedDict()
        self._lock = threading.Lock()

    def submit(self, payload):
        name = secrets.token_hex(8)
        job = Job(name, payload, **self._options)
        with self._lock:
            # Jobs that were submitted and not begun, whether the pool's thread has seen them or not.
            waiting = [size for _, job, size in self._entries.values() if not job.tries and not job.future.done()]
            if len(waiting) >= self._most_waiting:
                raise Refused(429, f"{len(waiting)} jobs wait already, which is the limit; submit it again later")
            if sum(waiting) + len(payload) > self._most_waiting_bytes:
                limit = f"{sum(waiting)} bytes of jobs wait, of at most {self._most_waiting_bytes}"
                raise Refused(429, f"{limit}; submit it again later")
            self._entries[name] = (time.time(), job, len(payload))
            self._forget()
        self._pool.submit(job)
        return name

    def _forget(self):
        """Makes room: the oldest jobs that are done go."""
        done = [(name, job.future.result().size) for name, (_, job, _) in self._entries.items() if job.future.done()]
        surplus = len(self._entries) - self._most_kept
        surplus_bytes = sum(size for _, size in done) - self._most_kept_bytes
        for name, size in done:
            if surplus <= 0 and surplus_bytes <= 0:
                return
            del self._entries[name]
            surplus -= 1
            surplus_bytes -= size

    def _job(self, name):
        with self._lock:
            entry = self._entries.get(name)
        if entry is None:
            raise Refused(
                404,
                f"there is no job {name}; the latest {self._most_kept} jobs are kept, "
                f"with results of at most {self._most_kept_bytes} bytes",
            )
        return entry[:2]

    def describe(self, name):
        return self._described(name, *self._job(name))

    @staticmethod
    def _described(name, submitted, job):
        entry = {"id": name, "submitted": submitted, "tries": job.tries}
        if not job.future.done():
            state = "running" if job.running else "waiting"
            return {**entry, "state": state, "progress": job.progress}
        result = job.future.result()
        entry |= {"seconds": result.seconds, "host": result.host, "report": result.report}
        if result.error is None:
            return {**entry, "state": "done", "bytes": len(result.output)}
        state = "cancelled" if result.error.kind == "stopped" else "failed"
        return {**entry, "state": state, "error": str(result.error)}

    def fetch(self, name):
        _, job = self._job(name)
        if not job.future.done():
            raise Refused(409, f"job {name} is not done yet")
        result = job.future.result()
        if result.error is not None:
            raise Refused(410, f"job {name} has no result: {result.error}")
        return result.output

    def cancel(self, name):
        _, job = self._job(name)
        self._pool.cancel(job)

    def status(self):
        with self._lock:
            self._forget()
            recent = list(self._entries.items())[-50:]
        jobs = [self._described(name, *entry[:2]) for name, entry in reversed(recent)]
        return {"pool": self._pool.state(), "jobs": jobs}
