"""A Ray head that `ray start --head` has started is killed in the middle of a map, and started again at the same
address. The client is a process of its own, because Ray ends a client that does not leave in time."""

import collections
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from rigel.cluster import Worker, _frames as frames

RIGEL = Path(__file__).parents[3] / "target/debug/rigel"
BUILD = "not built; run: cargo build --workspace --features rigel/full --bin rigel"
#: Upstream's proof of work is deterministic with one thread.
ONE_THREAD = {"RAYON_NUM_THREADS": "1"}
#: Different ones, so that each is known by its bytes.
JOBS = [{"workload": "fibonacci", "log_rows": 10, "queries": 2 + n, "pow_bits": 2} for n in range(12)]

#: Lets a worker have two jobs, and the next ones when a file is there: so the map is not over before the head is gone.
GATE = """
import os, sys, time
sys.path.append(sys.argv[1])
import _frames as frames

given = 0
while (frame := frames.read(sys.stdin.buffer, 1 << 20)) is not None:
    given += frame.kind == frames.JOB
    while given > 2 and not os.path.exists(sys.argv[2]):
        time.sleep(0.01)
    frames.write(sys.stdout.buffer, *frame)
"""

CLIENT = """
import json, sys
from rigel.cluster import Cluster

address, command, jobs, environment = json.loads(sys.stdin.readline())
with Cluster(address) as cluster:
    for result in cluster.map(command, jobs, gpus=0, workers=2, environment=environment):
        seen = {"index": result.index, "tries": result.tries, "proof": result.output.hex()}
        print(json.dumps(seen), flush=True)
"""


class Head:
    """A head with two places for workers, in a folder and at an address of its own."""

    def __init__(self, folder):
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self._port = free.getsockname()[1]
        self.address = f"127.0.0.1:{self._port}"
        self.environment = {**os.environ, "RAY_AUTH_MODE": "disabled"}

    def start(self):
        # The folder is new each time, as on a machine that comes back. A dashboard and its agents are not needed.
        session = tempfile.mkdtemp(dir=self._folder)
        options = ["--head", "--node-ip-address=127.0.0.1", f"--port={self._port}", "--num-cpus=2", "--num-gpus=0"]
        options += ["--include-dashboard=false", "--include-log-monitor=false", "--disable-usage-stats"]
        options += ["--object-store-memory=100000000"]
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", *options, f"--temp-dir={session}"]
        started = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=180)
        assert started.returncode == 0, started.stdout + started.stderr

    def kill(self):
        """Kills its processes at once, as a machine that loses power: GCS, raylet, and what the raylet has started."""
        own = {process for process, command in commands() if str(self._folder) in command}
        # Workers of Ray change their command, so they are known by their parents.
        parents = dict(parents_of_all())
        for process in [*own, *(child for child, parent in parents.items() if parent in own)]:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass


def commands():
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            yield int(folder.name), (folder / "cmdline").read_bytes().decode(errors="replace")
        except OSError:
            pass


def parents_of_all():
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            # The command's name before it is in parentheses, and may have spaces.
            yield int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            pass


@pytest.fixture
def head():
    # Ray's sockets have paths in it, which may have at most 107 characters.
    with tempfile.TemporaryDirectory(prefix="rigel-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        head = Head(folder)
        try:
            head.start()
            yield head
        finally:
            head.kill()


def test_a_map_outlives_its_head(head, tmp_path):
    assert RIGEL.exists(), BUILD
    # What workers are given is recorded: a file of frames for each worker.
    gate, go_on = tmp_path / "gate.py", tmp_path / "go-on"
    gate.write_text(GATE)
    through = f"{sys.executable} {gate} {Path(frames.__file__).parent} {go_on}"
    worker = ["sh", "-c", f"tee {tmp_path}/$$.frames | {through} | {RIGEL} worker --cpu"]
    errors = tmp_path / "errors"
    with errors.open("wb") as stderr:
        client = subprocess.Popen(
            [sys.executable, "-c", CLIENT],
            env=head.environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    # A client that says nothing is ended, which ends its output.
    patience = threading.Timer(180, client.kill)
    patience.start()
    client.stdin.write(json.dumps([head.address, worker, JOBS, ONE_THREAD]) + "\n")
    client.stdin.flush()
    lines = [client.stdout.readline() for _ in range(3)]
    patience.cancel()
    assert all(lines), errors.read_text()
    before = [json.loads(line) for line in lines]
    head.kill()
    first = set(tmp_path.glob("*.frames"))
    go_on.touch()
    try:
        head.start()
        words, _ = client.communicate(timeout=180)
    finally:
        client.kill()
    assert client.returncode == 0, errors.read_text()
    after = [json.loads(line) for line in words.splitlines()]
    assert sorted(seen["index"] for seen in before + after) == list(range(len(JOBS))), errors.read_text()

    # Both workers may have lost the job that they were at. No other was proven again, and none that was done.
    given = collections.Counter(index for file in tmp_path.glob("*.frames") for index in jobs_in(file))
    again = {index for index, times in given.items() if times > 1}
    assert len(again) <= 2 and not again & {seen["index"] for seen in before}
    assert max(given.values()) <= 2 and set(given) == set(range(len(JOBS)))
    later = [index for file in set(tmp_path.glob("*.frames")) - first for index in jobs_in(file)]
    assert later, "no worker of the second head had a job"

    one_process = Worker([str(RIGEL), "worker", "--cpu"], environment=ONE_THREAD)
    for seen in before + after:
        proof = one_process.run(seen["index"] + 1, json.dumps(JOBS[seen["index"]]).encode())[1]
        assert bytes.fromhex(seen["proof"]) == proof
    one_process.close()


def jobs_in(file):
    """The indices of the jobs that a worker was given. The last frame is cut if `tee` was killed in its middle."""
    with file.open("rb") as stream:
        try:
            while (frame := frames.read(stream, 1 << 20)) is not None:
                if frame.kind == frames.JOB:
                    yield JOBS.index(json.loads(frame.payload))
        except frames.FrameError:
            assert not stream.read(1), "a frame that is damaged, not cut"
