# SPDX-License-Identifier: Apache-2.0
"""A WebSocket server that gives back what it gets, on every path."""
import base64
import hashlib
import struct

MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept_of(key):
    return base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()


async def read_frame(reader):
    """(opcode, payload), unmasked."""
    first, second = await reader.readexactly(2)
    size = second & 127
    if size == 126:
        size, = struct.unpack("!H", await reader.readexactly(2))
    elif size == 127:
        size, = struct.unpack("!Q", await reader.readexactly(8))
    mask = await reader.readexactly(4) if second & 128 else bytes(4)
    data = await reader.readexactly(size)
    return first & 15, bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def frame(opcode, data):
    size = bytes([len(data)]) if len(data) < 126 else b"\x7e" + struct.pack("!H", len(data))
    return bytes([0x80 | opcode]) + size + data


async def serve(request, c, log):
    if request.field("Upgrade").lower() != "websocket":
        c.answer(426, "{}")
        return True
    c.writer.write((f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
                    f"Sec-WebSocket-Accept: {accept_of(request.field('Sec-WebSocket-Key'))}\r\n\r\n").encode())
    while True:
        opcode, data = await read_frame(c.reader)
        log("ws", host=request.host, target=request.target, text=data.decode("latin-1"))
        c.writer.write(frame(opcode, data))
        await c.writer.drain()
        if opcode == 8:
            return False
