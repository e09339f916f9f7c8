"""Proof files, Stwo's proofs, progress, and the machines' binaries."""

import hashlib
import json
import os
import pathlib
import pty
import signal
import stat
import subprocess
import sys
import time

import pytest

import rigel
from rigel import proofs, stwo

ROOT = pathlib.Path(__file__).parents[3]
BINARY = ROOT / "target/debug/rigel"
PLONKY3 = {"log_rows": 4, "queries": 10, "pow_bits": 4, "batch_pow_bits": 0}
STWO = {"log_size": 5, "queries": 10, "pow_bits": 4}
CASES = [("fibonacci", PLONKY3), ("wide-fibonacci", STWO)]


@pytest.mark.parametrize(
    "prove, log_size",
    [
        (stwo.prove_wide_fibonacci, 5),
        (stwo.prove_poseidon2, 8),
        (stwo.prove_plonk, 5),
        (stwo.prove_state_machine, 6),
        (stwo.prove_xor, 5),
        (stwo.prove_blake2s, 4),
    ],
)
def test_stwos_workloads(prove, log_size):
    proof = prove(log_size=log_size, device="cpu", queries=5, pow_bits=2)
    proof.verify()
    assert proof.statement["prover"] == "stwo" and proof.statement["log_size"] == log_size
    assert proof.device == "cpu" and "Stwo" in repr(proof)


def test_stwos_other_channel():
    proof = stwo.prove_plonk(log_size=5, channel="blake2s_m31", device="cpu", queries=5, pow_bits=2)
    proof.verify()
    assert proof.statement["channel"] == "blake2s-m31"
    assert proof.security == (7, None)


def test_every_workload_has_a_function():
    for name in ["plonky3", "stwo"]:
        functions = [f"prove_{workload}".replace("-", "_") for workload in proofs.workloads(name)]
        assert sorted(functions) == sorted(set(getattr(rigel, name).__all__) - {"Proof"})


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
        stwo.prove_plonk(channel="keccak")
    with pytest.raises(ValueError, match="Stwo has no parameter \"field\"; it has .*fold_step"):
        proofs.prove("plonk", field="koala-bear")
    with pytest.raises(ValueError, match="fold"):
        stwo.prove_plonk(log_size=5, fold_step=0)


PROGRESS = """
import sys, rigel
rigel.plonky3.prove_keccak(log_rows=7, device="cpu", progress={progress})
print("end", file=sys.stderr)
"""


def stderr_of(code, terminal):
    """What a program writes to standard error, if that is a terminal or a pipe."""
    ours, theirs = pty.openpty() if terminal else os.pipe()
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


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Puts a script on the path as a machine's binary."""

    def make(name, script):
        path = tmp_path / f"rigel-{name}"
        path.write_text("#!/bin/sh\n" + script)
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    return make


# Writes its arguments to the file that follows --output.
ECHO = """
for last; do :; done
case $1 in
    prove) echo "$@" > "$last"; echo '{"image_id": "ab12"}' ;;
    verify) if grep -q bad "$2"; then echo "too bad"; exit 1; fi; echo '{"verified": true}' ;;
esac
"""


def test_machines_run_their_binaries(machine, tmp_path):
    machine("cairo", ECHO)
    machine("risc0", ECHO)
    proof = rigel.cairo.prove("p.json", [1, 2], device="cpu", pow_bits=3)
    line = proof.bytes.decode().split()
    assert line[:-1] == "prove p.json --args=1,2 --channel=blake2s --pow-bits=3 --device=none --json --output".split()
    assert proof.verify() == {"verified": True} and proof.report == {"image_id": "ab12"}
    receipt = rigel.risc0.prove("guest.elf", number=7, device="cuda:0")
    assert receipt.bytes.decode().startswith("prove guest.elf --number=7 --device=cuda:0 --json")
    receipt.save(tmp_path / "receipt")
    rigel.risc0.load(tmp_path / "receipt").verify(receipt.image_id)
    for rejected in [rigel.cairo.Proof(b"bad"), rigel.risc0.Receipt(b"bad")]:
        with pytest.raises(ValueError, match="does not verify: too bad"):
            rejected.verify(program="p")
    with pytest.raises(TypeError):
        receipt.verify()


def test_failures_of_machines_are_reported(machine, monkeypatch):
    machine("cairo", "echo 'error: no such program' >&2; exit 1\n")
    with pytest.raises(RuntimeError, match="code 1: error: no such program"):
        rigel.cairo.prove("p.json")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(FileNotFoundError, match="vms/risc0/scripts/install"):
        rigel.risc0.prove("guest.elf")


def test_ctrl_c_ends_a_machine(machine, tmp_path):
    machine("cairo", f"echo $$ > {tmp_path}/pid; exec sleep 60\n")
    code = "import signal, rigel; signal.signal(signal.SIGINT, signal.default_int_handler); rigel.cairo.prove('p.json')"
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE, text=True)
    try:
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in process.communicate(timeout=30)[1]
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)
    finally:
        process.kill()
        process.wait()
