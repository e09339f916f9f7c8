"""Whether the head of the Ray cluster is still there, and still the same.

A client must know before Ray does. Without a store of its own a head that comes back is another cluster, and a client
of the old one that asks it for machines is aborted by Ray, results and all; if none comes back, it is aborted after a
minute.
"""

import socket
import threading
import time

THERE, SILENT, GONE = "there", "silent", "gone"

#: Seconds of silence after which the head is gone. Ray itself aborts the process after 60.
_PATIENCE = 20.0
#: Seconds that a connection may take.
_CONNECT = 2.0


class Head:
    """Holds a connection to the head, which ends when the head's process does."""

    def __init__(self, ray):
        self.address = ray.get_runtime_context().gcs_address
        self._lock = threading.Lock()
        self._identity = _identity(self.address)
        self._silent_since = None
        self._connection = reach(self.address)

    def look(self):
        """`THERE`; `SILENT` if it does not answer at the moment; `GONE` if it has not for long, or is another one."""
        with self._lock:
            if self._open():
                return THERE
            self._connection = reach(self.address)
            if self._connection is not None and self._same():
                self._silent_since = None
                return THERE
            if self._connection is not None and _identity(self.address) is not None:
                return GONE
            self._hang_up()
            now = time.monotonic()
            self._silent_since = self._silent_since or now
            return GONE if now - self._silent_since > _PATIENCE else SILENT

    def answers(self):
        """Whether nothing speaks against asking it something."""
        with self._lock:
            return self._open()

    def close(self):
        with self._lock:
            self._hang_up()

    def _same(self):
        # Without a name at the beginning, nothing can be told from the one now.
        return self._identity is None or _identity(self.address) == self._identity

    def _open(self):
        if self._connection is None:
            return False
        try:
            # What it says at the beginning is of no interest. It hangs up after two minutes, because nothing is asked.
            while self._connection.recv(4096):
                pass
        except BlockingIOError:
            return True
        except OSError:
            pass
        self._hang_up()
        return False

    def _hang_up(self):
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def reach(address):
    """A connection that does not block, or `None`."""
    host, port = address.rsplit(":", 1)
    try:
        connection = socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT)
    except OSError:
        return None
    connection.setblocking(False)
    return connection


def _identity(address):
    """The cluster's own name, which a head without a store does not keep; `None` if it does not answer."""
    from ray._raylet import GcsClient

    try:
        return GcsClient(address=address).cluster_id.hex()
    except Exception:
        # Ray has an exception of its own for each way in which this fails.
        return None
