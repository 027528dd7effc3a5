"""A link between two network namespaces that delays every packet, for kernels without `tc`'s netem."""

from __future__ import annotations

import fcntl
import os
import queue
import struct
import subprocess
import threading
import time

_TUNSETIFF, _TUN, _NO_INFORMATION = 0x400454CA, 0x0001, 0x1000
_LONGEST = 65536  # bytes of a packet


class DelayedLink:
    """A TUN interface in each of two namespaces; a packet sent to one comes out of the other after `delay` seconds."""

    def __init__(self, namespaces: tuple[str, str]) -> None:
        """Create the interfaces, named like their namespaces; raises OSError or CalledProcessError."""
        self.delay = 0.0
        self._files = [self._open(name) for name in namespaces]
        for source, target in (self._files, self._files[::-1]):
            packets: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
            threading.Thread(target=self._read, args=(source, packets), daemon=True).start()
            threading.Thread(target=self._write, args=(target, packets), daemon=True).start()

    @staticmethod
    def _open(name: str) -> int:
        file = os.open("/dev/net/tun", os.O_RDWR)
        fcntl.ioctl(file, _TUNSETIFF, struct.pack("16sH", name.encode(), _TUN | _NO_INFORMATION))
        subprocess.run(["ip", "link", "set", name, "netns", name], check=True, capture_output=True, text=True)
        return file

    def _read(self, file: int, packets: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        while True:
            try:
                packet = os.read(file, _LONGEST)
            except OSError:  # the namespace has been removed, or the interface isn't up yet
                time.sleep(0.01)
                continue
            packets.put((time.monotonic() + self.delay, packet))

    @staticmethod
    def _write(file: int, packets: queue.SimpleQueue[tuple[float, bytes]]) -> None:
        while True:
            due, packet = packets.get()
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                os.write(file, packet)
            except OSError:
                continue
