"""A line on standard error that shows what long work does, and is gone at the end."""

from __future__ import annotations

import os
import sys


class Line:
    """Shown if `asked`; by default, if standard error is a terminal. If it can't be written, showing ends and the work
    goes on."""

    def __init__(self, asked: bool | None) -> None:
        self._file = sys.stderr
        self._shown = ""
        try:
            if not (self._file.isatty() if asked is None else asked):
                self._file = None
        except Exception:  # closed, None, or an object of the program
            self._file = None

    def show(self, text: str) -> None:
        """Shows the text in place of the one before, as much of it as the terminal has room for."""
        if self._file is None:
            return
        try:
            columns = os.get_terminal_size(self._file.fileno()).columns
        except Exception:  # not a terminal
            columns = 0
        # The last column stays free: some terminals begin a new line there.
        text = text[: columns - 1] if columns > 0 else text
        if text != self._shown:
            self._write(text)

    def end(self) -> None:
        """Removes the line; nothing is shown afterwards."""
        if self._shown and self._file is not None:
            self._write("")
        self._file = None

    def _write(self, text: str) -> None:
        self._shown = text
        try:
            self._file.write(f"\r\x1b[2K{text}")
            self._file.flush()
        except Exception:
            self._file = None
