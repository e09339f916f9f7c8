"""Stwo proofs of the workloads of Rigel's command line, on a GPU or on the CPU.

The proofs equal those of Stwo's SIMD backend byte for byte, and Stwo's verifier checks them. `rigel.proofs` says how to
save and load them.

>>> import rigel
>>> proof = rigel.stwo.prove_wide_fibonacci(log_size=5, device="cpu", pow_bits=4)
>>> proof.verify()
>>> proof.statement["workload"], proof.device
('wide-fibonacci', 'cpu')
"""

from __future__ import annotations

from .proofs import Devices, Proof, prove

__all__ = [
    "Proof",
    "prove_blake2s",
    "prove_plonk",
    "prove_poseidon2",
    "prove_state_machine",
    "prove_wide_fibonacci",
    "prove_xor",
]


def _prove(
    workload: str, log_size: int | None, channel: str, device: Devices, progress: bool | None, fri: dict[str, int]
) -> Proof:
    channel = channel.replace("_", "-").lower()
    return prove(
        workload, prover="stwo", device=device, progress=progress, log_size=log_size, channel=channel, **fri
    )


def prove_wide_fibonacci(
    log_size: int | None = None,
    channel: str = "blake2s",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: int,
) -> Proof:
    """Proves sequences of sums of squares, 100 columns, one sequence per row: 2^`log_size` rows.

    `channel` is the hash of trees and challenges: blake2s, or blake2s-m31. `device` is cpu, cuda:0, emulated or auto.
    `auto` is the first GPU, or the CPU if there is none; `Proof.fallbacks` reports that. Several, as
    `["cuda:0", "cuda:1"]`, `"cuda:0,cuda:1"` or `"all"`, make the proof together. `progress` shows a bar on standard
    error; by default, if that is a terminal. The other keywords are log_blowup, log_last_layer, queries, fold_step,
    pow_bits.
    """
    return _prove("wide-fibonacci", log_size, channel, device, progress, fri)


def prove_poseidon2(
    log_size: int | None = None,
    channel: str = "blake2s",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: int,
) -> Proof:
    """Proves a chain of Poseidon2 permutations, 8 per row: 2^`log_size` permutations.

    The parameters are those of `prove_wide_fibonacci`.
    """
    return _prove("poseidon2", log_size, channel, device, progress, fri)


def prove_plonk(
    log_size: int | None = None,
    channel: str = "blake2s",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: int,
) -> Proof:
    """Proves a circuit of additions and multiplications: 2^`log_size` gates.

    The parameters are those of `prove_wide_fibonacci`.
    """
    return _prove("plonk", log_size, channel, device, progress, fri)


def prove_state_machine(
    log_size: int | None = None,
    channel: str = "blake2s",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: int,
) -> Proof:
    """Proves steps in a plane, with two components: 2^`log_size` steps.

    The parameters are those of `prove_wide_fibonacci`.
    """
    return _prove("state-machine", log_size, channel, device, progress, fri)


def prove_xor(
    log_size: int | None = None,
    channel: str = "blake2s",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: int,
) -> Proof:
    """Proves XORs and sums by table lookups: 2^`log_size` rows.

    The parameters are those of `prove_wide_fibonacci`.
    """
    return _prove("xor", log_size, channel, device, progress, fri)


def prove_blake2s(
    log_size: int | None = None,
    channel: str = "blake2s",
    device: Devices = "auto",
    progress: bool | None = None,
    **fri: int,
) -> Proof:
    """Proves a chain of Blake2s compressions, with twelve components: 2^`log_size` compressions.

    The parameters are those of `prove_wide_fibonacci`.
    """
    return _prove("blake2s", log_size, channel, device, progress, fri)
