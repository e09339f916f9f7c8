"""`rigel.cluster.risc0` with a stand-in for `rigel-risc0` that proves nothing. vms/risc0 tests the real one."""

import sys
import textwrap
import threading
from pathlib import Path

import pytest

from rigel.cluster import Cluster, ClusterError, JobFailed, WorkerDied, risc0
from rigel.cluster._command import main

#: `dispatch` makes as many segments as the program's first byte says, and waits before the last for the seal of the
#: first: the receipt is possible only if segments are proven while the program runs. A seal is the end of the segment,
#: reversed.
STAND_IN = f"""\
#!{sys.executable}
import json, os, pathlib, signal, sys, time
from rigel.cluster import _frames as frames

out, into, folder = sys.stdout.buffer, sys.stdin.buffer, pathlib.Path(__file__).parent
greeting = {{"protocol": 1, "name": "stand-in", "pid": os.getpid(), "most_bytes": 1 << 30, "most_waiting": 16}}
frames.write(out, frames.HELLO, 0, json.dumps(greeting).encode())

def fail(number, kind, message):
    frames.write(out, frames.FAILED, number, json.dumps({{"kind": kind, "message": message, "report": {{}}}}).encode())

def worker():
    while (frame := frames.read(into, 1 << 30)) is not None:
        if frame.payload.startswith(b"dies once") and not (folder / "died").exists():
            (folder / "died").touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if frame.payload.startswith(b"refused"):
            fail(frame.job, "error", "this segment has no proof")
        else:
            (folder / "proven").touch()
            frames.write(out, frames.DONE, frame.job, frames.join_done(b"{{}}", frame.payload[:-33:-1]))

def sent(number):
    # Whoever reads it finds a whole number.
    (folder / "sending").write_text(str(number))
    os.replace(folder / "sending", folder / "sent")

def dispatch():
    sent(-1)
    line, _, files = frames.read(into, 1 << 30).payload.partition(b"\\n")
    asked = json.loads(line)
    program, stdin = files[: asked["program_bytes"]], files[asked["program_bytes"] :]
    segments = [stdin + bytes([n]) * 4 for n in range(program[0])]
    seals = {{}}
    for number, segment in enumerate(segments):
        if asked["max_cycles"] == number:
            return fail(0, "error", f"the program did not end within {{number}} cycles")
        if number == len(segments) - 1 > 0:
            frame = frames.read(into, 1 << 30)
            seals[frame.job] = frame.payload.result
        frames.write(out, frames.JOB, number, segment)
        sent(number)
    frames.write(out, frames.PROGRESS, 0, b'{{"fraction": 0.5, "phase": "executed"}}')
    while len(seals) < len(segments):
        frame = frames.read(into, 1 << 30)
        seals[frame.job] = frame.payload.result
    assert all(seals[number] == segment[:-33:-1] for number, segment in enumerate(segments))
    report = {{"image_id": "00" * 32, "journal": stdin.hex(), "segments": len(segments), "asked": asked}}
    receipt = b"".join(seals[number] for number in sorted(seals))
    frames.write(out, frames.DONE, 0, frames.join_done(json.dumps(report).encode(), receipt))

{{"worker": worker, "dispatch": dispatch}}[sys.argv[1]]()
"""


@pytest.fixture(scope="module")
def cluster():
    with Cluster(num_cpus=2, include_dashboard=False) as cluster:
        yield cluster


@pytest.fixture
def binary(tmp_path):
    path = tmp_path / "rigel-risc0"
    path.write_text(textwrap.dedent(STAND_IN))
    path.chmod(0o755)
    return path


def test_segments_are_proven_while_the_program_runs(cluster, binary):
    program = bytes([20])
    proven = risc0.prove(cluster, program, b"input", segment_po2=14, binary=binary, gpus=0)
    assert proven.receipt == b"".join((b"input" + bytes([n]) * 4)[::-1] for n in range(20))
    assert (proven.journal, proven.image_id, proven.report["segments"]) == (b"input", "00" * 32, 20)
    assert proven.report["asked"] == {"program_bytes": 1, "segment_po2": 14, "max_cycles": None}
    assert [segment.index for segment in proven.segments] == list(range(20))
    assert all(segment.size == 0 and segment.tries == 1 for segment in proven.segments)


def test_a_worker_that_dies_is_tried_again(cluster, binary):
    proven = risc0.prove(cluster, bytes([3]), b"dies once", binary=binary, gpus=0, workers=1)
    assert sorted(segment.tries for segment in proven.segments) == [1, 1, 2]
    assert (binary.parent / "died").exists() and len(proven.receipt) == 3 * (len(b"dies once") + 4)


def test_failures_say_whose_they_are(cluster, binary):
    with pytest.raises(JobFailed, match="segment 0 has no proof: this segment has no proof"):
        risc0.prove(cluster, bytes([1]), b"refused", binary=binary, gpus=0)
    # The program's own failure comes while segments are proven.
    with pytest.raises(JobFailed, match="did not end within 5 cycles"):
        risc0.prove(cluster, bytes([9]), max_cycles=5, binary=binary, gpus=0)
    with pytest.raises(ClusterError, match="no machine of the cluster has 1 GPUs"):
        risc0.prove(cluster, bytes([1]), binary=binary)
    with pytest.raises(FileNotFoundError):
        risc0.prove(cluster, "no-such.elf", binary=binary, gpus=0)


def test_the_program_waits_for_the_proofs(cluster, binary, monkeypatch):
    """The program runs ahead by the window; here with segments that no pipe holds."""
    monkeypatch.setattr(risc0, "_window", lambda _: 2)
    ahead = []

    class Events(risc0._Events):
        def settle(self):
            ahead.append(int((binary.parent / "sent").read_text()) - len(ahead))
            super().settle()

    monkeypatch.setattr(risc0, "_Events", Events)
    proven = risc0.prove(cluster, bytes([12]), bytes(1 << 20), binary=binary, gpus=0, workers=1)
    assert len(proven.segments) == 12
    # Two are with the cluster, one is with the thread that reads; the next has not been sent.
    assert max(ahead) <= 3


def test_an_error_of_the_thread_that_reads_ends_the_wait(cluster, binary, monkeypatch):
    def window(pool):
        raise RuntimeError("Ray has not been started")

    monkeypatch.setattr(risc0, "_window", window)
    ended = []

    def prove():
        with pytest.raises(WorkerDied, match="RuntimeError: Ray has not been started"):
            risc0.prove(cluster, bytes([3]), b"input", binary=binary, gpus=0)
        ended.append(True)

    # A thread, because a fault here would be a wait without an end.
    thread = threading.Thread(target=prove, daemon=True)
    thread.start()
    thread.join(120.0)
    assert ended


def test_the_command_refuses_a_receipt_that_can_not_be_written(binary, tmp_path, capsys):
    program = tmp_path / "guest.elf"
    program.write_bytes(bytes([2]))
    assert main(["risc0", str(program), "--binary", str(binary), "-o", str(tmp_path / "none/receipt")]) == 1
    assert "none/receipt can't be written" in capsys.readouterr().err
    assert not (binary.parent / "sent").exists()


def test_the_command(cluster, binary, tmp_path, capsys):
    program, receipt, journal = tmp_path / "guest.elf", tmp_path / "receipt", tmp_path / "journal"
    program.write_bytes(bytes([2]))
    files = ["-o", str(receipt), "--journal", str(journal)]
    command = ["risc0", str(program), "--number", "7", "--gpus", "0", "--binary", str(binary), *files]
    assert main(command) == 0
    assert journal.read_bytes() == (7).to_bytes(4, "little") and Path(receipt).stat().st_size == 16
    assert "2 segments" in capsys.readouterr().out
    program.write_bytes(bytes([9]))
    assert main([*command, "--max-cycles", "5"]) == 1
    assert "did not end within 5 cycles" in capsys.readouterr().err
