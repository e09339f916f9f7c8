"""Runs the binaries of machines, `rigel-cairo` and `rigel-risc0`, which are installed separately."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections import deque
from collections.abc import Iterable
from typing import IO, Any

from ._line import Line

# How many of the last lines of a binary's messages an error repeats.
_LINES = 20
# How long a binary that was asked to end may take, in seconds.
_PATIENCE = 5
# How long messages are awaited after the binary has ended, in seconds: processes that it started may hold the pipe.
_REST = 1


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
    """`{"max_steps": 10, "fast": True}` as the command line's options; what is None or False is left out."""
    found = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            found.append(option)
        elif value is not None and value is not False:
            found.append(f"{option}={os.fsdecode(value) if isinstance(value, (bytes, os.PathLike)) else value}")
    return found


def run(machine: str, arguments: Iterable[str], progress: bool | None = False) -> tuple[int, str, str]:
    """Runs the machine's binary. Returns its exit code, what it printed, and the last lines of its messages.

    Its messages name the steps of its work: `progress` shows the latest one on standard error, by default if that is a
    terminal. If this thread is interrupted, the binary is ended.
    """
    command = [find(machine), *arguments]
    line, messages = Line(progress), deque(maxlen=_LINES)
    with tempfile.TemporaryFile() as printed:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=printed, stderr=subprocess.PIPE, text=True, errors="replace"
        )
        reader = threading.Thread(target=_read, args=(process.stderr, machine, line, messages), daemon=True)
        try:
            reader.start()
            process.wait()
        except BaseException:
            _end(process)
            raise
        finally:
            if reader.ident is not None:
                reader.join(_REST)
            line.end()
        printed.seek(0)
        return process.returncode, printed.read().decode(errors="replace"), "".join(messages).strip()


def _end(process: subprocess.Popen[str]) -> None:
    """Asks the process to end; kills it if it does not, or if this thread is interrupted once more."""
    try:
        process.terminate()
        process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        pass
    finally:
        process.kill()
        process.wait()


def _read(pipe: IO[str], machine: str, line: Line, messages: deque[str]) -> None:
    """Keeps the last messages, and shows each as it comes."""
    began = time.monotonic()
    with pipe:
        for message in pipe:
            messages.append(message)
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            line.show(f"{machine} [{minutes:02}:{seconds:02}, {message.strip()}]")


def proved(machine: str, given: dict[str, Any], program: Any, progress: bool | None) -> tuple[bytes, dict[str, Any]]:
    """Runs `prove`. Returns the proof's file and the report."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "proof")
        arguments = ["prove", *options(given), "--json", f"--output={file}", "--", os.fsdecode(program)]
        code, printed, messages = run(machine, arguments, progress)
        report = _document(printed)
        if code != 0:
            raise _failure(machine, code, report, messages or printed)
        return file.read_bytes(), report


def verified(machine: str, proof: bytes, given: dict[str, Any]) -> dict[str, Any]:
    """Runs `verify` and returns the verdict. Raises ValueError if the proof is rejected, and RuntimeError if the binary
    can't tell."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "proof")
        file.write_bytes(proof)
        code, printed, messages = run(machine, ["verify", *options(given), "--json", "--", str(file)])
    verdict = _document(printed)
    if code == 0 and verdict.get("verified") is True:
        return verdict
    if verdict.get("verified") is False:
        raise ValueError(f"the proof does not verify: {verdict.get('reason')}")
    raise _failure(machine, code, verdict, (messages or printed).replace(str(file), "the proof"))


def _document(printed: str) -> dict[str, Any]:
    """The JSON object that a binary printed; empty if it printed something else."""
    try:
        document = json.loads(printed)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _failure(machine: str, code: int, document: dict[str, Any], said: str) -> RuntimeError:
    """The error of a binary that did not do its work: the one that it printed as JSON, or else its output."""
    return RuntimeError(f"rigel-{machine} ended with code {code}: {document.get('error') or said.strip()}")
