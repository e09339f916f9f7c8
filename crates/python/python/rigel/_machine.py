"""Runs the binaries of machines, `rigel-cairo` and `rigel-risc0`, which are installed separately."""

from __future__ import annotations

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Iterable
from typing import Any

# How many of the last lines of a binary's messages an error repeats.
_LINES = 20


def find(machine: str) -> str:
    """The path of the machine's binary: in the scripts of this Python environment, beside the interpreter, or on the
    path. Raises FileNotFoundError if there is none."""
    name = f"rigel-{machine}"
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable), os.environ.get("PATH", os.defpath)]
    found = shutil.which(name, path=os.pathsep.join(folders))
    if found is None:
        raise FileNotFoundError(
            f"{name} is neither in this Python environment nor on the path; to install it, run in Rigel's sources: "
            f"vms/{machine}/scripts/install"
        )
    return found


def options(given: dict[str, Any]) -> list[str]:
    """`{"max_steps": 10}` as the command line's options; what is None is left out."""
    return [f"--{name.replace('_', '-')}={value}" for name, value in given.items() if value is not None]


def run(machine: str, arguments: Iterable[Any], progress: bool | None = False) -> tuple[int, str, str]:
    """Runs the machine's binary. Returns its exit code, what it printed, and the last lines of its messages.

    Its messages name the steps of its work: `progress` shows the latest one on standard error, by default if that is a
    terminal. If this thread is interrupted, the binary is ended.
    """
    command = [find(machine), *map(str, arguments)]
    if progress is None:
        progress = sys.stderr is not None and sys.stderr.isatty()
    messages: list[str] = []
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        lines = _shown(process.stderr, machine, progress)
        reader = threading.Thread(target=messages.extend, args=(lines,), daemon=True)
        reader.start()
        try:
            process.wait()
        except BaseException:
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            raise
        finally:
            reader.join()
            process.stderr.close()
            if progress:
                sys.stderr.write("\r\x1b[2K")
                sys.stderr.flush()
        printed.seek(0)
        return process.returncode, printed.read().decode(errors="replace"), "".join(messages[-_LINES:]).strip()


def _shown(messages: Iterable[str], machine: str, progress: bool) -> Iterable[str]:
    """The messages; each is shown as it comes."""
    began = time.monotonic()
    for line in messages:
        if progress:
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            sys.stderr.write(f"\r\x1b[2K{machine} [{minutes:02}:{seconds:02}, {line.strip()[:100]}]")
            sys.stderr.flush()
        yield line


def proved(machine: str, arguments: list[Any], progress: bool | None) -> tuple[bytes, str]:
    """Runs `prove`. Returns the proof's file and the report, in JSON."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "proof")
        code, printed, messages = run(machine, ["prove", *arguments, "--json", "--output", file], progress)
        if code != 0:
            raise RuntimeError(f"rigel-{machine} ended with code {code}: {messages or printed.strip()}")
        return file.read_bytes(), printed


def verified(machine: str, proof: bytes, arguments: list[Any]) -> str:
    """Runs `verify` and returns what it printed. Raises ValueError if the proof is rejected."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "proof")
        file.write_bytes(proof)
        code, printed, messages = run(machine, ["verify", file, *arguments])
    if code != 0:
        raise ValueError(f"the proof does not verify: {(messages or printed).replace(str(file), 'the proof').strip()}")
    return printed
