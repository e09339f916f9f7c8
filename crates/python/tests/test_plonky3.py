"""Plonky3 proofs."""

import pytest

import rigel
from rigel import proofs

QUICK = {"queries": 10, "pow_bits": 4, "batch_pow_bits": 0}


@pytest.mark.parametrize(
    "workload, log_rows", [("fibonacci", 5), ("keccak", 5), ("poseidon2", 3), ("blake3", 3), ("lookups", 6)]
)
def test_proofs_are_verified(workload, log_rows):
    proof = proofs.prove(workload, log_rows=log_rows, device="cpu", **QUICK)
    proof.verify()
    assert proof.device == "cpu" and proof.fallbacks == [] and proof.milliseconds > 0
    assert len(proof.bytes) > 1000 and "CPU" in proof.report
    assert proof.statement["log_rows"] == log_rows and isinstance(proof.public_values, list)


@pytest.mark.parametrize(
    "field, hash", [("goldilocks3", "keccak"), ("baby-bear", "poseidon2"), ("koala-bear", "keccak256")]
)
def test_other_fields_and_hashes(field, hash):
    proof = proofs.prove("fibonacci", log_rows=4, field=field, hash=hash, device="cpu", **QUICK)
    proof.verify()
    assert (proof.statement["field"], proof.statement["hash"]) == (field, hash)


def test_auto_says_where_it_ran():
    proof = proofs.prove("fibonacci", log_rows=4, device="auto", **QUICK)
    proof.verify()
    has_gpu = any(device.kind == "cuda" for device in rigel.devices())
    assert (proof.device == "cpu") == (not has_gpu)
    assert bool(proof.fallbacks) == (not has_gpu)
    if not has_gpu:
        assert "CUDA" in proof.fallbacks[0] and proof.fallbacks[0] in proof.report


def test_bad_parameters_raise():
    with pytest.raises(ValueError, match="koala-bear"):
        proofs.prove("keccak", field="float64")
    with pytest.raises(ValueError, match="rows"):
        proofs.prove("keccak", log_rows=60, device="cpu")
    with pytest.raises(ValueError, match="queries"):
        proofs.prove("keccak", log_rows=5, device="cpu", number_of_queries=3)
    with pytest.raises(rigel.DeviceError):
        proofs.prove("keccak", log_rows=5, device="cuda:77")
