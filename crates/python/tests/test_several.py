"""Proofs on several devices, which are emulated: one proof on all of them, and many shared out."""

import os
import subprocess
import sys

import pytest

import rigel
from rigel import proofs

#: Without a proof of work, of which the CPU takes any witness that one of its threads finds.
QUICK = {"queries": 4, "pow_bits": 0, "batch_pow_bits": 0}
TWO = ["emulated:0", "emulated:1"]


@pytest.mark.parametrize("workload", ["fibonacci", "lookups"])
def test_one_proof_on_two_devices_is_that_of_one(workload):
    alone = proofs.prove(workload, log_rows=6, device="emulated", **QUICK)
    together = proofs.prove(workload, log_rows=6, device=TWO, **QUICK)
    assert together.bytes == alone.bytes and together.fallbacks == []
    assert all(name in together.device for name in TWO), together.device
    together.verify()


def test_one_proof_of_stwo_on_two_devices_is_that_of_one():
    alone = proofs.prove("wide-fibonacci", log_size=5, device="emulated", queries=4, pow_bits=0)
    together = proofs.prove("wide-fibonacci", log_size=5, device=TWO, queries=4, pow_bits=0)
    assert together.bytes == alone.bytes and together.fallbacks == []
    assert all(name in together.device for name in TWO), together.device
    together.verify()


def test_many_proofs_on_two_devices():
    made = proofs.prove_many("fibonacci", 6, log_rows=5, device="emulated:0,emulated:1", **QUICK)
    alone = proofs.prove("fibonacci", log_rows=5, device="emulated", **QUICK)
    assert len(made) == 6 and {proof.bytes for proof in made} == {alone.bytes}
    # Each begins with one.
    assert {proof.device for proof in made} == set(TWO)
    made[-1].verify()
    assert made[0].statement == alone.statement and made[0].milliseconds > 0


def test_many_proofs_elsewhere():
    for device in ["cpu", ["cpu"], ("emulated",)]:
        made = proofs.prove_many("wide-fibonacci", 2, log_size=5, device=device, pow_bits=0, queries=3)
        assert [proof.bytes for proof in made] == 2 * [made[0].bytes]
        assert made[0].device.startswith("cpu" if "cpu" in device else "emulated") and made[0].fallbacks == []
    assert proofs.prove_many("fibonacci", 0, log_rows=5, device="cpu") == []
    if not any(device.kind == "cuda" for device in rigel.devices()):
        (made,) = proofs.prove_many("fibonacci", 1, log_rows=4, device="auto", **QUICK)
        assert made.device == "cpu" and "CUDA" in made.fallbacks[0]


def test_a_device_is_lost_in_the_middle():
    """In a process of its own: emulated devices read their faults from the environment."""
    text = f"""
import rigel
made = rigel.proofs.prove_many("fibonacci", 5, log_rows=4, device={TWO}, **{QUICK})
alone = rigel.proofs.prove("fibonacci", log_rows=4, device="cpu", **{QUICK})
assert [proof.bytes for proof in made] == 5 * [alone.bytes]
assert [proof.device for proof in made] == 5 * ["emulated:0"]
(lost,) = [reason for proof in made for reason in proof.fallbacks]
assert "emulated:1" in lost and "lost" in lost, lost
"""
    faults = {**os.environ, "RIGEL_EMULATED": "lost_after=20,lost_device=1"}
    done = subprocess.run([sys.executable, "-c", text], env=faults, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_wrong_devices():
    with pytest.raises(rigel.DeviceError, match="emulated:0"):
        proofs.prove("fibonacci", log_rows=5, device=["emulated:0", "emulated:0"], **QUICK)
    with pytest.raises(rigel.DeviceError, match="cpu"):
        proofs.prove_many("fibonacci", 2, log_rows=5, device=["cpu", "emulated:0"], **QUICK)
    with pytest.raises(rigel.DeviceError, match="emulated:0"):
        proofs.prove("wide-fibonacci", log_size=5, device=["emulated:0", "emulated:0"], pow_bits=2)
    for wrong in [[], [0], ["emulated:0", None]]:
        with pytest.raises(ValueError, match="a list of at least one"):
            proofs.prove("fibonacci", log_rows=5, device=wrong, **QUICK)
    with pytest.raises(ValueError, match="count is -1"):
        proofs.prove_many("fibonacci", -1, log_rows=5, device="cpu")
    with pytest.raises(ValueError, match="no parameter"):
        proofs.prove_many("fibonacci", 1, rows=5, device="cpu")
