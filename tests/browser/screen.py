"""A machine's screen without a machine: speaks RFB 3.8 like QEMU (RFC 6143), shows one colour, remembers the keys."""

from __future__ import annotations

import asyncio
import struct
from dataclasses import dataclass, field
from typing import Any

WIDTH, HEIGHT = 64, 48
VERSION = b"RFB 003.008\n"
NO_PASSWORD = 1
EXTENDED_KEYS = -258  # QEMU's extension: the key's place, not its letter
LENGTHS = {3: 10, 4: 8, 5: 6, 255: 12}  # of the messages whose length is fixed; 255 is QEMU's key event


@dataclass
class FakeScreen:
    """A ByteStream. `colour` is what it shows; `keys` are (keysym, pressed) as they arrived."""

    colour: tuple[int, int, int]
    keys: list[tuple[int, bool]] = field(default_factory=list)
    closed: bool = False
    _out: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    _in: bytearray = field(default_factory=bytearray)
    _stage: str = "version"

    def __post_init__(self) -> None:
        self._out.put_nowait(VERSION)

    async def read(self) -> bytes:
        """What the screen says next."""
        return b"" if self.closed else await self._out.get()

    async def write(self, data: bytes) -> None:
        """What the viewer says."""
        self._in += data
        while self._step():
            pass

    async def close(self) -> None:
        """The viewer is gone."""
        self.hang_up()

    def hang_up(self) -> None:
        """The machine is switched off, or restarts."""
        self.closed = True
        self._out.put_nowait(b"")

    def _step(self) -> bool:
        """Handle one whole message; False when there is none yet."""
        needed = {"version": 12, "security": 1, "share": 1}.get(self._stage)
        if needed is None:
            return self._message()
        if len(self._in) < needed:
            return False
        del self._in[:needed]
        self._stage, answer = {
            "version": ("security", bytes([1, NO_PASSWORD])),
            "security": ("share", struct.pack(">I", 0)),
            "share": ("running", self._hello()),
        }[self._stage]
        self._out.put_nowait(answer)
        return True

    def _hello(self) -> bytes:
        """ServerInit: size, 32-bit true colour, name."""
        name = b"fake"
        pixel = struct.pack(">BBBBHHHBBB3x", 32, 24, 0, 1, 255, 255, 255, 16, 8, 0)
        return struct.pack(">HH", WIDTH, HEIGHT) + pixel + struct.pack(">I", len(name)) + name

    def _message(self) -> bool:
        if not self._in:
            return False
        length = self._length()
        if length is None or len(self._in) < length:
            return False
        message = bytes(self._in[:length])
        del self._in[:length]
        self._handle(message)
        return True

    def _length(self) -> int | None:
        kind = self._in[0]
        if kind == 0:
            return 20
        if kind == 2:
            return 4 + 4 * int(struct.unpack(">H", self._in[2:4])[0]) if len(self._in) >= 4 else None
        if kind == 6:
            return 8 + abs(int(struct.unpack(">i", self._in[4:8])[0])) if len(self._in) >= 8 else None
        return LENGTHS[kind]

    def _handle(self, message: bytes) -> None:
        kind = message[0]
        if kind == 2:
            self._out.put_nowait(struct.pack(">BxHHHHHi", 0, 1, 0, 0, 0, 0, EXTENDED_KEYS))
        if kind == 3 and not message[1]:
            self._out.put_nowait(self._picture())
        if kind == 4:
            self.keys.append((struct.unpack(">I", message[4:8])[0], bool(message[1])))
        if kind == 255:
            self.keys.append((struct.unpack(">I", message[4:8])[0], bool(struct.unpack(">H", message[2:4])[0])))

    def _picture(self) -> bytes:
        """One raw rectangle (encoding 0); noVNC asks for the byte order red, green, blue, unused."""
        head = struct.pack(">BxHHHHHi", 0, 1, 0, 0, WIDTH, HEIGHT, 0)
        return head + bytes([*self.colour, 0]) * (WIDTH * HEIGHT)

    def typed(self) -> str:
        """The letters pressed, shift keys left out."""
        return "".join(chr(keysym) for keysym, pressed in self.keys if pressed and keysym < 0xFF00)


@dataclass
class Screens:
    """Stands where the gateway opens consoles: each opening gets the next colour."""

    opened: list[FakeScreen] = field(default_factory=list)
    colours: tuple[tuple[int, int, int], ...] = ((200, 40, 40), (40, 160, 60), (40, 60, 200))

    async def open_console(self, address: Any, machine: Any) -> FakeScreen:
        """As portal.gateway.open_console."""
        screen = FakeScreen(self.colours[len(self.opened) % len(self.colours)])
        self.opened.append(screen)
        return screen
