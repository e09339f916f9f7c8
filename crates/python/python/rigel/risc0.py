"""Receipts of RISC Zero programs, where `rigel-risc0` is installed (`vms/risc0/scripts/install` in Rigel's sources).

    receipt = rigel.risc0.prove("fibonacci.elf", number=100)
    receipt.verify(receipt.image_id)
    receipt.save("fibonacci.receipt")          # upstream's bincode, as `rigel risc0 prove -o` writes it

Upstream's version is a release candidate, 5.0.0-rc.1, in which constraints are missing: a preview, for measurements.
The work runs in a process of its own, which KeyboardInterrupt ends.
"""

from __future__ import annotations

import os
import pathlib
from typing import Any

from . import _machine

__all__ = ["Receipt", "load", "prove"]


class Receipt:
    """A receipt of a RISC Zero program's run, in upstream's bincode format."""

    def __init__(self, content: bytes, report: dict[str, Any] | None = None) -> None:
        #: The file's bytes.
        self.bytes = content
        #: What `rigel risc0 prove --json` prints: image id, journal, cycles, times; None if it was read from a file.
        self.report = report

    @property
    def image_id(self) -> str | None:
        """The image id of the program that was proven; None if the receipt was read from a file."""
        return self.report and self.report["image_id"]

    def verify(self, image_id: str | None = None, program: str | os.PathLike[str] | None = None) -> None:
        """Verifies with upstream's verifier that the receipt is of the program with this image id, or of this program.
        Raises ValueError if it is rejected, and RuntimeError if it can't be checked, for example because these bytes
        are not a receipt."""
        if (image_id is None) == (program is None):
            raise TypeError("a receipt is verified against an image id or against a program: give one of both")
        _machine.verified("risc0", self.bytes, {"image_id": image_id, "program": program})

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the file that `rigel risc0 verify` reads."""
        pathlib.Path(path).write_bytes(self.bytes)

    def __repr__(self) -> str:
        return f"<Receipt of a RISC Zero program, {len(self.bytes)} bytes>"


def prove(
    program: str | os.PathLike[str],
    *,
    stdin: str | os.PathLike[str] | None = None,
    number: int | None = None,
    device: str = "auto",
    progress: bool | None = None,
    **parameters: Any,
) -> Receipt:
    """Runs a program for RISC Zero and proves the run.

    `stdin` names the file that the program reads, or `number` is what it reads, in four bytes. `device` is cpu, cuda:0,
    emulated or auto, or several with commas between them. `progress` shows the steps on standard error; by default, if
    that is a terminal. The other keywords are options of `rigel risc0 prove`: segment_po2, max_cycles. Raises
    FileNotFoundError if `rigel-risc0` is not installed, and RuntimeError with its message if it fails.
    """
    given = {"stdin": stdin, "number": number, **parameters}
    given["device"] = "none" if device == "cpu" else device
    content, report = _machine.proved("risc0", given, program, progress)
    return Receipt(content, report)


def load(path: str | os.PathLike[str]) -> Receipt:
    """Reads a receipt that `save`, `rigel risc0 prove -o` or upstream's programs wrote."""
    return Receipt(pathlib.Path(path).read_bytes())
