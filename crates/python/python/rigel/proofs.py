"""Proofs of the workloads of Rigel's command line, with Plonky3 or Stwo, on a GPU or on the CPU.

The proofs equal upstream's byte for byte, and upstream's verifiers check them. `Proof.save` writes the file that
`rigel verify` reads, and `load` reads what `rigel prove -o` writes.

>>> import rigel, tempfile, os
>>> proof = rigel.proofs.prove("fibonacci", log_rows=4, device="cpu", pow_bits=4, batch_pow_bits=0)
>>> with tempfile.TemporaryDirectory() as folder:
...     path = os.path.join(folder, "fibonacci.proof")
...     proof.save(path)
...     same = rigel.proofs.load(path)
>>> same.verify()
>>> same.bytes == proof.bytes, same.statement["public_values"]
(True, [[0, 1, 987]])

While a proof takes longer than a moment, a progress bar is shown on standard error if that is a terminal. Python's lock
is released, so other threads run meanwhile. Ctrl-C raises KeyboardInterrupt at once; the work ends with the step that
it is at (generating the trace, preparing the device, proving), which can't be broken off.
"""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Sequence
from typing import Any

from ._rigel import Proof, _load, _prove, _prove_many, _workloads

__all__ = ["Proof", "load", "prove", "prove_many", "workloads"]

#: A device, or several: in a list, or in a text with commas between them.
Devices = str | Sequence[str]


def prove(
    workload: str,
    *,
    prover: str | None = None,
    device: Devices = "auto",
    progress: bool | None = None,
    **parameters: Any,
) -> Proof:
    """Proves a workload.

    `workloads` lists the names. `prover` is plonky3 or stwo; it is needed only where both have a workload of the name
    (poseidon2, which is Plonky3's by default). `device` is cpu, cuda:0, emulated or auto. `auto` is the first GPU, or
    the CPU if there is none; `Proof.fallbacks` reports that. Several devices, as `["cuda:0", "cuda:1"]`,
    `"cuda:0,cuda:1"` or `"all"` (every GPU), make the proof together, each of them a part of its rows. `progress`
    shows a bar on standard error; by default, if that is a terminal.

    The parameters have the names of `Proof.statement`. With Plonky3: log_rows, field (koala-bear, baby-bear,
    goldilocks, goldilocks3), hash (keccak, keccak256, poseidon2), log_blowup, log_final_poly_len, max_log_arity,
    queries, pow_bits, batch_pow_bits, commit_pow_bits, cap_height, zk. With Stwo: log_size (or log_rows), channel
    (blake2s, blake2s-m31), log_blowup, log_last_layer, queries, fold_step, pow_bits. In names, `_` and capitals are as
    good as `-` and small letters.

    >>> import rigel
    >>> proof = rigel.proofs.prove("plonk", log_size=5, device="cpu", pow_bits=4)
    >>> proof.statement["prover"], proof.verify()
    ('stwo', None)
    """
    return _prove(workload, prover, _options(parameters), _names(device), progress)


def prove_many(
    workload: str,
    count: int,
    *,
    prover: str | None = None,
    device: Devices = "auto",
    progress: bool | None = None,
    **parameters: Any,
) -> list[Proof]:
    """Proves a workload `count` times, shared out over the devices, and returns the proofs as they were done.

    Each device makes whole proofs, as many at a time as fit in its memory; `Proof.device` says which one made it. A
    device that is lost is left out, and its proofs are made on the others. The arguments are those of `prove`.

    >>> import rigel
    >>> proofs = rigel.proofs.prove_many("fibonacci", 3, log_rows=4, device="cpu", pow_bits=0, batch_pow_bits=0)
    >>> len(proofs), {proof.bytes for proof in proofs} == {proofs[0].bytes}
    (3, True)
    """
    count = operator.index(count)
    if not 0 <= count < 1 << 32:
        raise ValueError(f"count is {count}; give a number of proofs from 0 to 2^32 - 1")
    return _prove_many(workload, prover, _options(parameters), _names(device), count, progress)


def _options(parameters: dict[str, Any]) -> str:
    given = {
        name: value.replace("_", "-").lower() if isinstance(value, str) else value
        for name, value in parameters.items()
        if value is not None
    }
    return json.dumps(given, default=operator.index)


def _names(device: Devices) -> str:
    if isinstance(device, str):
        return device
    names = list(device)
    if not names or not all(isinstance(name, str) for name in names):
        raise ValueError(f"device is {device!r}; give a name such as 'cuda:0', or a list of at least one")
    return ",".join(names)


def load(path: str | os.PathLike[str], *, memory_limit: int | None = None) -> Proof:
    """Reads a proof file. Raises ValueError if the file is cut, altered, or not a proof file; the proof itself is not
    checked until `Proof.verify`. Raises MemoryError if the file is longer than `memory_limit`, in bytes: 64 MiB by
    default."""
    return _load(path, memory_limit)


def workloads(prover: str) -> list[str]:
    """The names of the workloads of a prover, plonky3 or stwo.

    >>> import rigel
    >>> rigel.proofs.workloads("stwo")
    ['poseidon2', 'wide-fibonacci', 'plonk', 'state-machine', 'xor', 'blake2s']
    """
    return _workloads(prover)
