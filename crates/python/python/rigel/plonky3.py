"""Plonky3 proofs of the workloads of Rigel's command line, on a GPU or on the CPU.

The proofs equal Plonky3's byte for byte, and its verifier checks them.

>>> import rigel
>>> proof = rigel.plonky3.prove_fibonacci(log_rows=4, device="cpu", pow_bits=4, batch_pow_bits=0)
>>> proof.verify()
>>> proof.device, proof.fallbacks
('cpu', [])
"""

from __future__ import annotations

from ._rigel import Proof, _prove

__all__ = [
    "Proof",
    "prove_blake3",
    "prove_fibonacci",
    "prove_keccak",
    "prove_lookups",
    "prove_poseidon2",
]


def prove_keccak(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: str = "auto",
    **fri: int,
) -> Proof:
    """Proves Keccak-f permutations, 24 rows each, in 2^`log_rows` rows.

    `field` is koala-bear, baby-bear, goldilocks or goldilocks3; `hash` is keccak, keccak256 or poseidon2. `device` is
    cpu, cuda:0, emulated or auto. `auto` is the first GPU, or the CPU if there is none; `Proof.fallbacks` reports that.
    The other
    keywords are FRI parameters: log_blowup, log_final_poly_len, max_log_arity, queries, pow_bits, batch_pow_bits,
    commit_pow_bits, cap_height.
    """
    return _prove("keccak", log_rows, field, hash, device, fri)


def prove_poseidon2(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: str = "auto",
    **fri: int,
) -> Proof:
    """Proves Poseidon2 permutations, 8 per row. The parameters are those of `prove_keccak`."""
    return _prove("poseidon2", log_rows, field, hash, device, fri)


def prove_blake3(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: str = "auto",
    **fri: int,
) -> Proof:
    """Proves Blake3 compressions, one per row. The parameters are those of `prove_keccak`."""
    return _prove("blake3", log_rows, field, hash, device, fri)


def prove_fibonacci(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: str = "auto",
    **fri: int,
) -> Proof:
    """Proves a Fibonacci sequence, with public values. The parameters are those of `prove_keccak`."""
    return _prove("fibonacci", log_rows, field, hash, device, fri)


def prove_lookups(
    log_rows: int | None = None,
    field: str = "koala-bear",
    hash: str = "keccak",
    device: str = "auto",
    **fri: int,
) -> Proof:
    """Proves eight tables connected by 20 lookups. The parameters are those of `prove_keccak`."""
    return _prove("lookups", log_rows, field, hash, device, fri)
