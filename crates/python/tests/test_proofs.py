"""Proof files, Stwo's proofs, progress, and the machines' binaries."""

import fcntl
import hashlib
import json
import os
import pathlib
import pty
import signal
import stat
import struct
import subprocess
import sys
import termios
import time

import pytest

import rigel
from rigel import proofs

ROOT = pathlib.Path(__file__).parents[3]
BINARY = ROOT / "target/debug/rigel"
PLONKY3 = {"log_rows": 4, "queries": 10, "pow_bits": 4, "batch_pow_bits": 0}
STWO = {"log_size": 5, "queries": 10, "pow_bits": 4}
CASES = [("fibonacci", PLONKY3), ("wide-fibonacci", STWO)]


@pytest.mark.parametrize(
    "workload, log_size",
    [("wide-fibonacci", 5), ("poseidon2", 8), ("plonk", 5), ("state-machine", 6), ("xor", 5), ("blake2s", 4)],
)
def test_stwos_workloads(workload, log_size):
    proof = proofs.prove(workload, prover="stwo", log_size=log_size, device="cpu", queries=5, pow_bits=2)
    proof.verify()
    assert proof.statement["prover"] == "stwo" and proof.statement["log_size"] == log_size
    assert proof.device == "cpu" and "Stwo" in repr(proof)


def test_stwos_other_channel():
    proof = proofs.prove("plonk", log_size=5, channel="blake2s_m31", device="cpu", queries=5, pow_bits=2)
    proof.verify()
    assert proof.statement["channel"] == "blake2s-m31"
    assert proof.security == (7, None)


@pytest.mark.parametrize("workload, parameters", CASES)
def test_what_is_saved_is_loaded(workload, parameters, tmp_path):
    proof = proofs.prove(workload, device="cpu", **parameters)
    proof.save(tmp_path / "proof")
    same = proofs.load(str(tmp_path / "proof"))
    assert same.bytes == proof.bytes and same.statement == proof.statement and same.security == proof.security
    assert (same.device, same.milliseconds, same.fallbacks) == (None, None, [])
    assert same.public_values == proof.public_values and "read from a file" in same.report
    same.verify()


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "proof"
    proofs.prove("fibonacci", device="cpu", **PLONKY3).save(path)
    good = path.read_bytes()
    altered = good[:99] + b"!" + good[100:]
    for bad, reason in [(good[:-1], "cut short"), (b"PK" + good, "not a proof file"), (altered, "altered")]:
        path.write_bytes(bad)
        with pytest.raises(ValueError, match=reason):
            proofs.load(path)
    with pytest.raises(FileNotFoundError):
        proofs.load(tmp_path / "none")
    # A file whose checksum is right, with a proof that is wrong.
    at = len(good) - 32 - 200
    bad = good[:at] + bytes([good[at] ^ 1]) + good[at + 1 : -32]
    path.write_bytes(bad + hashlib.sha256(bad).digest())
    with pytest.raises(ValueError, match="does not verify"):
        proofs.load(path).verify()


@pytest.mark.skipif(not BINARY.exists(), reason=f"{BINARY} is not built")
@pytest.mark.parametrize("workload, parameters", CASES)
def test_files_are_the_command_lines(workload, parameters, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    proof = proofs.prove(workload, device="cpu", **parameters)
    proof.save(ours)
    run = lambda *arguments: subprocess.run([BINARY, *arguments], capture_output=True, text=True, timeout=120)
    verdict = run("verify", ours, "--json")
    assert verdict.returncode == 0 and json.loads(verdict.stdout)["verified"], verdict.stderr
    options = [f"--{name.replace('_', '-')}={value}" for name, value in parameters.items()]
    made = run("prove", workload, *options, "--cpu", "-o", theirs)
    assert made.returncode == 0, made.stderr
    loaded = proofs.load(theirs)
    loaded.verify()
    assert loaded.statement == proof.statement


def test_bad_parameters_name_the_good_ones():
    with pytest.raises(ValueError, match="wide-fibonacci"):
        proofs.prove("fibonacy")
    with pytest.raises(ValueError, match="plonk is a workload of Stwo"):
        proofs.prove("plonk", prover="plonky3")
    with pytest.raises(ValueError, match="available: plonky3, stwo"):
        proofs.prove("plonk", prover="winterfell")
    with pytest.raises(ValueError, match="blake2s-m31"):
        proofs.prove("plonk", channel="keccak")
    with pytest.raises(ValueError, match="Stwo has no parameter \"field\"; it has .*fold_step"):
        proofs.prove("plonk", field="koala-bear")
    with pytest.raises(ValueError, match="give one of them"):
        proofs.prove("plonk", log_size=5, log_rows=5)
    with pytest.raises(ValueError, match="keccak is a workload of Plonky3, not of Stwo"):
        proofs.prove("keccak", prover="stwo")
    with pytest.raises(ValueError, match="fold"):
        proofs.prove("plonk", log_size=5, fold_step=0)


PROGRESS = """
import sys, rigel
rigel.proofs.prove("keccak", log_rows=7, device="cpu", progress={progress})
print("end", file=sys.stderr)
"""


def stderr_of(code, terminal, columns=0):
    """A program's standard error, if that is a terminal (0 columns: of unknown width) or a pipe."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
    if terminal:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, columns, 0, 0))
    with subprocess.Popen([sys.executable, "-c", code], stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # a terminal that nobody holds any more
                break
            if not part:
                break
            said += part
    os.close(ours)
    assert process.returncode == 0, said
    return said.decode()


def test_progress_is_for_terminals():
    shown = stderr_of(PROGRESS.format(progress=None), terminal=True)
    assert "keccak 2^7, koala-bear, keccak:  66%|######    | 2/3 [00:0" in shown and "proving on the CPU]" in shown
    # The bar is removed at the end.
    assert shown.endswith("\r\x1b[2Kend\r\n")
    assert stderr_of(PROGRESS.format(progress=None), terminal=False) == "end\n"
    assert stderr_of(PROGRESS.format(progress=False), terminal=True) == "end\r\n"


def test_progress_fits_the_terminal():
    shown = stderr_of(PROGRESS.format(progress=None), terminal=True, columns=40)
    lines = shown.split("\r\x1b[2K")[1:-1]
    assert lines and all(len(line) <= 39 for line in lines), lines
    assert lines[-1].startswith("keccak 2^7, koala-bear, keccak: ")


class Broken:
    """Standard error that nobody reads."""

    def isatty(self):
        return True

    def write(self, text):
        raise BrokenPipeError("nobody reads")


@pytest.mark.parametrize("stderr", [Broken(), None])
def test_a_proof_is_not_lost_with_its_progress(stderr, monkeypatch):
    monkeypatch.setattr(sys, "stderr", stderr)
    proof = proofs.prove("keccak", log_rows=7, device="cpu", progress=True)
    monkeypatch.undo()
    assert proof.milliseconds > 0


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Puts a script on the path as a machine's binary."""

    def make(name, script):
        path = tmp_path / f"rigel-{name}"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return make


# Writes its arguments to the file that --output names.
ECHO = """
command=$1
for last; do case $last in --output=*) output=${last#--output=} ;; esac; done
case $command in
    prove) printf '%s\\n' "$@" > "$output"; echo '{"image_id": "ab12"}' ;;
    verify) case $(cat "$last") in
        bad) echo '{"verified": false, "reason": "too bad"}'; exit 1 ;;
        none) echo "error: $last is not a proof" >&2; echo '{"error": "not a proof"}'; exit 1 ;;
        killed) echo "error: $last is strange" >&2; exit 7 ;;
        *) echo '{"verified": true}' ;;
    esac ;;
esac
"""


def test_machines_run_their_binaries(machine, tmp_path):
    machine("cairo", ECHO)
    machine("risc0", ECHO)
    path = pathlib.Path("-p.json")
    proof = rigel.cairo.prove(path, [1, 2], input=path, device="cpu", pow_bits=3, cpu=True, other=False)
    line = proof.bytes.decode().splitlines()
    expected = "prove --args=1,2 --input=-p.json --channel=blake2s --pow-bits=3 --cpu --device=none --json".split()
    assert line[:-3] == expected and line[-2:] == ["--", "-p.json"]
    assert proof.verify() == {"verified": True} and proof.report == {"image_id": "ab12"}
    receipt = rigel.risc0.prove("guest.elf", number=7, device="cuda:0")
    assert receipt.bytes.decode().startswith("prove\n--number=7\n--device=cuda:0\n--json\n")
    receipt.save(tmp_path / "receipt")
    rigel.risc0.load(tmp_path / "receipt").verify(receipt.image_id)
    with pytest.raises(TypeError):
        receipt.verify()


@pytest.mark.parametrize("kind", [rigel.cairo.Proof, rigel.risc0.Receipt])
def test_a_rejection_is_not_a_failure(kind, machine):
    machine("cairo", ECHO)
    machine("risc0", ECHO)
    with pytest.raises(ValueError, match="does not verify: too bad"):
        kind(b"bad").verify(program="p")
    with pytest.raises(RuntimeError, match="ended with code 1: not a proof"):
        kind(b"none").verify(program="p")
    with pytest.raises(RuntimeError, match="ended with code 7: error: the proof is strange"):
        kind(b"killed").verify(program="p")


def test_failures_of_machines_are_reported(machine, monkeypatch):
    machine("cairo", "echo 'error: no such program' >&2; exit 1\n")
    with pytest.raises(RuntimeError, match="code 1: error: no such program"):
        rigel.cairo.prove("p.json")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="vms/risc0/scripts/install"):
        rigel.risc0.prove("guest.elf")


# More messages than a pipe holds, and a process that keeps the pipe open for longer than the test takes.
TALK = """
i=0
while [ $i -lt 3000 ]; do echo "message $i of many that nobody reads any more" >&2; i=$((i + 1)); done
sleep 60 >/dev/null &
echo $! > "$(dirname "$0")/left"
"""


@pytest.mark.parametrize("stderr", [Broken(), None])
def test_a_machine_ends_whoever_reads_its_messages(stderr, machine, monkeypatch, tmp_path):
    machine("cairo", TALK + ECHO)
    monkeypatch.setattr(sys, "stderr", stderr)
    began = time.monotonic()
    try:
        proof = rigel.cairo.prove("p.json", progress=True)
    finally:
        monkeypatch.undo()
        os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)
    assert proof.report == {"image_id": "ab12"} and time.monotonic() - began < 50


# The second one ignores the request to end, so it takes a second Ctrl-C to kill it at once.
@pytest.mark.parametrize("script", ["exec sleep 600", "trap 'echo asked >&2' TERM; while :; do sleep 0.1; done"])
def test_ctrl_c_ends_a_machine(script, machine, tmp_path):
    machine("cairo", f"echo $$ > {tmp_path}/pid; echo begun >&2; {script}\n")
    code = """
import signal, rigel
signal.signal(signal.SIGINT, signal.default_int_handler)
rigel.cairo.prove("p.json", progress=True)
"""
    said = tmp_path / "said"
    with said.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-c", code], stderr=stderr)

    def until_said(word):
        # The process shows a message of the machine's only when it is ready to end it.
        deadline = time.monotonic() + 120
        while word not in said.read_text():
            assert process.poll() is None and time.monotonic() < deadline, f"no {word!r} in {said.read_text()!r}"
            time.sleep(0.02)

    try:
        until_said("begun")
        process.send_signal(signal.SIGINT)
        if "asked" in script:
            until_said("asked")
            process.send_signal(signal.SIGINT)
        process.wait(120)
        assert "KeyboardInterrupt" in said.read_text()
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
    finally:
        process.kill()
        process.wait()
