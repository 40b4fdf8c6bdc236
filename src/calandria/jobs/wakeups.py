"""Waking idle workers: at once within a process, and across processes of one host.

Every listening process binds a datagram socket in a directory beside the database; whoever
enqueues sends each of them the number of jobs. A wake-up only saves time: a slow poll makes up for
a lost one.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import tempfile
import threading
from hashlib import sha256

MOST_TOKENS = 16
"""How many looks at the job table are owed to threads that are about to wait.

One thread that finds a job wakes the next, so that a long queue needs no token for each job.
"""
LONGEST_SOCKET_PATH = 100
"""Bytes: what every system allows for the path of a socket."""


class Wakeups:
    """Wakes idle threads of this process, and of others that listen in the same directory.

    Args:
        directory: where the sockets are; `None` for this process alone.
    """

    def __init__(self, directory: str | None = None) -> None:
        self._directory = directory
        self._condition = threading.Condition()
        self._tokens = 0
        self._idle = 0
        self._listeners = 0
        self._socket: socket.socket | None = None
        self._path: str | None = None

    def listen(self) -> None:
        """Be woken from other processes too, from now on; balanced by `close`."""
        with self._condition:
            self._listeners += 1
        if self._socket is None:
            self._open()

    def listen_again(self) -> None:
        """Listen at a new socket if the one there was has been deleted."""
        if self._path is not None and not os.path.exists(self._path):
            self._close()
            self._open()

    def _open(self) -> None:
        if self._directory is None or not hasattr(socket, "AF_UNIX"):
            return
        os.makedirs(self._directory, exist_ok=True)
        name = f"{os.getpid()}-{secrets.token_hex(3)}.sock"
        path = os.path.join(self._directory, name)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        listening.bind(path)
        self._socket, self._path = listening, path
        threading.Thread(
            target=self._serve, args=(listening,), name="calandria-wakeups", daemon=True
        ).start()

    def _serve(self, listening: socket.socket) -> None:
        while True:
            try:
                data = listening.recv(16)
            except OSError:
                return
            if not data:
                return
            self._wake_here(int(data))

    def notify(self, count: int = 1) -> None:
        """Wake up to `count` idle threads: here if there are any, else in other processes."""
        with self._condition:
            # an idle thread with a token is about to go to work
            free = max(self._idle - self._tokens, 0) if self._listeners else 0
        if self._listeners:
            self._wake_here(count)
        if free < count:
            self._wake_elsewhere(count - free)

    def wake_one(self) -> None:
        """Wake one more idle thread of this process, if there is one."""
        with self._condition:
            if self._idle > self._tokens:
                self._tokens += 1
                self._condition.notify()

    def _wake_here(self, count: int) -> None:
        with self._condition:
            # a token that finds no idle thread is kept: a thread about to wait looks again
            most = max(self._idle, MOST_TOKENS)
            self._tokens = max(self._tokens, min(self._tokens + count, most))
            self._condition.notify(count)

    def _wake_elsewhere(self, count: int) -> None:
        if self._directory is None or not hasattr(socket, "AF_UNIX"):
            return
        try:
            names = [name for name in os.listdir(self._directory) if name.endswith(".sock")]
        except OSError:
            return
        own = None if self._path is None else os.path.basename(self._path)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
            sending.setblocking(False)
            for name in names:
                if name != own:
                    self._send(sending, count, os.path.join(self._directory, name))

    @staticmethod
    def _send(sending: socket.socket, count: int, path: str) -> None:
        try:
            sending.sendto(b"%d" % count, path)
        except ConnectionRefusedError:
            # left behind by a process that died
            with contextlib.suppress(OSError):
                os.unlink(path)
        except OSError:
            # its buffer is full, so that it is about to wake anyway; or it is just going away
            return

    def wait(self, timeout: float, stopping: threading.Event) -> None:
        """Wait to be woken, at most `timeout` seconds; not at all once `stopping` is set."""
        with self._condition:
            self._idle += 1
            try:
                self._condition.wait_for(lambda: self._tokens > 0 or stopping.is_set(), timeout)
                self._tokens = max(self._tokens - 1, 0)
            finally:
                self._idle -= 1

    def wake_all(self) -> None:
        """Wake every thread of this process that waits."""
        with self._condition:
            self._tokens += self._idle
            self._condition.notify_all()

    def close(self) -> None:
        """Stop listening, once for each `listen`."""
        with self._condition:
            self._listeners = max(self._listeners - 1, 0)
            if self._listeners:
                return
        self._close()

    def forget(self) -> None:
        """In a forked child: nobody waits here, and the socket is the parent's."""
        listening, self._socket, self._path = self._socket, None, None
        self._condition = threading.Condition()
        self._tokens = self._idle = self._listeners = 0
        if listening is not None:
            # no shutdown: it would end the parent's `recv` too
            listening.close()

    def _close(self) -> None:
        listening, path = self._socket, self._path
        self._socket = self._path = None
        if listening is not None:
            # a shutdown ends the blocking `recv`, which a close alone does not
            with contextlib.suppress(OSError):
                listening.shutdown(socket.SHUT_RDWR)
            listening.close()
        if path is not None:
            with contextlib.suppress(OSError):
                os.unlink(path)


def wake_directory(database_path: str) -> str:
    """Return where the wake-up sockets of a database file are.

    Beside the file, or, where that path is too long for a socket, in the temporary directory.
    """
    path = os.path.realpath(database_path)
    beside = f"{path}-wake"
    if len(os.fsencode(beside)) + 32 <= LONGEST_SOCKET_PATH:
        return beside
    digest = sha256(os.fsencode(path)).hexdigest()[:16]
    return os.path.join(tempfile.gettempdir(), f"calandria-{digest}-wake")
