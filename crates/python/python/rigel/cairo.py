"""Proofs of Cairo programs, with StarkWare's AIR, where `rigel-cairo` is installed (`vms/cairo/scripts/install` in
Rigel's sources).

    proof = rigel.cairo.prove("fibonacci.json", args=[1000])
    proof.verify(program="fibonacci.json")
    proof.save("fibonacci.proof")              # upstream's JSON, as `rigel cairo prove -o` writes it

The work runs in a process of its own, which KeyboardInterrupt ends.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Sequence
from typing import Any

from . import _machine

__all__ = ["Proof", "load", "prove"]


class Proof:
    """A proof of a Cairo program's run, in upstream's JSON format."""

    def __init__(self, content: bytes, channel: str = "blake2s", report: dict[str, Any] | None = None) -> None:
        #: The file's bytes.
        self.bytes = content
        #: The hash of trees and challenges, which the file does not name.
        self.channel = channel
        #: What `rigel cairo prove --json` prints: statement, times, memory; None if the proof was read from a file.
        self.report = report

    def verify(self, program: str | os.PathLike[str] | None = None, security: int = 96) -> dict[str, Any]:
        """Verifies the proof with upstream's verifier and returns what it proves: the program's hash, its output, the
        bits of security. Raises ValueError if it is rejected, has fewer bits of `security`, or is not of `program`, and
        RuntimeError if it can't be checked, for example because these bytes are not a proof."""
        given = {"program": program, "security": security, "channel": self.channel}
        return _machine.verified("cairo", self.bytes, given)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file that `rigel cairo verify` reads."""
        pathlib.Path(path).write_bytes(self.bytes)

    def __repr__(self) -> str:
        return f"<Proof of a Cairo program, {len(self.bytes)} bytes>"


def prove(
    program: str | os.PathLike[str],
    args: Sequence[int] = (),
    *,
    input: str | os.PathLike[str] | None = None,
    device: str = "auto",
    channel: str = "blake2s",
    progress: bool | None = None,
    **parameters: Any,
) -> Proof:
    """Runs a Cairo program and proves the run: a Cairo 1 executable, as `scarb build` makes it, or a compiled Cairo 0
    program.

    `args` are the arguments: field elements as `Serde` writes them, or what the hints of a Cairo 0 program read as
    `program_input`. `input` names a JSON file of them instead. `device` is cpu, cuda:0, emulated or auto. `progress`
    shows the steps on standard error; by default, if that is a terminal. The other keywords are options of `rigel cairo
    prove`: variant, queries, pow_bits, log_blowup, max_steps, lifting_log_size; True gives an option without a value.
    Raises FileNotFoundError if `rigel-cairo` is not installed, and RuntimeError with its message if it fails.
    """
    given = {"args": ",".join(map(str, args)) or None, "input": input, "channel": channel, **parameters}
    given["device"] = "none" if device == "cpu" else device
    content, report = _machine.proved("cairo", given, program, progress)
    return Proof(content, channel, report)


def load(path: str | os.PathLike[str], channel: str = "blake2s") -> Proof:
    """Reads a proof that `save` or `rigel cairo prove -o` wrote."""
    return Proof(pathlib.Path(path).read_bytes(), channel)
