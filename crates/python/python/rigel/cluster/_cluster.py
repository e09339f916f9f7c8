"""A cluster: workers of a command on the machines of Ray, and jobs for them."""

import json
import logging
import os
import queue
import sys
import threading
import time

from ._head import GONE, THERE, Head, reach
from ._job import ClusterError, Job, Kind
from ._pool import Pool


_LOG = logging.getLogger("rigel.cluster")


def _ray():
    name = "RAY_ENABLE_AUTO_CONNECT"
    before = os.environ.get(name)
    # Ray reads it when it is imported: a call after a cluster is left must not start another one here unasked.
    os.environ[name] = "0"
    try:
        import ray
    except ImportError:
        raise ClusterError("rigel.cluster needs Ray: pip install 'ray[serve]>=2.60,<3'") from None
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
    return ray


class Cluster:
    """Starts Ray on this machine, or joins the cluster at `address` (`"auto"`: the one that this machine is part of).
    If this process has called `ray.init`, that cluster is used.

    Workers stay warm for `keep` seconds after their last job. Use it as a context, or call `close`.

    If the head of a cluster at an `address` is gone, jobs wait up to `rejoin` seconds for one that comes back there;
    those that have no result then begin again. Otherwise, or if none comes back, they fail with the kind `cluster`.
    """

    def __init__(self, address=None, *, keep=60.0, rejoin=600.0, **ray_options):
        self._ray = _ray()
        self._keep = keep
        self._rejoin = rejoin if address is not None else 0.0
        self._pools = {}
        self._all = []
        self._started = not self._ray.is_initialized()
        if self._started:
            ray_options = {"log_to_driver": False, "namespace": "rigel", **ray_options}
            # "local" is a new cluster, where no address would be that of RAY_ADDRESS or of one that is found.
            self._init = lambda: self._ray.init(address=address or "local", **ray_options)
            self._init()
        elif address is not None:
            raise ClusterError(
                f"this process is part of a Ray cluster already and can't join {address}; call ray.shutdown() first, "
                "or Cluster() to use the one that it is part of"
            )
        self._head = Head(self._ray)
        self._answers = threading.Event()
        self._answers.set()
        self._closing = threading.Event()
        #: Why nothing can be asked for any more.
        self._lost = None
        self._watcher = threading.Thread(target=self._watch, name="rigel-head", daemon=True)
        self._watcher.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        """Ends the workers, and leaves Ray if this object has joined or started it."""
        self._closing.set()
        self._watcher.join()
        for pool in self._pools.values():
            pool.close()
        self._pools.clear()
        self._all.clear()
        if self._started:
            self._ray.shutdown()
        self._head.close()

    def _watch(self):
        """Keeps an eye on the head, in a thread of its own."""
        while not self._closing.wait(0.25):
            state = self._head.look()
            if state == THERE:
                self._answers.set()
            else:
                self._answers.clear()
            if state == GONE and not self._return():
                return

    def _return(self):
        """Goes to the cluster that has taken the place of the one that is gone. Returns whether that was possible."""
        address = self._head.address
        pools = [pool for pool in self._pools.values() if not pool.closed]
        if not self._started:
            # Whose Ray it is may want to leave it in order; this object must not.
            self._give_up(
                f"the head of the Ray cluster at {address} is gone; Ray ends this process within a minute unless it "
                "calls ray.shutdown()"
            )
            return False
        if self._rejoin:
            _LOG.warning("the head at %s is gone; waiting up to %g s for another", address, self._rejoin)
        deadline = time.monotonic() + 10.0
        for left in [pool.leave() for pool in pools]:
            # A pool that is held up by Ray is let go by what follows.
            left.wait(max(0.0, deadline - time.monotonic()))
        # Ray would end the process a minute after the head, with all results in it.
        self._ray.shutdown()
        if not self._rejoin:
            self._give_up(f"the head of the Ray cluster at {address} is gone")
            return False
        until, reason = time.monotonic() + self._rejoin, "nothing answers there"
        while time.monotonic() < until and not self._closing.wait(0.5):
            connection = reach(address)
            if connection is None:
                continue
            connection.close()
            try:
                self._init()
                self._head.close()
                self._head = Head(self._ray)
            except Exception as error:
                reason = str(error)
                continue
            _LOG.warning("joined the Ray cluster at %s again", address)
            self._answers.set()
            for pool in pools:
                pool.resume()
            return True
        self._give_up(f"the head of the Ray cluster at {address} is gone, and none came back: {reason}")
        return False

    def _give_up(self, reason):
        self._lost = reason
        for pool in list(self._pools.values()):
            pool.abandon(f"{reason}; the results before this one are whole, and a new Cluster can do the others")
        self._answers.set()

    def _check(self):
        """Waits until Ray may be asked something."""
        self._answers.wait()
        if self._lost is not None:
            raise ClusterError(f"{self._lost}; close this Cluster, and make another when the head is back")

    def pool(self, command, *, gpus=1, cpus=1, memory=None, workers=None, environment=None, start_timeout=120.0):
        """The workers of a command; `map` says what the arguments are."""
        command = (command,) if isinstance(command, str) else tuple(map(str, command))
        environment = tuple(sorted((environment or {}).items()))
        kind = Kind(command, gpus, cpus, memory, workers, environment, start_timeout)
        if kind not in self._pools or self._pools[kind].closed:
            self._check()
            self._pools[kind] = pool = Pool(self._ray, kind, self._keep, self._all, self._head_answers)
            self._all.append(pool)
        return self._pools[kind]

    def map(
        self,
        command,
        jobs,
        *,
        gpus=1,
        cpus=1,
        memory=None,
        workers=None,
        environment=None,
        start_timeout=120.0,
        retries=2,
        hedge=None,
        timeout=None,
        ordered=False,
        progress=None,
    ):
        """Runs jobs on workers of a command and returns an iterator of `Result`s, as they come or in order.

        - `command`: the worker's program and its arguments, such as `["rigel", "worker"]`.
        - `jobs`: an iterable of bytes, of text, of dictionaries (sent as JSON) or of Ray object references.
        - `gpus`, `cpus`, `memory` (bytes of host memory): what a worker takes of a machine. Half a GPU means two
          workers a GPU, so that one proves while the other makes its trace; `rigel worker` then makes one proof at a
          time, unless its command or `environment` say otherwise. With `gpus=0` a worker sees no GPU.
        - `workers`: how many; otherwise as many as the cluster has room for.
        - `retries`: how often a job is tried again, on another machine if there is one, after its worker, actor or
          machine has died, hung, panicked, or said that another may succeed. The job's own error is not tried again.
        - `hedge`: a job that takes more than this many times the median is also given to another worker that has a
          free place; the first result counts. Without it, no job is ever worked on twice at once.
        - `timeout`: seconds of a job after which its worker is considered hung, and ended. They count from the job's
          beginning in its worker; in `rigel worker`, from the end of its wait for other proofs there.
        - `progress`: whether to print a line about progress; otherwise if standard error is a terminal.

        A job that fails does not end the iteration: its result has an `error`, and raises it as its `output`.
        """
        kind = {"gpus": gpus, "cpus": cpus, "memory": memory, "workers": workers, "environment": environment}
        pool = self.pool(command, **kind, start_timeout=start_timeout)
        show = sys.stderr.isatty() if progress is None else progress
        return Results(pool, jobs, {"retries": retries, "hedge": hedge, "timeout": timeout}, ordered, show)

    def _head_answers(self):
        return self._answers.is_set() and self._lost is None and self._head.answers()

    def status(self):
        """Machines of the cluster, and workers and jobs of this client."""
        self._check()
        nodes = [
            {"host": node["NodeManagerHostname"], "alive": node["Alive"], "resources": node["Resources"]}
            for node in self._ray.nodes()
        ]
        return {"nodes": nodes, "pools": [pool.state() for pool in self._pools.values()]}


def encode(index, job, reference):
    """A job's bytes. Dictionaries are JSON; object references stay what they are."""
    if isinstance(job, dict):
        return json.dumps(job).encode()
    if isinstance(job, str):
        return job.encode()
    if isinstance(job, (bytearray, memoryview)):
        return bytes(job)
    if isinstance(job, (bytes, reference)):
        return job
    raise TypeError(
        f"job {index} is of the type {type(job).__name__}; a job is bytes, text, a dictionary or a Ray object reference"
    )


class Results:
    """The results of a map, as an iterator. Leaving it early, or `cancel`, cancels what is not done."""

    def __init__(self, pool, jobs, options, ordered, show):
        self._pool = pool
        self._source = enumerate(jobs)
        self._options = options
        self._ordered = ordered
        self._done = queue.SimpleQueue()
        self._open = {}
        self._early = {}
        self._next = 0
        self._exhausted = False
        self._line = _Line(len(jobs) if hasattr(jobs, "__len__") else None) if show else None
        self._fill()

    def __iter__(self):
        return self

    def __next__(self):
        while True:
            self._fill()
            if self._ordered and self._next in self._early:
                self._next += 1
                return self._early.pop(self._next - 1)
            if not self._open:
                if self._line:
                    self._line.end()
                raise StopIteration
            result = self._done.get()
            del self._open[result.index]
            if self._line:
                self._line.count(result, self._pool.state())
            if not self._ordered:
                return result
            self._early[result.index] = result

    def cancel(self, index=None):
        """Cancels one job, or all and those that were not taken from the iterable yet. Their results have an error."""
        if index is None:
            self._exhausted = True
        for job in list(self._open.values()):
            if index is None or job.index == index:
                self._pool.cancel(job)

    def close(self):
        self.cancel()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        if self._open:
            self.cancel()

    def _fill(self):
        """Takes jobs from the iterable: enough for all workers, not all that there are."""
        window = self._pool.window()
        while not self._exhausted and len(self._open) + len(self._early) < window:
            try:
                index, job = next(self._source)
            except StopIteration:
                self._exhausted = True
                return
            job = Job(index, encode(index, job, self._pool.reference), **self._options)
            self._open[index] = job
            # The pool keeps the job: a callback that knew this object would keep it, too, after nobody wants it.
            job.future.add_done_callback(lambda future, done=self._done: done.put(future.result()))
            self._pool.submit(job)


class _Line:
    """One line on standard error that says how far a map is."""

    def __init__(self, total):
        self._total = total
        self._began = time.monotonic()
        self._done = self._failed = 0
        self._shown = 0.0

    def count(self, result, state):
        self._done += 1
        self._failed += result.error is not None
        now = time.monotonic()
        if now - self._shown > 0.1 or self._done == self._total:
            self._shown = now
            of = f" of {self._total}" if self._total is not None else ""
            failed = f", {self._failed} failed" if self._failed else ""
            rate = self._done / max(now - self._began, 1e-9)
            line = f"{self._done}{of} jobs{failed}, {state['busy']} workers busy, {rate:.3g} jobs a second"
            print(f"\r\x1b[K{line}", end="", file=sys.stderr, flush=True)

    def end(self):
        print(file=sys.stderr)
