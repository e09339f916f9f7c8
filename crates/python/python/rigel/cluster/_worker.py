"""A worker's process, and one job after another for it."""

import collections
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
    `timeout` if it did not finish in time, and otherwise `died`."""

    def __init__(self, message, kind="died"):
        super().__init__(message)
        self.kind = kind


class JobFailed(Exception):
    """A job has no result. `kind` is `error` (the job's own), `refused` (the worker did not take it), `panic`,
    `elsewhere` (the worker says that another may succeed), `died`, `timeout` (its worker was ended), `stopped` (it was
    cancelled), or `cluster` (no worker could be started, or the cluster is gone)."""

    def __init__(self, message, kind="error", report=None):
        super().__init__(message)
        self.kind = kind
        self.report = report or {}

    def __reduce__(self):
        return JobFailed, (str(self), self.kind, self.report)


class Worker:
    """Starts a worker and waits for its greeting. Its frames go to `events`, if a queue is given: whoever else puts
    something there is heard by `event`, too."""

    def __init__(self, command, *, environment=None, start_timeout=120.0, most_bytes=4 << 30, events=None):
        self.command = list(command)
        self._frames = queue.SimpleQueue() if events is None else events
        self._words = collections.deque()
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._stopping = {}
        self._ended = False
        self.progress = None
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
        greeting = self._next(time.monotonic() + start_timeout, f"did not greet within {start_timeout:g} s")
        if greeting.kind != frames.HELLO:
            raise self._died(f"began with {greeting.kind!r}, not with a greeting")
        self.greeting = json.loads(greeting.payload)
        if self.greeting["protocol"] != frames.PROTOCOL:
            raise self._died(
                f"speaks version {self.greeting['protocol']} of the protocol, this package version {frames.PROTOCOL}; "
                "install the same version of Rigel for both"
            )

    def run(self, number, payload, *, timeout=None):
        """The job's report and result. Raises `JobFailed` if the job has none, `WorkerDied` if the worker is gone."""
        return self.outcome(number, self.give(number, payload, timeout), timeout)

    def give(self, number, payload, timeout=None):
        """Sends a job, and returns when it should be done."""
        most = self.greeting["most_bytes"]
        if len(payload) > most:
            raise JobFailed(f"the job has {len(payload)} bytes, the worker takes at most {most}", "refused")
        self.progress = None
        deadline = time.monotonic() + timeout if timeout else None
        self._send(frames.JOB, number, payload)
        return deadline

    def outcome(self, number, deadline=None, timeout=None):
        """What `run` returns, for a job that was given."""
        try:
            return self._outcome(number, deadline, timeout)
        finally:
            self._stopping.pop(number, None)

    def _outcome(self, number, deadline, timeout):
        while True:
            frame = self._answer(number, deadline, timeout)
            if frame.kind == frames.PROGRESS:
                said = json.loads(frame.payload)
                self.progress = said if isinstance(said, dict) else None
            elif frame.kind == frames.DONE and frame.job == number:
                report, result = frames.split_done(frame.payload)
                return json.loads(report), result
            elif frame.kind == frames.FAILED and frame.job == number:
                answer = json.loads(frame.payload)
                raise JobFailed(answer["message"], answer["kind"], answer["report"])
            elif frame.kind != frames.FAILED:
                raise self._died(f"answered job {number} with {frame.kind!r} of job {frame.job}")

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
        self._stopping[number] = time.monotonic() + grace
        try:
            self._send(frames.STOP, number)
        except WorkerDied:
            pass  # `run` finds it, too.

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

    def _answer(self, number, deadline, timeout):
        while True:
            now = time.monotonic()
            stop = self._stopping.get(number)
            if stop is not None and now >= stop:
                self.close()
                raise JobFailed("the job was cancelled; its worker did not stop and was ended", "stopped")
            if deadline is not None and now >= deadline:
                raise self._died(f"did not finish job {number} within {timeout:g} s", "timeout")
            until = min(t for t in (deadline, stop, now + 0.25) if t is not None)
            try:
                return self._take(until - now)
            except queue.Empty:
                pass

    def _next(self, deadline, what):
        try:
            return self._take(max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise self._died(what) from None

    def _take(self, seconds):
        frame = self._frames.get(timeout=seconds)
        if frame is None or isinstance(frame, Exception):
            # The end is the end for every thread that asks.
            self._frames.put(frame)
        if isinstance(frame, Exception):
            raise self._died(f"can't be heard: {type(frame).__name__}: {frame}") from frame
        if frame is None:
            # The process is about to end, and its words about it may still be on their way.
            try:
                code = self._process.wait(5)
            except subprocess.TimeoutExpired:
                raise self._died("closed its standard output") from None
            raise self._died(f"was ended by signal {-code}" if code < 0 else f"ended with code {code}")
        return frame

    def _send(self, kind, number, payload=b""):
        with self._lock:
            try:
                frames.write(self._process.stdin, kind, number, payload)
            except (OSError, ValueError):
                # Why it does not read any more is in what it wrote last.
                try:
                    while self._take(5.0).kind in (frames.PROGRESS, frames.FAILED):
                        pass
                except queue.Empty:
                    pass
                raise self._died("does not read its standard input") from None

    def _listen(self):
        try:
            while True:
                frame = frames.read(self._process.stdout, self._most_bytes)
                self._frames.put(frame)
                if frame is None:
                    return
        except Exception as error:
            # Whatever it is, and be it of the queue that somebody has given: whoever waits for a frame must hear of it.
            self._frames.put(error)
        finally:
            self._process.stdout.close()

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

    def _died(self, what, kind="died"):
        self._kill()
        self._hearing.join(2.0)
        words = b"".join(self._words)[-_WORDS:].decode(errors="replace").strip()
        self.close()
        said = f"; its last words:\n{words}" if words else "; it said nothing"
        return WorkerDied(f"the worker `{' '.join(self.command)}` {what}{said}", kind)
