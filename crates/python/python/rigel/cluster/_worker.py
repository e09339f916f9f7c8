"""A worker's process, and jobs for it, from several threads."""

import collections
import itertools
import json
import os
import queue
import signal
import subprocess
import threading
import time

from . import _frames as frames

_WORDS = 4096


class WorkerDied(Exception):
    """A worker's process ended, hung, or did not answer in frames. Its last words are in the message; `kind` is
    `timeout` if it did not finish this job in time, and otherwise `died`. `beside` says whether it worked on other jobs
    too, of which any may have ended it."""

    def __init__(self, message, kind="died", beside=False):
        super().__init__(message)
        self.kind = kind
        self.beside = beside


class JobFailed(Exception):
    """A job has no result. `kind` is `error` (the job's own), `refused` (the worker did not take it), `panic`,
    `elsewhere` (the worker says that another may succeed), `died`, `timeout` (its worker was ended), `stopped` (it was
    cancelled), or `cluster` (no worker could be started, or the cluster is gone). `beside` says whether the worker has
    worked on other jobs at the same time, of which any may have been the cause of `panic` or `elsewhere`."""

    def __init__(self, message, kind="error", report=None, beside=False):
        super().__init__(message)
        self.kind = kind
        self.report = report or {}
        self.beside = beside

    def __reduce__(self):
        return JobFailed, (str(self), self.kind, self.report, self.beside)


class _Open:
    """A job that the worker has."""

    def __init__(self, number, timeout):
        self.number = number
        self.timeout = timeout
        #: Its answer, or `None` if the worker is gone.
        self.answer = queue.SimpleQueue()
        #: When it began. Jobs begin in the order in which they are given, as many at once as the greeting says.
        self.began = None
        #: Whether it waits in the worker until others are done, and when it has last ceased to. Its time begins then.
        self.waits = False
        self.since = 0.0
        #: Whether the worker has worked on others at the same time.
        self.beside = False
        #: When the worker is ended, because the job is not wanted and does not stop.
        self.stop = None
        self.progress = None

    def deadline(self):
        """The time at which its limit ends, if that is known."""
        if self.timeout and self.began is not None and not self.waits:
            return max(self.began, self.since) + self.timeout
        return None

    def say(self, said):
        """Notes what the job says about itself."""
        self.progress = said if isinstance(said, dict) else None
        waits = bool(self.progress and self.progress.get("waits"))
        if self.waits and not waits:
            self.since = time.monotonic()
        self.waits = waits


class Worker:
    """Starts a worker and waits for its greeting. Threads may run jobs at the same time: `at_once` of them are worked
    on, the others wait in the worker. If a queue of `events` is given, all frames go there, and `event` takes them:
    whoever else puts something there is heard by it, too."""

    def __init__(self, command, *, environment=None, start_timeout=120.0, most_bytes=4 << 30, events=None):
        self.command = list(command)
        self._events = queue.SimpleQueue() if events is None else events
        self._routed = events is None
        self._words = collections.deque()
        self._most_bytes = most_bytes
        #: Orders frames to the worker.
        self._lock = threading.Lock()
        #: Guards the jobs that it has, in the order in which they were given.
        self._state = threading.Lock()
        self._open = {}
        #: Whether no more frames will come.
        self._silent = False
        #: What has ended the listening, if it is not the end of the stream.
        self._error = None
        #: Why the worker is gone; the first reason counts.
        self._dying = threading.RLock()
        self._death = None
        self._ended = False
        self.at_once = 1
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={**os.environ, **(environment or {})},
                # A group of its own, so that what it has started ends with it.
                start_new_session=True,
            )
        except OSError as error:
            raise WorkerDied(f"{self.command[0]} does not start: {error}") from None
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()
        greeting = self._greeted(start_timeout)
        if greeting.kind != frames.HELLO:
            raise self._died(f"began with {greeting.kind!r}, not with a greeting")
        self.greeting = json.loads(greeting.payload)
        if self.greeting["protocol"] != frames.PROTOCOL:
            raise self._died(
                f"speaks version {self.greeting['protocol']} of the protocol, this package version {frames.PROTOCOL}; "
                "install the same version of Rigel for both"
            )
        self.at_once = max(1, int(self.greeting.get("at_once", 1)))

    def run(self, number, payload, *, timeout=None):
        """The job's report and result. Raises `JobFailed` if the job has none, `WorkerDied` if the worker is gone.
        Jobs that run at the same time need different numbers."""
        return self.outcome(self.give(number, payload, timeout))

    def give(self, number, payload, timeout=None):
        """Sends a job, and returns it for `outcome`. `timeout` counts from its beginning, or from the end of
        its wait if it says that it waits for others of the worker."""
        most = self.greeting["most_bytes"]
        if len(payload) > most:
            raise JobFailed(f"the job has {len(payload)} bytes, the worker takes at most {most}", "refused")
        job = _Open(number, timeout)
        with self._lock:
            with self._state:
                self._open[number] = job
                self._begin()
                silent = self._silent
            try:
                if silent:
                    raise self._gone(job)
                self._write(job, payload)
            except WorkerDied:
                self._forget(number)
                raise
        return job

    def outcome(self, job):
        """The result of `run`, for a job that was given."""
        try:
            frame = self._answer(job)
        finally:
            self._forget(job.number)
        if frame.kind == frames.DONE:
            return json.loads(frame.payload.report), frame.payload.result
        answer = json.loads(frame.payload)
        raise JobFailed(answer["message"], answer["kind"], answer["report"], job.beside)

    def progress(self, number):
        """The last progress of a job."""
        job = self._open.get(number)
        return job.progress if job else None

    def event(self):
        """The next frame, or what somebody else has put into the queue of events. Raises `WorkerDied` at the end."""
        return self._take(None)

    def answer(self, number, report, result):
        """Answers a job of the other side's. If it does not listen any more, its frames or its end say why."""
        report = json.dumps(report).encode()
        with self._lock:
            try:
                frames.write(self._process.stdin, frames.DONE, number, frames.join_done(report, result))
            except (OSError, ValueError):
                pass

    def stop(self, number, grace=5.0):
        """Says that a job's result is not wanted. A worker that still works on it after `grace` seconds is killed."""
        job = self._open.get(number)
        if job is None:
            return
        job.stop = time.monotonic() + grace
        with self._lock:
            try:
                frames.write(self._process.stdin, frames.STOP, number)
            except (OSError, ValueError):
                pass  # `outcome` finds it, too.

    def close(self):
        """Ends the process, and those that it has started."""
        self._kill()
        self._process.wait()
        # The other streams are closed by the threads that read them: a process that has left the group may hold them.
        try:
            self._process.stdin.close()
        except OSError:
            pass

    @property
    def pid(self):
        return self._process.pid

    @property
    def closed(self):
        return self._process.poll() is not None

    def _kill(self):
        if self._ended:
            return  # The number of its group may be somebody else's by now.
        self._ended = True
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def _begin(self):
        """Notes which jobs have begun by now."""
        now = time.monotonic()
        begun = list(itertools.islice(self._open.values(), self.at_once))
        for job in begun:
            job.began = job.began or now
            job.beside = job.beside or len(begun) > 1

    def _forget(self, number):
        with self._state:
            if self._open.pop(number, None):
                self._begin()

    def _answer(self, job):
        while True:
            now, deadline = time.monotonic(), job.deadline()
            until = min(t for t in (deadline, job.stop, now + 0.25) if t is not None)
            try:
                frame = job.answer.get(timeout=max(0.0, until - now))
            except queue.Empty:
                # It may have begun to wait, or ceased to, meanwhile.
                now, deadline = time.monotonic(), job.deadline()
                if job.stop is not None and now >= job.stop:
                    self._died(f"did not stop job {job.number}, which was cancelled, and was ended")
                    raise JobFailed("the job was cancelled; its worker did not stop and was ended", "stopped") from None
                if deadline is not None and now >= deadline:
                    what = f"did not finish job {job.number} within {job.timeout:g} s"
                    raise self._died(what, job, "timeout") from None
                continue
            if frame is None:
                raise self._gone(job)
            return frame

    def _greeted(self, seconds):
        try:
            return self._take(seconds)
        except queue.Empty:
            raise self._died(f"did not greet within {seconds:g} s") from None

    def _take(self, seconds):
        frame = self._events.get(timeout=seconds)
        if frame is None:
            # The end is the end for every thread that asks.
            self._events.put(None)
            raise self._gone()
        return frame

    def _write(self, job, payload):
        try:
            frames.write(self._process.stdin, frames.JOB, job.number, payload)
        except (OSError, ValueError):
            # Why it does not read any more is in what it wrote last.
            self._listener.join(5.0)
            raise (self._gone(job) if self._silent else self._died("does not read its standard input", job)) from None

    def _listen(self):
        error, kept = None, bytearray()
        try:
            while (frame := frames.read(self._process.stdout, self._most_bytes, kept)) is not None:
                if self._routed and frame.kind != frames.HELLO:
                    self._route(frame)
                else:
                    self._events.put(frame)
        except Exception as caught:
            # Whatever it is, and be it of the queue that somebody has given: whoever waits for a frame must hear of it.
            error = caught
        finally:
            self._process.stdout.close()
        self._error = error
        with self._state:
            self._silent = True
            for job in self._open.values():
                job.answer.put(None)
        self._events.put(None)

    def _route(self, frame):
        """Gives a frame to whoever waits for it."""
        job = self._open.get(frame.job)
        if frame.kind == frames.PROGRESS:
            said = json.loads(frame.payload)
            if job is not None:
                job.say(said)
        elif frame.kind not in (frames.DONE, frames.FAILED):
            raise frames.FrameError(f"a frame of the kind {frame.kind!r} about job {frame.job}, which is no answer")
        elif job is not None:
            # The next one begins.
            self._forget(frame.job)
            job.answer.put(frame)
        elif frame.kind == frames.DONE:
            raise frames.FrameError(f"an answer to job {frame.job}, which the worker does not have")

    def _hear(self):
        try:
            while words := self._process.stderr.read1(_WORDS):
                self._words.append(words)
                while sum(map(len, self._words)) - len(self._words[0]) >= _WORDS:
                    self._words.popleft()
        except (OSError, ValueError):
            return
        finally:
            self._process.stderr.close()

    def _gone(self, job=None):
        """The error that says why no more frames come."""
        error = self._error
        if error is not None:
            return self._died(f"can't be heard: {type(error).__name__}: {error}", job)
        # The process is about to end, and its words about it may still be on their way.
        try:
            code = self._process.wait(5)
        except subprocess.TimeoutExpired:
            return self._died("closed its standard output", job)
        return self._died(f"was ended by signal {-code}" if code < 0 else f"ended with code {code}", job)

    def _died(self, what, job=None, kind="died"):
        """Ends the worker. The first reason is that of all its jobs, but for its kind."""
        with self._dying:
            if self._death is None:
                with self._state:
                    begun = {number for number, other in self._open.items() if other.began is not None}
                self._kill()
                self._hearing.join(2.0)
                words = b"".join(self._words)[-_WORDS:].decode(errors="replace").strip()
                self.close()
                said = f"; its last words:\n{words}" if words else "; it said nothing"
                self._death = f"the worker `{' '.join(self.command)}` {what}{said}", begun
            else:
                kind = "died"
            message, begun = self._death
            return WorkerDied(message, kind, job is not None and bool(begun - {job.number}))
