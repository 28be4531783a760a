# SPDX-License-Identifier: Apache-2.0
"""A guest that lies in every field: the socket of a sandbox is replaced by one of ours.

Whatever it says, a request ends in a typed error or a closed connection, the memory of the api
stays bounded, and the other sandboxes do not notice.
"""
import os
import random
import signal
import socket
import struct
import threading
import time

import pytest

from server import Server

MB = 1 << 20
OPEN, MESSAGE, DATA, CREDIT, END = 1, 2, 3, 4, 5
BIND, MSG_OK = 1, 1


def frame(kind, channel, payload=b"", flags=0, length=None, zero=0):
    size = len(payload) if length is None else length
    return struct.pack("<IBBHI", size, kind, flags, zero, channel) + payload


def message(channel, kind, body=b""):
    return frame(MESSAGE, channel, struct.pack("<H", kind) + body)


def end(channel, code=0, text=b""):
    return frame(END, channel, struct.pack("<II", code, len(text)) + text)


RNG = random.Random(7)
HUGE = b"\xff" * 64

STARTED, EXIT, STREAMS = 2, 4, 4


def started(channel, pid=7):
    return message(channel, STARTED, struct.pack(f"<IB{STREAMS}Q", pid, 1, *[0] * STREAMS))


def exited(channel, code=0):
    return message(channel, EXIT, struct.pack(f"<iIBB{STREAMS + 3}Q", code, 0, 0, 0, *[0] * (STREAMS + 3)))


# name -> what is sent for each request after BIND; it gets (channel, kind)
LIES = {
    "noise": lambda c, k: RNG.randbytes(4096),
    "a length beyond every cap": lambda c, k: frame(MESSAGE, c, b"", length=0xFFFFFFFF),
    "a length just beyond the cap": lambda c, k: frame(DATA, c, b"", length=(128 << 10) + 1),
    "a type that is none": lambda c, k: frame(99, c, b"x"),
    "a reserved field": lambda c, k: frame(MESSAGE, c, b"\1\0", zero=7),
    "a channel nobody opened": lambda c, k: message(c + 1000, MSG_OK) + end(c + 1000),
    "channel zero": lambda c, k: message(0, MSG_OK) + end(0),
    "a request of its own": lambda c, k: frame(OPEN, c + 1, struct.pack("<H", BIND)) + end(c),
    "a message of no kind": lambda c, k: message(c, 0xFFFF, b"x") + end(c),
    "an empty message": lambda c, k: frame(MESSAGE, c, b"") + end(c),
    "an end without a message": lambda c, k: end(c),
    "an end with an errno of 4 billion": lambda c, k: end(c, 0xFFFFFFFF, b"x"),
    "an end with a text of 100 KB": lambda c, k: end(c, 5, b"y" * 100_000),
    "an end that is cut": lambda c, k: frame(END, c, b"\0\0"),
    "two ends": lambda c, k: end(c) + end(c),
    "data nobody asked for": lambda c, k: frame(DATA, c, b"z" * 1000, flags=77) + end(c),
    "more data than the credit": lambda c, k: b"".join(frame(DATA, c, b"z" * 65536, flags=1) for _ in range(256)) + end(c),
    "credit without end": lambda c, k: frame(CREDIT, c, b"\xff\xff\xff\xff") * 64 + end(c),
    "credit that is cut": lambda c, k: frame(CREDIT, c, b"\1"),
    "an OK to everything": lambda c, k: message(c, MSG_OK) + end(c),
    "the end of the connection": lambda c, k: b"",
    "half a header": lambda c, k: b"\1\0\0",
    **{f"message {n} full of ones": (lambda n: lambda c, k: message(c, n, HUGE) + end(c))(n) for n in range(1, 10)},
    **{f"message {n} full of zeros": (lambda n: lambda c, k: message(c, n, bytes(64)) + end(c))(n) for n in range(1, 10)},
    **{f"message {n}: a count of 4 billion": (lambda n: lambda c, k: message(c, n, struct.pack("<III", 1, 0xFFFFFFFF, 0)) + end(c))(n)
       for n in range(1, 10)},
    "started a hundred times": lambda c, k: started(c) * 100 + exited(c) + end(c),
    "ended and started again": lambda c, k: started(c) + exited(c) + started(c) + exited(c) + end(c),
    "ended and never started": lambda c, k: exited(c) + end(c),
    "output of what never started": lambda c, k: frame(DATA, c, b"z" * 1000, flags=1) * 3 + started(c)
                                                 + frame(DATA, c, b"z" * 1000, flags=1) + exited(c) + end(c),
    "an answer of each kind, twice": lambda c, k: b"".join(
        message(c, n, bytes(size)) * 2 for n in range(1, 10) for size in (0, 8, 37, 58)) + end(c),
    "a million entries": lambda c, k: message(c, 6, bytes(200)) * 2000 + end(c),
}


class Guest:
    """Answers BIND as it should (else nothing would follow), the rest with a lie."""

    def __init__(self, path, uid, gid):
        self.lie, self.stopped, self.told = None, False, 0
        os.unlink(path)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        os.chmod(path, 0o600)
        os.chown(path, uid, gid)
        self.listener.listen(64)
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while not self.stopped:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(s,), daemon=True).start()

    def serve(self, s):
        data = b""
        with s:
            try:
                while True:
                    while len(data) < 12 or len(data) < 12 + struct.unpack("<I", data[:4])[0]:
                        more = s.recv(65536)
                        if not more:
                            return
                        data += more
                    size, kind, _, _, channel = struct.unpack("<IBBHI", data[:12])
                    payload, data = data[12:12 + size], data[12 + size:]
                    if kind != OPEN:
                        continue
                    request = struct.unpack("<H", payload[:2])[0]
                    if request == BIND:
                        s.sendall(message(channel, MSG_OK) + end(channel))
                        continue
                    answer = self.lie(channel, request)
                    self.told += 1
                    s.sendall(answer)
                    if not answer or len(answer) < 12:
                        return
            except OSError:
                return

    def close(self):
        self.stopped = True
        self.listener.close()


@pytest.fixture(scope="module")
def scene():
    """A server, a sandbox whose guest is ours, and one that is honest."""
    with Server() as host:
        honest, box = host.create(timeout=3600), host.create(timeout=3600)
        path = os.path.join(host.state, "boxes", box["sandboxID"], "guest.sock")
        was = os.stat(path)
        guest = Guest(path, was.st_uid, was.st_gid)
        # The api holds a connection to the real one; a new api makes a new connection.
        os.kill(host.roles()["api"], signal.SIGKILL)
        time.sleep(0.2)
        host.wait_ready()
        yield host, honest, box, guest
        guest.close()


def memory(host):
    with open(f"/proc/{host.roles()['api']}/status", encoding="utf-8") as f:
        return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS:"))


def requests(host, box):
    """One of every kind; (what, Answer or the exception)."""
    start = b'{"process":{"cmd":"/bin/true"},"stdin":false}'
    framed = b"\0" + len(start).to_bytes(4, "big") + start
    stream = {**host.inside(box), "Content-Type": "application/connect+json"}
    asks = {
        "Stat": lambda: host.rpc(box, "filesystem.Filesystem/Stat", {"path": "/"}, timeout=15),
        "ListDir": lambda: host.rpc(box, "filesystem.Filesystem/ListDir", {"path": "/"}, timeout=15),
        "List": lambda: host.rpc(box, "process.Process/List", {}, timeout=15),
        "SendSignal": lambda: host.rpc(box, "process.Process/SendSignal",
                                       {"process": {"pid": 1}, "signal": "SIGNAL_SIGKILL"}, timeout=15),
        "CreateWatcher": lambda: host.rpc(box, "filesystem.Filesystem/CreateWatcher", {"path": "/"}, timeout=15),
        "Start": lambda: host.request("POST", "/process.Process/Start", framed,
                                      {**stream, "Connect-Timeout-Ms": "3000"}, key=None, timeout=15),
        **{f"exec {kind}": (lambda kind: lambda: host.request(
            "POST", f"/v1/sandboxes/{box['sandboxID']}/exec", {"argv": ["true"], "background": kind == "background"},
            {"Accept": kind if "/" in kind else "application/json"}, timeout=15))(kind)
           for kind in ("waited for", "background", "application/x-ndjson", "text/event-stream")},
        "v1 read": lambda: host.request("GET", f"/v1/sandboxes/{box['sandboxID']}/files?path=/x", timeout=15),
        "v1 write": lambda: host.request("PUT", f"/v1/sandboxes/{box['sandboxID']}/files?path=/x", b"data", timeout=15),
        "v1 list": lambda: host.request("GET", f"/v1/sandboxes/{box['sandboxID']}/files/list?path=/", timeout=15),
        "v1 processes": lambda: host.request("GET", f"/v1/sandboxes/{box['sandboxID']}/exec", timeout=15),
        "v1 port": lambda: host.request("GET", f"/v1/sandboxes/{box['sandboxID']}/ports/80", timeout=15),
        "a port": lambda: host.request("GET", "/", headers={"E2b-Sandbox-Id": box["sandboxID"], "E2b-Sandbox-Port": "8080"},
                                       key=None, timeout=15),
        "read": lambda: host.request("GET", "/files?path=/x", headers=host.inside(box), key=None, timeout=15),
        "write": lambda: host.request("POST", "/files?path=/x", b"data",
                                      host.inside(box, **{"Content-Type": "application/octet-stream"}), key=None, timeout=15),
    }
    for what, ask in asks.items():
        try:
            yield what, ask()
        except Exception as e:  # a closed connection is an answer too
            yield what, e


@pytest.mark.modes("root")  # the socket belongs to the api's own user
@pytest.mark.parametrize("name", LIES)
def test_a_guest_that_lies(scene, name):
    host, honest, box, guest = scene
    guest.lie, guest.told = LIES[name], 0
    role, before = host.roles()["api"], memory(host)
    for what, answer in requests(host, box):
        assert not isinstance(answer, TimeoutError), f"{what}: no answer"
        if not isinstance(answer, Exception):
            assert 200 <= answer.status < 600, what
    assert guest.told > 0, "nobody asked the guest"
    assert host.roles()["api"] == role, "the api died of it"
    assert memory(host) - before < 64 * MB
    assert host.run(honest, "echo well")[:2] == (0, b"well\n")
