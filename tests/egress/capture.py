# SPDX-License-Identifier: Apache-2.0
"""Every packet on one interface of a network namespace, read from outside of it."""
import ctypes
import ipaddress
import os
import select
import socket
import struct
import threading

ETH_P_ALL = 3
CLONE_NEWNET = 0x40000000
LISTENER_REPORT = bytes.fromhex("333300000016")  # the kernel tells its groups when an interface comes up
PROTOCOLS = {1: "icmp", 6: "tcp", 17: "udp", 58: "icmp6"}


class Packet:
    def __init__(self, frame):
        self.frame, self.protocol, self.to, self.port, self.payload = frame, "", "", 0, b""
        kind, = struct.unpack("!H", frame[12:14])
        data = frame[14:]
        if kind == 0x0800:
            number, at = data[9], (data[0] & 15) * 4
            self.source, self.to = (str(ipaddress.ip_address(data[n:n + 4])) for n in (12, 16))
        elif kind == 0x86dd:
            number, at = data[6], 40
            self.source, self.to = (str(ipaddress.ip_address(data[n:n + 16])) for n in (8, 24))
        else:
            self.protocol = f"ether {kind:#x}"
            return
        self.protocol = PROTOCOLS.get(number, str(number))
        if self.protocol in ("tcp", "udp"):
            self.port, = struct.unpack("!H", data[at + 2:at + 4])
            at += (data[at + 12] >> 4) * 4 if self.protocol == "tcp" else 8
            self.payload = data[at:]

    def __repr__(self):
        return f"<{self.protocol} to {self.to} port {self.port}: {self.payload[:80]!r}>"


def in_namespace(path, fn):
    """fn() by a thread that has entered a network namespace; a socket it makes stays there."""
    result = []

    def work():
        fd = os.open(path, os.O_RDONLY)
        try:
            if ctypes.CDLL(None, use_errno=True).setns(fd, CLONE_NEWNET) < 0:
                raise OSError(ctypes.get_errno(), f"setns {path}")
            result.append(fn())
        except OSError as e:
            result.append(e)
        finally:
            os.close(fd)
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    if isinstance(result[0], OSError):
        raise result[0]
    return result[0]


class Capture:
    """Packets as they come; `since(mark)` are those that left after a mark."""

    def __init__(self, namespace, interface):
        def open_socket():
            s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            s.setsockopt(socket.SOL_SOCKET, 33, 64 << 20)  # SO_RCVBUFFORCE: no packet is missed
            s.bind((interface, ETH_P_ALL))
            return s
        self.socket = in_namespace(namespace, open_socket)
        self.packets = []

    def read(self):
        while select.select([self.socket], [], [], 0)[0]:
            frame, address = self.socket.recvfrom(1 << 17)
            if address[2] == socket.PACKET_OUTGOING and frame[:6] != LISTENER_REPORT:
                self.packets.append(Packet(frame))

    def mark(self):
        self.read()
        return len(self.packets)

    def since(self, mark):
        self.read()
        return self.packets[mark:]

    def close(self):
        self.socket.close()
