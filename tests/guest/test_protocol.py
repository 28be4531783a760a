# SPDX-License-Identifier: Apache-2.0
"""Clients that break the rules: their connection ends, or their request is refused; no more."""
import errno
import os
import random
import struct
import time

import pytest

from guest_client import *
from test_processes import refused


def dies(c, *frames):
    for f in frames:
        c.frame(*f)
    with pytest.raises((ConnectionError, BrokenPipeError)):
        for _ in range(50):
            c.pump(2)
            c.ping()


@pytest.mark.parametrize("frame", [
    (MESSAGE, 0, 1, u16(1)),           # a channel that was never opened
    (DATA, 0, 7, b"x"),
    (CREDIT, 0, 2, u32(1)),
    (OPEN, 0, 2, u16(PING)),           # the guest's own numbers
    (OPEN, 0, 0, u16(PING)),
    (OPEN, 0, 1, b""),                 # no kind
    (9, 0, 1, b""),                    # no such frame
])
def test_a_broken_rule_ends_the_connection_only(guest, client, frame):
    dies(guest.connect(), frame)
    client.ping()


def test_numbers_only_grow(guest, client):
    dies(guest.connect(), (OPEN, 0, 5, u16(PING)), (OPEN, 0, 3, u16(PING)))
    client.ping()


def test_data_past_the_credit(guest, client):
    c = guest.connect()
    ch = c.start(["sleep", "5"], flags=STDIN)
    pid = ch.started()["pid"]
    i = c.open(INPUT, which(pid), end=False)
    i.may_send = 100 << 20
    with pytest.raises((ConnectionError, BrokenPipeError)):
        i.send(b"x" * (2 << 20))
        for _ in range(50):
            c.ping()
    client.signal(pid, 9)


def test_credit_from_nowhere(guest, client):
    c = guest.connect()
    ch = c.start(["sleep", "5"])
    pid = ch.started()["pid"]
    dies(c, (CREDIT, 0, ch.id, u32(1)))
    client.signal(pid, 9)


def test_lengths_that_lie(guest, client):
    c = guest.connect()
    c.s.sendall(struct.pack("<IBBHI", 0xffffffff, OPEN, 0, 0, 1))
    with pytest.raises((ConnectionError, BrokenPipeError)):
        for _ in range(10):
            c.pump(2)
    client.ping()


def test_malformed_requests_are_refused(client):
    for kind in range(1, 21):
        if kind in (PROCESSES, USAGE, PING, ENVS):
            body = b"surplus"
        else:
            body = b"\xff\xff\xff\xff"
        assert refused(client.open(kind, body).until_end).code == errno.EPROTO, kind
    assert refused(client.open(999, b"").until_end).code == errno.EOPNOTSUPP
    client.ping()


def test_noise(guest, client):
    rng = random.Random(7)
    for round_ in range(200):
        c = guest.connect()
        try:
            for _ in range(20):
                kind = rng.randrange(0, 7)
                payload = rng.randbytes(rng.choice([0, 2, 4, 9, 40, 300]))
                if kind == OPEN:
                    # Nothing that would start a program or touch files by chance.
                    payload = u16(rng.choice([BIND, ATTACH, INPUT, RESIZE, PORT, 99])) + payload
                c.frame(kind, rng.randrange(256), rng.choice([0, 1, 2, 3, 5, 7]), payload)
        except (ConnectionError, BrokenPipeError):
            pass
        c.close()
    client.bind()
    assert client.sh("echo fine")[0] == b"fine\n"


def test_too_many_connections(guest, client):
    others = []
    for _ in range(80):
        c = guest.connect()
        others.append(c)
    alive = 0
    for c in others:
        try:
            c.ping()
            alive += 1
        except (ConnectionError, BrokenPipeError):
            pass
    assert 40 <= alive <= 64
    client.ping()
    for c in others:
        c.close()
    time.sleep(0.2)
    guest.connect().ping()


def test_too_many_channels(client):
    ch = client.start(["sleep", "100"])
    pid = ch.started()["pid"]
    many = [client.open(ATTACH, which(pid) + u8(1) + u64(0) * 4, end=False) for _ in range(4200)]
    client.ping_failed = refused(client.ping)
    assert client.ping_failed.code == errno.EMFILE
    for m in many:
        m.send_end(errno.ECANCELED)
    client.signal(pid, 9)
    client.ping()


def test_a_client_that_never_reads(guest, client):
    deaf = guest.connect()
    deaf.s.settimeout(5)
    ping = struct.pack("<IBBHI", 2, OPEN, 0, 0, 0)
    try:
        for i in range(400000):
            deaf.s.sendall(struct.pack("<IBBHI", 2, OPEN, 0, 0, 2 * i + 1) + u16(USAGE if i % 64 == 0 else PING))
    except (ConnectionError, BrokenPipeError, TimeoutError):
        pass
    client.ping()
    with open(f"/proc/{guest.p.pid}/status") as f:
        rss = next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    assert rss < 32 << 10, "kB"
    assert ping


def test_memory_goes_back_when_idle(guest, client, tmp_path):
    data = os.urandom(30 << 20)
    client.write(str(tmp_path / "f"), data)
    assert client.read(str(tmp_path / "f")) == data
    for _ in range(20):
        client.sh("head -c 500000 /dev/zero")
    time.sleep(6.5)
    with open(f"/proc/{guest.p.pid}/smaps_rollup") as f:
        anon = next(int(line.split()[1]) for line in f if line.startswith("Pss_Anon"))
    # What is left beyond a few pages are the rings of remembered processes.
    assert anon < 20 * 500 + 400, "kB"


def test_usage(client):
    u = client.usage()
    assert u["cpu_count"] >= 1 and u["disk_total"] > u["disk_used"] > 0
    assert u["mem_used"] > 0 and u["mem_total"] > 0 and u["processes"] > 0 and u["cpu_us"] > 0
    time.sleep(0.3)
    assert client.usage()["idle_ms"] >= 200, "being measured is not being used"
    client.sh("true")
    assert client.usage()["idle_ms"] < 200
