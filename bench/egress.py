# SPDX-License-Identifier: Apache-2.0
"""The road's part of the benchmark: a large download and small requests, through it and its peers.

measure() makes a world of two network namespaces (tests/egress/world.py) with a server of our own
in one of them (bench/httpd), and asks from the other with bench/fetch: directly, from a box, through
tinyproxy, mitmproxy, slirp4netns. Every round takes each subject once, in a shuffled order.
"""
import dataclasses
import json
import os
import random
import shutil
import statistics
import subprocess
import sys

import harness
from served import Target

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests", "egress"))
import dns_server  # noqa: E402 (the path must be set first)
from world import World  # noqa: E402

NAME = "fast.test"
ADDRESS = dns_server.address_of(NAME)[0]
HTTP, HTTPS = 8081, 8444
TINYPROXY, MITMPROXY = 8888, 8889
SIZE = 200_000_000
SMALL, RATE, CONNECTIONS = 1000, 2000, 32
HELD = 2000
ROUNDS = 5

RULES = {  # of the boxes
    "pass": [{"hosts": [NAME], "ports": [HTTP, HTTPS], "protocols": ["tcp"]}],
    "hello": [{"hosts": [NAME], "ports": [HTTPS]}],
    "request": [{"hosts": [NAME], "ports": [HTTP, HTTPS], "methods": ["GET"]}],
}


@dataclasses.dataclass
class Subject:
    name: str
    about: str
    prefix: list       # what stands before bench/fetch
    options: list      # of bench/fetch
    is_tls: bool = False

    def url(self, path):
        scheme, port = ("https", HTTPS) if self.is_tls else ("http", HTTP)
        return f"{scheme}://{NAME}:{port}{path}"


class Bench(World):
    """A world with the server and the peers; they end with it."""

    def __init__(self, build, bawn):
        super().__init__()
        self.build_dir, self.bawn = build, bawn
        self.home = os.path.join(self.top, "home")
        self.env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": self.home, "BAWN_STATE_DIR": f"{self.home}/state"}
        # Not below /tmp or /var/tmp: a box has its own of these.
        self.tools = os.path.join("/usr/local/lib", os.path.basename(self.top))

    def __exit__(self, *_):
        super().__exit__()
        shutil.rmtree(self.tools, ignore_errors=True)

    def build(self):
        super().build()
        os.makedirs(self.tools)
        os.makedirs(self.home)
        shutil.copy(os.path.join(self.build_dir, "bench", "fetch"), self.tools)
        self.fetch = os.path.join(self.tools, "fetch")
        httpd = os.path.join(self.build_dir, "bench", "httpd")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.start([*self.inside(self.internet), httpd, str(HTTP), "0.0.0.0"], **quiet)
        self.start([*self.inside(self.internet), httpd, str(HTTPS), "0.0.0.0", f"{self.top}/web.pem"], **quiet)
        self.wait_port(HTTP)
        self.wait_port(HTTPS)
        self.start_peers(quiet)

    def start_peers(self, quiet):
        conf = os.path.join(self.top, "tinyproxy.conf")
        with open(conf, "w", encoding="ascii") as f:
            f.write(f"Port {TINYPROXY}\nListen 127.0.0.1\nAllow 127.0.0.1\nMaxClients 4000\nLogLevel Critical\n")
        self.start([*self.here(), "tinyproxy", "-d", "-c", conf], **quiet)
        self.start([*self.here(), "mitmdump", "-q", "--listen-host", "127.0.0.1", "-p", str(MITMPROXY),
                    "--set", f"confdir={self.top}/mitm", "--set", "stream_large_bodies=1m",
                    "--set", f"ssl_verify_upstream_trusted_ca={self.top}/ca.pem"], **quiet)
        for port in (TINYPROXY, MITMPROXY):
            self.wait_port(port, self.machine, "127.0.0.1")
        self.slirp = self.holder()
        ready_r, ready_w = os.pipe()
        self.start([*self.here(), "slirp4netns", "--configure", "--mtu=65520", f"--ready-fd={ready_w}",
                    str(self.slirp), "tap0"], pass_fds=[ready_w], **quiet)
        os.close(ready_w)
        if os.read(ready_r, 1) != b"1":
            raise harness.Failed("slirp4netns did not start")
        os.close(ready_r)

    def box(self, kind):
        path = os.path.join(self.home, f"{kind}.yaml")
        with open(path, "w", encoding="ascii") as f:
            f.write(json.dumps({"name": kind, "version": 1, "network": {"rules": RULES[kind]}}))
        # Inside, the name has an address that only egress knows the meaning of.
        script = f'fetch=$1; shift; exec "$fetch" -a $(getent ahosts {NAME} | sed -n "/^[0-9.]* /{{s/ .*//p;q}}") "$@"'
        return [*self.here(), self.bawn, "run", "--no-explain", "--profile", path, "--",
                "/bin/sh", "-c", script, "sh"]

    def subjects(self):
        direct, trust = ["-a", ADDRESS], ["-c", f"{self.top}/ca.pem"]
        mitm = [*direct, "-c", f"{self.top}/mitm/mitmproxy-ca-cert.pem", "-p", str(MITMPROXY)]
        slirp = self.inside(self.slirp)
        return [
            Subject("direct", "no road at all", self.here(), direct),
            Subject("bawn-pass", "from a box, by a `tcp` rule", self.box("pass"), []),
            Subject("bawn-http", "from a box, each request decided", self.box("request"), []),
            Subject("tinyproxy", "CONNECT", self.here(), [*direct, "-p", str(TINYPROXY)]),
            Subject("slirp4netns", "a user-mode network", slirp, direct),
            Subject("direct-tls", "no road at all", self.here(), [*direct, *trust], True),
            Subject("bawn-tls", "from a box, the hello read, then passed through", self.box("hello"), [], True),
            Subject("bawn-intercept", "from a box, each request decided inside TLS", self.box("request"), [], True),
            Subject("mitmproxy", "TLS ended, large bodies streamed", self.here(), mitm, True),
        ]

    def sample(self, subject, path, *what):
        done = subprocess.run([*subject.prefix, self.fetch, *subject.options, subject.url(path), *map(str, what)],
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, cwd=self.home,
                              env=self.env)
        if done.returncode != 0:
            raise harness.Failed(f"{subject.name} {what[0]}: {done.stderr.strip()[-400:]}")
        return float(done.stdout.split()[0])

    def held(self):
        """MiB of memory of the egress role that holds HELD connections of a box, each used once."""
        subject = Subject("held", "", self.box("pass"), [])
        p = subprocess.Popen([*subject.prefix, self.fetch, subject.url("/json"), "hold", str(HELD)], cwd=self.home,
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             env=self.env)
        try:
            if p.stdout.readline() != b"held\n":
                raise harness.Failed(f"{HELD} connections could not be held")
            return max(rss for rss in map(memory_of, egress_roles(p.pid)))
        finally:
            p.stdin.close()
            p.wait()


def egress_roles(pid):
    """The processes below pid that are the egress role."""
    found = []
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as f:
        for child in map(int, f.read().split()):
            with open(f"/proc/{child}/cmdline", "rb") as words:
                if b"role-egress" in words.read():
                    found.append(child)
            found += egress_roles(child)
    return found


def memory_of(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS:")) / 1024


@dataclasses.dataclass
class Part:
    rows: list     # (subject, {what: median})
    targets: list

    def page(self):
        lines = ["The road out (200 MB in one body; small requests one after the other on one connection; 32 "
                 "connections at the same time):", "",
                 "| what | MB/s | of direct | µs per small request | over direct | requests/s at 32 |",
                 "|---|---:|---:|---:|---:|---:|"]
        by_name = {s.name: m for s, m in self.rows}
        for subject, m in self.rows:
            base = by_name["direct-tls" if subject.is_tls else "direct"]
            lines.append(f"| `{subject.name}`: {subject.about} | {m['download']:.0f} "
                         f"| {m['download'] / base['download']:.2f} | {m['small']:.0f} "
                         f"| {m['small'] - base['small']:+.0f} | {m['rate']:.0f} |")
        lines += ["", "| target | measured | | |", "|---|---:|---:|---|", *(t.row() for t in self.targets)]
        return "\n".join(lines)

    def as_json(self):
        return {"rows": {s.name: m for s, m in self.rows},
                "targets": [dataclasses.asdict(t) | {"met": t.is_met()} for t in self.targets]}


def targets(median, held):
    direct, mitm = median["direct"], median["mitmproxy"]
    return [
        Target("pass-through, of direct throughput", median["bawn-pass"]["download"] / direct["download"], 0.5, is_least=True),
        Target("pass-through, added to a small request", (median["bawn-pass"]["small"] - direct["small"]) / 1000, 0.3, unit="ms"),
        Target("intercept, requests per second at 32 connections, of mitmproxy's",
               median["bawn-intercept"]["rate"] / mitm["rate"], 10, is_least=True),
        Target(f"{HELD} connections held, memory of the role", held, 64, unit="MiB"),
    ]


def measure(build, bawn, rounds, seed):
    order = random.Random(seed)
    with Bench(build, bawn) as world:
        subjects = world.subjects()
        samples = {s.name: {"download": [], "small": [], "rate": []} for s in subjects}
        for _ in range(min(rounds, ROUNDS)):
            for what, path, words in (("download", f"/bytes?n={SIZE}", ()), ("small", "/json", (SMALL,)),
                                      ("rate", "/json", (RATE, CONNECTIONS))):
                for subject in order.sample(subjects, len(subjects)):
                    samples[subject.name][what].append(world.sample(subject, path, what, *words))
        median = {name: {what: statistics.median(v) for what, v in kinds.items()} for name, kinds in samples.items()}
        return Part([(s, median[s.name]) for s in subjects], targets(median, world.held()))


if __name__ == "__main__":
    where = os.path.abspath(os.environ.get("BUILD", os.path.join(TOP, "build")))
    print(measure(where, os.environ.get("BAWN", os.path.join(where, "bawn")), ROUNDS, 1).page())
