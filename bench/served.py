# SPDX-License-Identifier: Apache-2.0
"""The server's part of the benchmark: a life through the API, an exec, files, small requests.

measure() starts a server of its own and returns a Part: rows and verdicts for the page. The
clock is bench/spawn with bench/api, so no interpreter is part of a sample; only the transfer of
large files is timed here, where the kernel does the work.
"""
import dataclasses
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

import harness
from harness import Subject

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "tools"))
from server import Server  # noqa: E402 (the path must be set first)

MB = 1 << 20
FILE_SIZE = 256 * MB
TRANSFERS = 5
RATE = (5, 80, 8)  # samples, lives in each, at the same time
OPTIONS = ["--disk", "2G", "--max-sandboxes", "500"]
AHEAD = ["nice", "-n", "-15"]
IDLE = 50          # sandboxes whose memory is looked at
WRK_S = 5


@dataclasses.dataclass
class Target:
    text: str
    value: float
    limit: float
    is_least: bool = False  # the limit is a least, not a most
    unit: str = ""

    def is_met(self):
        return self.value >= self.limit if self.is_least else self.value <= self.limit

    def row(self):
        bound = "at least" if self.is_least else "at most"
        return (f"| {self.text} | {self.value:.2f} {self.unit} | {bound} {self.limit:g} {self.unit} "
                f"| {'met' if self.is_met() else 'missed'} |")


@dataclasses.dataclass
class Part:
    results: list  # Result, one life or one exec each
    rates: list    # (name, lives per second)
    targets: list
    notes: list

    def page(self):
        lines = ["Through the server:", "", harness.table(self.results, "bwrap"), "",
                 f"| {RATE[2]} in flight | lives per second |", "|---|---:|"]
        lines += [f"| `{name}` | {rate:.0f} |" for name, rate in self.rates]
        lines += ["", "| target | measured | | |", "|---|---:|---:|---|"]
        lines += [t.row() for t in self.targets]
        return "\n".join(lines + [""] + self.notes)

    def as_json(self):
        return {"results": [r.as_json() for r in self.results], "rates": dict(self.rates),
                "targets": [dataclasses.asdict(t) | {"met": t.is_met()} for t in self.targets]}


def environment(server, box):
    return {"API_PORT": str(server.port), "API_KEY": server.key, "API_BOX": box["sandboxID"],
            "API_TOKEN": box["envdAccessToken"]}


def subjects(others):
    """Ours beside the rows of the other table that make sense here."""
    ours = [
        Subject("api-life", "create, start, first byte of output", ["api:life"]),
        Subject("api-whole", "the same, and kill", ["api:whole"]),
        Subject("api-exec", "`true` in a sandbox that is up", ["api:exec"]),
    ]
    return [s for s in others if s.name in ("plain", "bwrap", "runc")] + ours


def rates(spawn, rows, env, seed):
    samples, each, flight = RATE
    chosen = [s for s in rows if s.name in ("bwrap", "api-whole")]
    results = harness.measure(spawn, chosen, f"{samples}x{each}x{flight}", 1, seed, env)
    return [(r.subject.name, each / (r.median / 1000)) for r in results]


def cold_rate(spawn, rows, seed):
    """Lives per second of a server that keeps nothing ready."""
    with Server(options=OPTIONS + ["--spares", "0"], prefix=AHEAD) as server:
        env = environment(server, server.create(timeout=3600))
        return [(f"{name}, --spares 0" if name == "api-whole" else f"{name}, once more", rate)
                for name, rate in rates(spawn, rows, env, seed)]


def head(server, box, method, path, *fields):
    lines = [f"{method} {path} HTTP/1.1", "Host: x", *fields]
    lines += [f"{k}: {v}" for k, v in server.inside(box).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n"


def upload(server, box, data):
    """MB per second of one upload, acknowledged."""
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        started = time.perf_counter()
        s.sendall(head(server, box, "POST", "/files?path=/home/user/big", "Content-Type: application/octet-stream",
                       f"Content-Length: {len(data)}"))
        s.sendall(data)
        said = s.recv(4096)
        if not said.startswith(b"HTTP/1.1 200"):
            raise harness.Failed(f"upload: {said[:300]!r}")
        return len(data) / MB / (time.perf_counter() - started)


def download(server, box, size):
    room = memoryview(bytearray(4 * MB))
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        started = time.perf_counter()
        s.sendall(head(server, box, "GET", "/files?path=/home/user/big", "Connection: close"))
        got = 0
        while n := s.recv_into(room):
            if got == 0 and not bytes(room[:12]) == b"HTTP/1.1 200":
                raise harness.Failed(f"download: {bytes(room[:200])!r}")
            got += n
        if got < size:
            raise harness.Failed(f"download: {got} bytes")
        return size / MB / (time.perf_counter() - started)


def transfers(server, box):
    """Medians (up, down), interleaved."""
    data, up, down = memoryview(os.urandom(MB) * (FILE_SIZE // MB)), [], []
    for _ in range(TRANSFERS):
        up.append(upload(server, box, data))
        down.append(download(server, box, len(data)))
    return statistics.median(up), statistics.median(down)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def small_requests(server, path):
    """Requests per second of one core: what wrk counted over the processor time of the api."""
    api = server.roles()["api"]
    before = cpu_seconds(api)
    done = subprocess.run(["wrk", "-t1", "-c16", f"-d{WRK_S}s", "-H", f"X-API-KEY: {server.key}", server.url + path],
                          capture_output=True, text=True, check=True)
    used = cpu_seconds(api) - before
    count = int(re.search(r"(\d+) requests in", done.stdout).group(1))
    if re.search(r"Non-2xx", done.stdout):
        raise harness.Failed(f"wrk {path}: {done.stdout}")
    return count / used, count / WRK_S


def idle_pss(server):
    """Bytes of PSS of pid 1 and guest of a sandbox that does nothing, on average."""
    boxes = {server.create(timeout=600)["sandboxID"] for _ in range(IDLE)}
    total = 0
    for one, pids in server.processes().items():
        for pid in pids if one in boxes else ():
            with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
                total += next(int(line.split()[1]) for line in f if line.startswith("Pss:")) * 1024
    for one in boxes:
        server.request("DELETE", f"/sandboxes/{one}")
    return total / len(boxes)


def measure(spawn, others, rounds, seed):
    # Ahead of whatever else the machine does, as harness.measure() runs the others.
    with Server(options=OPTIONS, prefix=AHEAD) as server:
        box = server.create(timeout=3600)
        env, rows = environment(server, box), subjects(others)
        results = harness.measure(spawn, rows, rounds, 10, seed, env)
        median = {r.subject.name: r.median for r in results}
        rate = rates(spawn, rows, env, seed)
        up, down = transfers(server, box)
        targets = [
            Target("create to first output, of bwrap's whole life", median["api-life"] / median["bwrap"], 1.0),
            Target("exec of `true` over fork and exec", median["api-exec"] - median["plain"], 1.5, unit="ms"),
            Target("lives per second, of bwrap's", dict(rate)["api-whole"] / dict(rate)["bwrap"], 1.0, is_least=True),
            Target("upload", up, 400, is_least=True, unit="MB/s"),
            Target("download", down, 400, is_least=True, unit="MB/s"),
            Target("idle sandbox, PSS", idle_pss(server) / MB, 1.0, unit="MiB"),
        ]
        notes = []
        if shutil.which("wrk"):
            per_core, per_second = small_requests(server, f"/sandboxes/{box['sandboxID']}")
            targets.append(Target("small JSON requests, per second of one core", per_core, 50_000, is_least=True))
            notes.append(f"`wrk` with 16 connections on the same machine: {per_second:.0f} requests per second.")
        part = Part(results, rate, targets, notes)
    part.rates += cold_rate(spawn, rows, seed)
    return part
