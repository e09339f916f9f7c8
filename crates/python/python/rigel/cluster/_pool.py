"""The workers of one kind, and the jobs that wait for them.

One thread owns all state and takes events from a queue: a job was submitted or cancelled, a call of an actor has ended.
Nothing is polled but what has no event of its own: the cluster's size, stragglers, progress.
"""

import collections
import itertools
import queue
import statistics
import threading
import time

from ._actor import MOST_CALLS, WorkerActor
from ._job import ClusterError, Result
from ._worker import JobFailed

#: Inputs of at most these bytes travel with the call; larger ones become an object once, for all attempts.
_INLINE = 64 << 10
#: Seconds that workers may take to start before idle ones of other pools give way.
_PATIENCE = 0.5
#: Starts that fail, one after another, until the jobs fail if no worker is there or starting.
_STARTS = 3
#: The same if others seem to be starting: they may as well wait for a place that they never get.
_MOST_STARTS = 8
#: Seconds until a worker is started again after one has not started; twice as many each time on the same machine.
_AGAIN, _MOST_AGAIN = 0.2, 30.0
#: Seconds of a usual job below which a worker of several jobs at once is given the next ones before it is done.
_SHORT = 0.25
#: Seconds for which a job rather waits for a worker that starts than for a second place in one that works.
_STARTING = 10.0
#: Seconds between two updates of Ray's metrics.
_GAUGES = 0.25


class _Attempt:
    """A job in the hands of a member."""

    def __init__(self, number, job, member):
        self.number = number
        self.job = job
        self.member = member
        self.began = time.monotonic()
        self.progress = None


class _Member:
    """An actor, where it is, and what it works on."""

    def __init__(self, actor):
        self.actor = actor
        self.asked = time.monotonic()
        self.place = None
        #: How many jobs its worker works on at once, and how many it has with those that wait there.
        self.at_once = self.most = 1
        #: Attempts, by number.
        self.jobs = {}
        self.idle_since = None

    def room(self, ahead):
        """The number of further jobs that it takes, if those that work on several take others `ahead`."""
        if self.place is None or any(attempt.job.alone for attempt in self.jobs.values()):
            return 0
        return (self.most if ahead and self.at_once > 1 else self.at_once) - len(self.jobs)


class Pool:
    def __init__(self, ray, kind, keep=60.0, peers=(), head_answers=lambda: True):
        self._ray = ray
        self.reference = ray.ObjectRef
        self._kind = kind
        self._keep = keep
        #: Pools of the same client, which give way if they have no work.
        self._peers = peers
        #: Whether Ray may be asked about the cluster. A question to a head that is gone would not return.
        self._head_answers = head_answers
        #: Whether the cluster is gone; set before the pool's thread knows, so that it starts nothing more.
        self._away = False
        #: How often it has gone. A return to one that has gone again meanwhile is none.
        self._losses = 0
        self._events = queue.SimpleQueue()
        self._waiting = collections.deque()
        self._jobs = set()
        self._members = []
        self._numbers = itertools.count(1)
        self._durations = collections.deque(maxlen=101)
        #: Jobs that a worker works on at once, by the latest greeting.
        self._at_once = 1
        #: Starts that have failed, one after another, by machine.
        self._failed_starts = collections.Counter()
        self._start_after = 0.0
        self._room = (0, -1e9)
        self._watched = False
        self._next_watch = 0.0
        self._next_crowd = 0.0
        self._next_gauges = 0.0
        self._closed = False
        self._why = None
        #: Why no job is taken any more. The lock orders it with the jobs that were taken.
        self._ended = None
        self._gate = threading.Lock()
        self._join()
        if kind.workers is None:
            # Asked even if the head has just hung up an idle connection: a number of no answer would refuse every job.
            self._ask()
        if self.room() == 0:
            raise ClusterError(self._no_room())
        self._thread = threading.Thread(target=self._loop, name="rigel-pool", daemon=True)
        self._thread.start()

    def _join(self):
        """Makes the parts that belong to the cluster that Ray is part of now."""
        kind = self._kind
        resources = {"num_cpus": kind.cpus, "num_gpus": kind.gpus, "max_concurrency": MOST_CALLS}
        if kind.memory:
            resources["memory"] = kind.memory
        actor = self._ray.remote(WorkerActor).options(**resources)
        self._start_actor = lambda: actor.remote(list(kind.command), kind.variables, kind.start_timeout)
        self._room = (self._room[0], -1e9)
        self._gauges = _Gauges()

    def leave(self):
        """The cluster is gone. Jobs wait; none of the old workers is asked for anything any more."""
        with self._gate:
            self._away = True
            self._losses += 1
        left = threading.Event()
        self._events.put((self._leave, left))
        return left

    def resume(self):
        """Ray is part of a cluster again: the jobs that have no result are given to workers there."""
        self._events.put((self._resume, self._losses))

    def abandon(self, reason):
        """Fails what is not done, and takes no more jobs."""
        with self._gate:
            self._away = True
            self._losses += 1
        self._events.put((self._abandon, reason))

    def submit(self, job):
        """Takes a job. One that comes after the end fails at once."""
        with self._gate:
            if self._ended is None:
                self._events.put((self._submitted, job))
                return job
        self._fail(job, self._ended)
        return job

    def cancel(self, job):
        self._events.put((self._cancelled, job))

    def watch(self):
        """Keeps `Job.progress` up to date from now on."""
        self._watched = True

    def give_way(self):
        """Gives back workers without a job, because another pool waits for their place."""
        self._events.put((self._release, 0.0))

    def close(self):
        self._events.put((self._close,))
        self._thread.join()

    @property
    def closed(self):
        """Whether no job is taken any more: after `close`, or after a fault of the pool itself."""
        return self._ended is not None

    def room(self):
        """The most workers that the cluster has room for, now; or the number that was asked for."""
        if self._kind.workers is not None:
            return self._kind.workers
        number, asked = self._room
        if time.monotonic() - asked > 2.0 and not self._away and self._head_answers():
            return self._ask()
        return number

    def _ask(self):
        number = sum(self._fitting(node["Resources"]) for node in self._ray.nodes() if node["Alive"])
        self._room = (number, time.monotonic())
        return number

    def window(self):
        """The number of jobs that should be there, so that no worker waits for one."""
        return 2 * self.room() * self._at_once + 16

    def state(self):
        """Workers and jobs, for people."""
        members = list(self._members)
        return {
            "command": " ".join(self._kind.command),
            "starting": sum(member.place is None for member in members),
            "idle": sum(member.place is not None and not member.jobs for member in members),
            "busy": sum(bool(member.jobs) for member in members),
            "running": sum(len(member.jobs) for member in members),
            "waiting": len(self._waiting),
            "hosts": sorted({member.place["host"] for member in members if member.place}),
        }

    # Everything below runs in the pool's thread.

    def _loop(self):
        why = JobFailed("the cluster was closed", "stopped")
        try:
            self._follow()
            why = self._why or why
        except BaseException as error:
            # Whatever it is: those who wait for results would wait forever.
            why = JobFailed(f"the workers' pool has failed: {type(error).__name__}: {error}", "cluster")
            raise
        finally:
            self._end(why)

    def _follow(self):
        while not self._closed:
            try:
                action, *arguments = self._events.get(timeout=self._pause())
            except queue.Empty:
                pass
            else:
                self._do(action, *arguments)
                # Whatever else has happened by now is looked at before anything is decided.
                while not self._events.empty():
                    self._do(*self._events.get())
            if not self._closed and not self._away:
                self._do(self._decide)

    def _decide(self):
        self._dispatch()
        self._hedge()
        self._poll()
        self._release(self._keep)
        self._crowd()
        now = time.monotonic()
        if now >= self._next_gauges or not self._jobs:
            self._next_gauges = now + _GAUGES
            self._gauges.set(self.state())

    def _do(self, action, *arguments):
        try:
            action(*arguments)
        except Exception:
            # Ray's calls fail in many ways while the cluster goes. The jobs are all taken up again later; but if that
            # fails, nothing else would end them.
            if not self._away or (action == self._resume and arguments == (self._losses,)):
                raise

    def _leave(self, left):
        for job in sorted(self._jobs, key=lambda job: job.index, reverse=True):
            job.running.clear()
            if job.future.done() or job in self._waiting:
                continue
            if job.cancelled:
                self._fail(job, JobFailed("the job was cancelled", "stopped"))
                continue
            self._waiting.appendleft(job)
        self._jobs = {job for job in self._jobs if not job.future.done()}
        for member in self._members:
            member.jobs.clear()
        self._members.clear()
        self._failed_starts.clear()
        self._start_after = 0.0
        left.set()

    def _resume(self, losses):
        for job in list(self._waiting):
            if losses != self._losses:
                return  # This cluster has gone, too. Jobs keep their source for the next.
            if isinstance(job.source, self.reference):
                self._waiting.remove(job)
                reason = "the job was an object of the cluster that is gone; give it as bytes to have it tried again"
                self._fail(job, JobFailed(reason, "cluster"))
                continue
            # Machines have other names now.
            job.payload, job.avoid = job.source, set()
            if not self._send(job):
                self._waiting.remove(job)
        self._join()
        with self._gate:
            self._away = losses != self._losses

    def _abandon(self, reason):
        self._members.clear()
        self._closed, self._why = True, JobFailed(reason, "cluster")

    def _pause(self):
        """Seconds until something must be looked at that has no event."""
        hedged = any(job.hedge for job in self._jobs)
        until_start = self._start_after - time.monotonic()
        if self._waiting and 0 < until_start < _PATIENCE:
            return until_start
        if any(member.place is None for member in self._members):
            return _PATIENCE
        if hedged or (self._watched and self._jobs):
            return 0.1
        return 2.0 if self._members or self._waiting else None

    def _submitted(self, job):
        self._jobs.add(job)
        if self._away or self._send(job):
            self._waiting.append(job)

    def _send(self, job):
        """Makes an object of a large input. Returns whether that went well; a job whose input did not has failed."""
        try:
            if not isinstance(job.payload, self.reference) and len(job.payload) > _INLINE:
                job.payload = self._ray.put(job.payload)
        except Exception as error:
            self._fail(job, JobFailed(f"the job can't be sent: {error}", "cluster"))
            return False
        return True

    def _cancelled(self, job):
        if job.future.done():
            return
        job.cancelled = True
        if job in self._waiting:
            self._waiting.remove(job)
            self._fail(job, JobFailed("the job was cancelled before it began", "stopped"))
        for number, attempt in job.running.items():
            if not self._away:
                attempt.member.actor.stop.remote(number)

    def _dispatch(self):
        busy = sum(bool(member.jobs) for member in self._members)
        wanted = min(self.room(), busy + len(self._waiting))
        now = time.monotonic()
        if now >= self._start_after:
            for _ in range(wanted - len(self._members)):
                self._start()
        if not self._waiting:
            return
        ahead = bool(self._durations) and statistics.median(self._durations) < _SHORT
        # A job has a worker to itself if one is about to come: two at once take longer each.
        coming = sum(member.place is None and now - member.asked < _STARTING for member in self._members)
        free = [member for member in self._members if len(member.jobs) < member.most and member.room(ahead) > 0]
        held = []
        while self._waiting and free:
            job = self._waiting.popleft()
            member = self._choose(job, free, len(self._waiting) >= coming)
            if member is None:
                held.append(job)
                if job.alone and (quiet := self._quietest(job)) in free:
                    # It becomes idle sooner or later, which it would not if others went on to it.
                    free.remove(quiet)
                continue
            self._give(job, member)
            if member.room(ahead) <= 0:
                free.remove(member)
        self._waiting.extendleft(reversed(held))

    def _choose(self, job, free, second):
        """A worker on a machine that has not failed this job, unless all have: one without jobs, or, if `second` says
        so, the one that has the fewest."""
        if job.alone or not second:
            free = [member for member in free if not member.jobs]
        fresh = [member for member in free if member.place["node"] not in job.avoid]
        if not fresh and any(member.place and member.place["node"] not in job.avoid for member in self._members):
            return None
        return min(fresh or free, key=lambda member: len(member.jobs), default=None)

    def _quietest(self, job):
        """The worker that a job which needs one to itself waits for."""
        there = [member for member in self._members if member.place]
        fresh = [member for member in there if member.place["node"] not in job.avoid]
        return min(fresh or there, key=lambda member: len(member.jobs), default=None)

    def _give(self, job, member):
        if self._away:
            return  # The job is not lost: what does not wait when the cluster is left begins to.
        attempt = _Attempt(next(self._numbers), job, member)
        job.tries += 1
        job.nodes.append(member.place["node"])
        job.began = job.began or attempt.began
        job.running[attempt.number] = member.jobs[attempt.number] = attempt
        answer, output = member.actor.run.options(num_returns=2).remote(attempt.number, job.payload, job.timeout)
        self._after_both(answer, output, self._answered, attempt)

    def _after_both(self, answer, output, action, *arguments):
        """Calls the action in the pool's thread when both references have a value: with an exception or with both."""
        lock = threading.Lock()
        values = {}

        def done(name, future):
            with lock:
                values[name] = future
                if len(values) < 2:
                    return
            lost = values["answer"].exception()
            found = None if lost else values["answer"].result()
            if found is not None and "failed" not in found:
                # The result may be lost after the answer has come.
                lost = values["output"].exception()
            result = values["output"].result() if lost is None and "failed" not in found else None
            self._events.put((action, *arguments, lost, found, result))

        answer.future().add_done_callback(lambda future: done("answer", future))
        output.future().add_done_callback(lambda future: done("output", future))

    def _after(self, reference, action, *arguments):
        """Calls the action in the pool's thread, with the value or the exception of the reference."""

        def done(future):
            self._events.put((action, *arguments, future.exception(), None if future.exception() else future.result()))

        reference.future().add_done_callback(done)

    def _start(self):
        if self._away:
            return
        member = _Member(self._start_actor())
        self._members.append(member)
        self._after(member.actor.ready.remote(), self._started, member)

    def _started(self, member, lost, place):
        if member not in self._members:
            return
        reason = str(lost) if lost else place.get("error")
        if reason is None:
            member.place, member.idle_since = place, time.monotonic()
            member.at_once = self._at_once = place.get("at_once", 1)
            member.most = place.get("most", member.at_once)
            del self._failed_starts[place["node"]]
            return
        self._drop(member)
        node = place["node"] if place else None
        if time.monotonic() >= self._start_after:
            # Those that were started together count once.
            self._failed_starts[node] += 1
            self._start_after = time.monotonic() + min(_AGAIN * 2 ** self._failed_starts[node], _MOST_AGAIN)
        failed = self._failed_starts.total()
        if any(member.place for member in self._members) or failed < _STARTS:
            return
        if failed >= _MOST_STARTS or not self._members:
            where = f" on {place['host']}" if place else ""
            while self._waiting:
                self._fail(self._waiting.popleft(), JobFailed(f"no worker starts{where}: {reason}", "cluster"))
            self._failed_starts.clear()

    def _answered(self, attempt, lost, answer, output):
        member, job = attempt.member, attempt.job
        if member.jobs.get(attempt.number) is not attempt:
            return  # Of a cluster or of an actor that is gone; the job is somebody else's by now.
        if lost is not None:
            self._lost(member, lost)
            return
        self._free(attempt)
        if "failed" in answer:
            self._failed(attempt, answer)
            return
        self._durations.append(answer["seconds"])
        if job.future.done():
            if not job.running:
                self._jobs.discard(job)
            return
        # The other attempts of a hedged job are not wanted any more.
        for other, helper in job.running.items():
            helper.member.actor.stop.remote(other)
        host, nodes = member.place["host"], tuple(job.nodes)
        self._finish(job, Result(job.index, None, answer["report"], self._since(job), job.tries, host, nodes, output))

    def _lost(self, member, lost):
        """An actor is gone, and with it all its jobs."""
        attempts = list(member.jobs.values())
        self._drop(member)
        for attempt in attempts:
            self._free(attempt)
        # The first one is to be tried again first.
        for attempt in reversed(attempts):
            beside = len(attempts) > 1
            words = f"the worker's actor is gone: {lost}"
            self._failed(attempt, {"failed": words, "kind": "died", "report": {}, "beside": beside})

    def _failed(self, attempt, answer):
        job = attempt.job
        if job.running:
            return  # Another attempt is under way.
        if job.future.done():
            self._jobs.discard(job)
        else:
            self._after_failure(job, attempt.member, answer)

    def _after_failure(self, job, member, answer):
        kind = answer["kind"]
        error = JobFailed(answer["failed"], kind, answer["report"])
        # Whose fault it was that a worker died, lost its device or panicked, one attempt of each by itself shows. It is
        # none of the retries.
        unclear = kind in ("died", "elsewhere", "panic") and answer.get("beside", False) and not job.alone
        if job.cancelled or kind == "stopped":
            self._fail(job, JobFailed(answer["failed"] if kind == "stopped" else "the job was cancelled", "stopped"))
        elif kind in ("died", "timeout", "elsewhere", "panic") and (unclear or job.faults < job.retries):
            job.faults += not unclear
            job.alone = job.alone or unclear
            if member.place:
                job.avoid.add(member.place["node"])
            self._waiting.appendleft(job)
        else:
            self._fail(job, error)

    def _hedge(self):
        if self._waiting or len(self._durations) < 3:
            return
        idle = [member for member in self._members if member.room(False) > 0]
        usual = statistics.median(self._durations)
        now = time.monotonic()
        for job in [job for job in self._jobs if job.hedge and len(job.running) == 1]:
            (first,) = job.running.values()
            others = [member for member in idle if member is not first.member and not (job.alone and member.jobs)]
            if not others or job.cancelled or now - first.began < job.hedge * usual:
                continue
            elsewhere = [member for member in others if member.place["node"] != first.member.place["node"]]
            helper = min(elsewhere or others, key=lambda member: len(member.jobs))
            self._give(job, helper)
            if helper.room(False) <= 0:
                idle.remove(helper)

    def _poll(self):
        if not self._watched or time.monotonic() < self._next_watch:
            return
        self._next_watch = time.monotonic() + 0.5
        for member in self._members:
            if member.jobs:
                self._after(member.actor.progress.remote(), self._said, member)

    def _said(self, member, lost, progress):
        if lost is None:
            for number, said in progress.items():
                if number in member.jobs:
                    member.jobs[number].progress = said

    def _crowd(self):
        """Asks pools without work for their places, if workers of this one wait for theirs."""
        now = time.monotonic()
        if now < self._next_crowd or all(member.place or now - member.asked <= _PATIENCE for member in self._members):
            return
        if not self._head_answers():
            return
        self._next_crowd = now + _PATIENCE
        available, needs = self._ray.available_resources(), self._kind.needs
        # If nothing is short in the whole cluster, it is on some machine, and any of them may be it.
        short = {name for name, need in needs.items() if available.get(name, 0) < need} or set(needs)
        for peer in list(self._peers):
            if peer is not self and not peer.closed and short & set(peer._kind.needs):
                peer.give_way()

    def _release(self, keep):
        """Gives back workers that nobody has needed for a while."""
        now = time.monotonic()
        for member in list(self._members):
            if not member.jobs and member.idle_since is not None and now - member.idle_since > keep:
                self._drop(member)
        if not self._jobs:
            # Those that have not even started would only take the place of somebody else's.
            for member in [member for member in self._members if member.place is None]:
                self._drop(member)

    def _free(self, attempt):
        del attempt.job.running[attempt.number]
        del attempt.member.jobs[attempt.number]
        if not attempt.member.jobs:
            attempt.member.idle_since = time.monotonic()

    def _drop(self, member):
        if member in self._members:
            self._members.remove(member)
        if self._away:
            return  # It has gone with its cluster.
        try:
            self._ray.kill(member.actor)
        except Exception:
            pass  # An actor that was not made can't be ended, and says so in another way each time.

    def _since(self, job):
        return time.monotonic() - job.began if job.began else 0.0

    def _fail(self, job, error):
        self._finish(job, Result(job.index, error, error.report, self._since(job), job.tries, None, tuple(job.nodes)))

    def _finish(self, job, result):
        job.payload = job.source = None
        job.future.set_result(result)
        if not job.running:
            self._jobs.discard(job)

    def _close(self):
        self._closed = True

    def _end(self, why):
        """Fails every job that was taken and is not done, and ends the workers."""
        with self._gate:
            self._ended = why
        while not self._events.empty():
            action, *arguments = self._events.get()
            if action == self._submitted:
                self._jobs.update(arguments)
        for job in list(self._jobs):
            if not job.future.done():
                self._fail(job, why)
        for member in list(self._members):
            self._drop(member)

    def _fitting(self, resources):
        # Ray counts in 1/10,000. A GPU's share is of one GPU: the rest of one and the rest of another are not a place.
        fits = []
        for name, need in self._kind.needs.items():
            there, need = round(1e4 * resources.get(name, 0)), max(1, round(1e4 * need))
            shared = name == "GPU" and need < 10_000
            fits.append((there // 10_000) * (10_000 // need) if shared else there // need)
        return min(fits, default=0)

    def _no_room(self):
        kind = self._kind
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        there = ", ".join(f"{node.get('GPU', 0):g} GPUs and {node.get('CPU', 0):g} CPUs" for node in nodes)
        memory = f" and {kind.memory} bytes of memory" if kind.memory else ""
        return (
            f"no machine of the cluster has {kind.gpus:g} GPUs and {kind.cpus:g} CPUs{memory} for a worker; it has "
            f"{there or 'no machines'}. gpus=0 proves on the CPU; workers=N asks an autoscaler for machines"
        )


class _Gauges:
    def __init__(self):
        from ray.util.metrics import Gauge

        self._waiting = Gauge("rigel_jobs_waiting", "Jobs that wait for a worker")
        self._busy = Gauge("rigel_workers_busy", "Workers that work on a job")

    def set(self, state):
        self._waiting.set(state["waiting"])
        self._busy.set(state["busy"])
