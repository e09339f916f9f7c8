"""Plonky3 proofs of the workloads of Rigel's command line, on a GPU or on the CPU.

The proofs equal Plonky3's byte for byte, and its verifier checks them. `rigel.proofs` says how to save and load them.

>>> import rigel
>>> proof = rigel.plonky3.prove_fibonacci(log_rows=4, device="cpu", pow_bits=4, batch_pow_bits=0)
>>> proof.verify()
>>> proof.device, proof.fallbacks
('cpu', [])
"""

from __future__ import annotations

from typing import Any

from .proofs import Devices, Proof, prove

__all__ = [
    "Proof",
    "prove_blake3",
    "prove_fibonacci",
    "prove_keccak",
    "prove_lookups",
    "prove_poseidon2",
]


def _prove(
    workload: str,
    log_rows: int | None,
    field: str,
    hash: str,
    device: Devices,
    progress: bool | None,
    fri: dict[str, Any],
) -> Proof:
    return prove(
        workload,
        prover="plonky3",
        device=device,
        progress=progress,
        log_rows=log_rows,
        field=field.replace("_", "-").lower(),
        hash=hash.lower(),
        **fri,
    )


def prove_keccak(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: Any,
) -> Proof:
    """Proves Keccak-f permutations, 24 rows each, in 2^`log_rows` rows.

    `field` is koala-bear, baby-bear, goldilocks or goldilocks3; `hash` is keccak, keccak256 or poseidon2. `device` is
    cpu, cuda:0, emulated or auto. `auto` is the first GPU, or the CPU if there is none; `Proof.fallbacks` reports that.
    Several, as `["cuda:0", "cuda:1"]`, `"cuda:0,cuda:1"` or `"all"`, make the proof together. `progress` shows a bar on
    standard error; by default, if that is a terminal. The other keywords are FRI parameters: log_blowup,
    log_final_poly_len, max_log_arity, queries, pow_bits, batch_pow_bits, commit_pow_bits, cap_height, zk.
    """
    return _prove("keccak", log_rows, field, hash, device, progress, fri)


def prove_poseidon2(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: Any,
) -> Proof:
    """Proves Poseidon2 permutations, 8 per row. The parameters are those of `prove_keccak`."""
    return _prove("poseidon2", log_rows, field, hash, device, progress, fri)


def prove_blake3(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: Any,
) -> Proof:
    """Proves Blake3 compressions, one per row. The parameters are those of `prove_keccak`."""
    return _prove("blake3", log_rows, field, hash, device, progress, fri)


def prove_fibonacci(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: Any,
) -> Proof:
    """Proves a Fibonacci sequence, with public values. The parameters are those of `prove_keccak`."""
    return _prove("fibonacci", log_rows, field, hash, device, progress, fri)


def prove_lookups(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: Any,
) -> Proof:
    """Proves eight tables connected by 20 lookups. The parameters are those of `prove_keccak`."""
    return _prove("lookups", log_rows, field, hash, device, progress, fri)
