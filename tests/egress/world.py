# SPDX-License-Identifier: Apache-2.0
"""A world of two network namespaces: a machine (where bawn runs), and the internet it sees.

  the machine 80.1.1.1, 2a01:4f8::1  --veth-- 80.1.1.2  the internet: 93.184.216.0/24 and 2606:2800:220:1::/64,
                                              and every private network, so that a leak is answered
The neighbours are fixed, so the wire is silent unless somebody sends. In the machine, the
world's authority is the only one that is trusted and 93.184.216.53 is in /etc/resolv.conf. Needs root.

As a program it makes a world and runs a command in the machine: world.py COMMAND...
"""
import json
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import capture
import certificates
import registry

HERE = os.path.dirname(os.path.abspath(__file__))
RESOLVER = "93.184.216.53"
METADATA = "169.254.169.254"
HOST4, HOST6 = "80.1.1.1", "2a01:4f8::1"
LOCAL4 = ("93.184.216.0/24", "8.8.8.0/24", "1.1.1.0/24", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16",
          "100.64.0.0/10", "169.254.0.0/16", "198.18.0.0/15")
LOCAL6 = ("2606:2800:220:1::/64", "fd00::/8", "64:ff9b::/96", "2002::/16", "2001:4860:4860::/48")
MAC = {"machine": "02:00:00:00:00:01", "internet": "02:00:00:00:00:02"}


class World:
    resolver = RESOLVER

    def __init__(self):
        # Not below /tmp: a box has one of its own.
        self.top = tempfile.mkdtemp(prefix="bawn-world.", dir="/var/tmp")
        os.chmod(self.top, 0o755)
        self.processes, self.capture, self.control = [], None, None

    # ---- life ----------------------------------------------------------------------------------

    def __enter__(self):
        try:
            self.build()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        if self.control:
            self.control.close()
        if self.capture:
            self.capture.close()
        for p in reversed(self.processes):
            if p.stdin:
                p.stdin.close()  # what holds a namespace, and the servers, end by this
            else:
                p.terminate()
        for p in self.processes:
            try:
                p.wait(10)
            except subprocess.TimeoutExpired:
                p.kill()
                p.wait()
        shutil.rmtree(self.top, ignore_errors=True)

    def build(self):
        certificates.make(self.top)
        self.repositories = os.path.join(self.top, "repositories")
        os.mkdir(self.repositories)
        registry.make_repositories(self.repositories)
        self.machine = self.holder()
        self.internet = self.holder()
        self.connect()
        self.capture = capture.Capture(self.network(self.machine), "wire")
        servers = self.start([*self.inside(self.internet), "/usr/bin/python3",
                              os.path.join(HERE, "internet.py"), self.top],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if servers.stdout.readline() != b"ready\n":
            raise RuntimeError("the servers of the world did not start")
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(os.path.join(self.top, "control"))
        self.answers = self.control.makefile("r", encoding="utf-8")

    def start(self, argv, **more):
        p = subprocess.Popen(argv, **more)
        self.processes.append(p)
        return p

    def holder(self):
        """A process that keeps a network and a mount namespace for as long as we live."""
        script = "mount --make-rprivate / && echo ready && exec cat"
        p = self.start(["/usr/bin/unshare", "--net", "--mount", "/bin/sh", "-c", script],
                       stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if p.stdout.readline() != b"ready\n":
            raise RuntimeError("no namespace")
        return p.pid

    @staticmethod
    def network(pid):
        return f"/proc/{pid}/ns/net"

    def inside(self, pid):
        return ["/usr/bin/nsenter", f"--net={self.network(pid)}", f"--mount=/proc/{pid}/ns/mnt",
                f"--wdns={os.getcwd()}", "--"]

    def here(self):
        """The words in front of a command that is to run in the machine."""
        return self.inside(self.machine)

    # ---- how it is made ------------------------------------------------------------------------

    def ip(self, pid, *lines):
        subprocess.run([*self.inside(pid), "/usr/sbin/ip", "-batch", "-"], input="\n".join(lines),
                       text=True, check=True, capture_output=True)

    def connect(self):
        quiet = ("net.ipv6.conf.default.accept_ra=0", "net.ipv6.conf.default.accept_dad=0",
                 "net.ipv6.conf.default.addr_gen_mode=1", "net.ipv6.conf.all.forwarding=0")
        for pid in (self.machine, self.internet):
            subprocess.run([*self.inside(pid), "/usr/sbin/sysctl", "-q", "-w", *quiet], check=True)
        self.ip(self.machine, "link set lo up",
                f"link add wire address {MAC['machine']} type veth peer name wire address {MAC['internet']} netns {self.internet}",
                "link set wire up", f"addr add {HOST4}/30 dev wire", f"addr add {HOST6}/64 dev wire nodad",
                f"neigh add 80.1.1.2 lladdr {MAC['internet']} dev wire nud permanent",
                f"neigh add 2a01:4f8::2 lladdr {MAC['internet']} dev wire nud permanent",
                "route add default via 80.1.1.2", "route add default via 2a01:4f8::2")
        self.ip(self.internet, "link set lo up", "link set wire up", "addr add 80.1.1.2/30 dev wire",
                "addr add 2a01:4f8::2/64 dev wire nodad",
                f"neigh add {HOST4} lladdr {MAC['machine']} dev wire nud permanent",
                f"neigh add {HOST6} lladdr {MAC['machine']} dev wire nud permanent",
                *(f"route add local {net} dev lo" for net in LOCAL4 + LOCAL6))
        resolv = os.path.join(self.top, "resolv.conf")
        with open(resolv, "w", encoding="ascii") as f:
            f.write(f"nameserver {RESOLVER}\n")
        over = (f"mount --bind {self.top}/certs /etc/ssl/certs && "
                f"mount --bind {resolv} $(readlink -f /etc/resolv.conf)")
        subprocess.run([*self.here(), "/bin/sh", "-c", over], check=True)

    # ---- more servers, started by the tests that want them ---------------------------------------

    def postgres(self):
        """A cluster of its own on port 5432 of every address; user agent, database work."""
        entry, data = pwd.getpwnam("postgres"), os.path.join(self.top, "pg")
        programs = f"/usr/lib/postgresql/{max(os.listdir('/usr/lib/postgresql'), key=float)}/bin"
        os.mkdir(data, 0o700)
        os.chown(data, entry.pw_uid, entry.pw_gid)
        as_user = ["/usr/bin/setpriv", f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
        subprocess.run([*as_user, f"{programs}/initdb", "-D", data, "-U", "agent", "-A", "trust", "--no-sync",
                        "--locale=C.UTF-8"], check=True, capture_output=True, cwd="/")
        with open(os.path.join(data, "pg_hba.conf"), "a", encoding="ascii") as f:
            f.write("host all all 0.0.0.0/0 trust\nhost all all ::/0 trust\n")
        self.start([*self.inside(self.internet), *as_user, "--pdeathsig", "INT", f"{programs}/postgres",
                    "-D", data, "-h", "*", "-k", "", "-c", "fsync=off"],
                   cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.wait_port(5432)

    def ssh(self):
        """dropbear on port 22; returns the path of a private key that it accepts for root."""
        home = os.path.join(self.top, "ssh")
        os.makedirs(os.path.join(home, ".ssh"), 0o700)
        key, host = os.path.join(home, "id"), os.path.join(home, "host")
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
        subprocess.run(["dropbearkey", "-t", "ed25519", "-f", host], check=True, capture_output=True)
        shutil.copy(key + ".pub", os.path.join(home, ".ssh", "authorized_keys"))
        os.chmod(os.path.join(home, ".ssh", "authorized_keys"), 0o600)
        # It looks for keys below the home directory of the account: in its mounts, that is ours.
        subprocess.run([*self.inside(self.internet), "mount", "--bind", home, "/root"], check=True)
        self.start([*self.inside(self.internet), "/usr/bin/setpriv", "--pdeathsig", "TERM",
                    "/usr/sbin/dropbear", "-F", "-s", "-r", host, "-p", "22", "-P", os.path.join(home, "pid")],
                   stderr=subprocess.DEVNULL)
        self.wait_port(22)
        return key

    def wait_port(self, port, pid=None, address="80.1.1.2"):
        end = time.monotonic() + 20
        while True:
            try:
                capture.in_namespace(self.network(pid or self.internet),
                                     lambda: socket.create_connection((address, port), 1).close())
                return
            except OSError:
                if time.monotonic() > end:
                    raise
                time.sleep(0.05)  # nothing tells us when it listens

    # ---- asking it -----------------------------------------------------------------------------

    def ask(self, **what):
        self.control.sendall(json.dumps(what).encode() + b"\n")
        return json.loads(self.answers.readline())

    def zone(self, name, *steps):
        """What the name server says about a name from now on; see dns_server.py."""
        self.ask(op="zone", name=name, steps=steps)

    def log(self, since=0, kind=None):
        return [e for e in self.ask(op="log", since=since) if kind in (None, e["kind"])]

    def mark(self):
        return Mark(self)


class Mark:
    """A moment; what has reached the wire and the servers since then."""

    def __init__(self, world):
        self.world, self.entry, self.packet = world, len(world.log()), world.capture.mark()

    def packets(self):
        return self.world.capture.since(self.packet)

    def log(self, kind=None):
        return self.world.log(self.entry, kind)


if __name__ == "__main__":
    with World() as made:
        sys.exit(subprocess.run([*made.here(), *(sys.argv[1:] or ["/bin/bash"])]).returncode)
