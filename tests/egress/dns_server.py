# SPDX-License-Identifier: Apache-2.0
"""A name server that answers what a test told it, and writes down every question.

A name has steps; each question for it takes the next one, the last one stays. A step is a
list of records ["A", "1.2.3.4"], ["AAAA", …], ["CNAME", name], or a word: "nxdomain",
"servfail", "empty", "silent" (no answer), "garbage", "loop" (a name that points at itself).
A name without steps that ends in .test has an address of its own.
"""
import asyncio
import ipaddress
import struct
import zlib

from names import NAMES

TYPES = {1: "A", 5: "CNAME", 12: "PTR", 16: "TXT", 28: "AAAA"}
NUMBERS = {name: number for number, name in TYPES.items()}
NET4, NET6 = "93.184.216.", "2606:2800:220:1::"
TTL = 1


def address_of(name):
    """(IPv4, IPv6) of a name of the world; the same on every machine."""
    last = 60 + NAMES.index(name) if name in NAMES else 150 + zlib.crc32(name.encode()) % 100
    return f"{NET4}{last}", f"{NET6}{last:x}"


def wire_name(name):
    return b"".join(bytes([len(label)]) + label.encode() for label in name.split(".") if label) + b"\0"


def read_name(packet, at):
    labels = []
    while packet[at]:
        labels.append(packet[at + 1:at + 1 + packet[at]].decode("latin-1"))
        at += 1 + packet[at]
    return ".".join(labels), at + 1


class Zone(asyncio.DatagramProtocol):
    def __init__(self, log):
        self.log, self.steps = log, {}

    def set(self, name, steps):
        self.steps[name] = list(steps)

    def step(self, name):
        steps = self.steps.get(name)
        if steps:
            return steps.pop(0) if len(steps) > 1 else steps[0]
        if name.endswith(".test"):
            four, six = address_of(name)
            return [["A", four], ["AAAA", six]]
        return "nxdomain"

    def records(self, name, kind):
        """Those of one step that answer the question, with the end of a CNAME chain."""
        step, found = self.step(name), []
        if isinstance(step, str):
            return step
        for record, value in step:
            if record == "CNAME":
                found.append((name, record, value))
                more = self.records(value, kind)
                found += more if isinstance(more, list) else []
            elif record == kind:
                found.append((name, record, value))
        return found

    def reply(self, packet, transport):
        number, = struct.unpack("!H", packet[:2])
        name, end = read_name(packet, 12)
        asked, = struct.unpack("!H", packet[end:end + 2])
        question = packet[12:end + 4]
        self.log("dns", name=name, type=TYPES.get(asked, str(asked)), over=transport)
        found = self.records(name.lower(), TYPES.get(asked, ""))
        if found == "silent":
            return None
        if found == "garbage":
            return packet[:2] + b"\x84\x00\xff\xff\xff\xff" + b"\xc0\x0c" * 20
        code = 3 if found == "nxdomain" else 2 if found == "servfail" else 0
        if found == "loop":
            return (struct.pack("!HHHHHH", number, 0x8400, 1, 1, 0, 0) + question
                    + struct.pack("!H", 0xc000 | (12 + len(question))) + b"\0\1\0\1\0\0\0\1\0\4\1\2\3\4")
        answers = [self.wire(*r) for r in found] if isinstance(found, list) else []
        return (struct.pack("!HHHHHH", number, 0x8480 | code, 1, len(answers), 0, 0) + question
                + b"".join(answers))

    @staticmethod
    def wire(name, kind, value):
        data = wire_name(value) if kind == "CNAME" else ipaddress.ip_address(value).packed
        return wire_name(name) + struct.pack("!HHIH", NUMBERS[kind], 1, TTL, len(data)) + data

    # ---- sockets -------------------------------------------------------------------------------

    def connection_made(self, transport):
        self.transport = transport

    def datagram_received(self, packet, peer):
        said = self.reply(packet, "udp")
        if said:
            self.transport.sendto(said, peer)

    async def stream(self, reader, writer):
        try:
            while True:
                size, = struct.unpack("!H", await reader.readexactly(2))
                said = self.reply(await reader.readexactly(size), "tcp")
                if said:
                    writer.write(struct.pack("!H", len(said)) + said)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def listen(self):
        loop = asyncio.get_running_loop()
        await loop.create_datagram_endpoint(lambda: self, local_addr=(f"{NET4}53", 53))
        await asyncio.start_server(self.stream, f"{NET4}53", 53)
