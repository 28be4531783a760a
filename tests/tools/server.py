# SPDX-License-Identifier: Apache-2.0
"""A server of our own for the tests and benchmarks that drive it from outside.

Server starts `bawn serve` with a state directory of its own on a free port of the loopback,
makes a key, knows its roles by pid, and ends it with everything it made. BAWN names the
program (else build/bawn). Nothing here knows the tests.
"""
import base64
import http.client
import json
import os
import pwd
import re
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(TOP, "build")))
BAWN = os.path.abspath(os.environ.get("BAWN", os.path.join(BUILD, "bawn")))
TEST_USER = os.environ.get("BAWN_USER", "bawn-test")
PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
READY_S = 20


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def processes_by_leaf():
    """{leaf: pids} of every sandbox on this machine, whoever made it."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup", encoding="ascii") as f:
                leaf = re.search(r"bawn-box-[a-z0-9]+", f.read())
        except OSError:
            continue  # it has ended meanwhile
        if leaf:
            found.setdefault(leaf.group(0), []).append(int(pid))
    return found


class Answer:
    """One answer of the server, read to its end."""

    def __init__(self, response):
        self.status, self.headers, self.body = response.status, response.headers, response.read()

    def json(self):
        return json.loads(self.body)


class Server:
    """mode: "root", or "user" for the unprivileged user of the tests. options: words for serve."""

    def __init__(self, mode=None, options=(), top=None, log=None, prefix=()):
        self.mode = mode or os.environ.get("BAWN_MODE", "root" if os.geteuid() == 0 else "user")
        self.options = list(options)
        self.owns_top = top is None
        # Not below /tmp: a sandbox has one of its own, and paths there would mean two things.
        self.top = top or tempfile.mkdtemp(prefix="bawn-server.", dir="/var/tmp")
        os.chmod(self.top, 0o755)
        self.state = os.path.join(self.top, "state")
        self.log_path = log or os.path.join(self.top, "log")
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.prefix, self.home = list(prefix), self.top
        if self.mode == "user" and os.geteuid() == 0:
            entry = pwd.getpwnam(TEST_USER)
            os.chown(self.top, entry.pw_uid, entry.pw_gid)
            self.prefix += ["/usr/bin/setpriv", f"--reuid={entry.pw_uid}",
                           f"--regid={entry.pw_gid}", "--init-groups"]
        self.process = None
        self.key = None
        self.is_listen_by_config = False

    # ---- life ----------------------------------------------------------------------------------

    def environment(self):
        env = {"PATH": PATH, "HOME": self.home, "LANG": "C.UTF-8"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        return env

    def sdk_environment(self):
        return {"E2B_API_KEY": self.key, "E2B_API_URL": self.url, "E2B_SANDBOX_URL": self.url}

    def start(self):
        """Start it and wait until it answers; a second start after stop() or a kill is fine."""
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, BAWN, "serve", "--state", self.state, *self.listen(), *self.options],
                env=self.environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.wait_ready()
        if self.key is None:
            self.key = self.make_key()
        return self

    def listen(self):
        return [] if self.is_listen_by_config else ["--listen", f"127.0.0.1:{self.port}"]

    def wait_ready(self, seconds=READY_S):
        end = time.monotonic() + seconds
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"serve ended with {self.process.returncode}: {self.log()[-2000:]}")
            try:
                if self.request("GET", "/health", key=None, timeout=2).status != 503:
                    return
            except (OSError, http.client.HTTPException):
                pass
            if time.monotonic() > end:
                raise RuntimeError(f"serve does not answer: {self.log()[-2000:]}")
            time.sleep(0.02)  # nothing tells us when it listens

    def bawn(self, *args, **more):
        """`bawn ARGS` as the user of the server; a CompletedProcess."""
        more.setdefault("timeout", 60)
        return subprocess.run([*self.prefix, BAWN, *map(str, args)], env=self.environment(),
                              capture_output=True, text=True, stdin=subprocess.DEVNULL, **more)

    def make_key(self, tenant=None):
        extra = ["--tenant", tenant] if tenant else []
        done = self.bawn("key", "create", "--state", self.state, "--json", *extra)
        if done.returncode != 0:
            raise RuntimeError(f"bawn key create: {done.stderr}")
        return json.loads(done.stdout)["key"]

    def stop(self, number=signal.SIGTERM, seconds=20):
        """End the server; its sandboxes stay up (without --kill-on-exit)."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(number)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def destroy(self):
        """End the server and every sandbox it left, remove its directory."""
        try:
            self.stop()
            boxes = os.path.join(self.state, "boxes")
            if os.path.isdir(boxes) and os.listdir(boxes):
                # A server with none of the test's options: they may be what was tested.
                last = Server(self.mode, ["--kill-on-exit"], self.top, self.log_path)
                last.key = self.key
                last.start().stop(seconds=90)
        finally:
            if self.process is not None and self.process.poll() is None:
                self.process.kill()
                self.process.wait()
            if self.owns_top:
                shutil.rmtree(self.top, ignore_errors=True)

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.destroy()

    # ---- what it is made of ----------------------------------------------------------------------

    def log(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as f:
            return f.read()

    def crashes(self):
        """Lines that say a role ended by its own fault: a bad signal, or a sanitizer's status."""
        return [line for line in self.log().splitlines()
                if re.search(r"event\W+ended.*(signal\W+(4|6|7|8|11|31)\b|status\W+98\b)", line)
                or "ERROR: AddressSanitizer" in line or "runtime error:" in line]

    def roles(self):
        """{"api": pid, "warden": pid}: the children of the supervisor that are up now."""
        found = {}
        try:
            with open(f"/proc/{self.process.pid}/task/{self.process.pid}/children",
                      encoding="ascii") as f:
                pids = [int(word) for word in f.read().split()]
        except OSError:
            return found
        for pid in pids:
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as f:
                    words = f.read().split(b"\0")
                # Pid 1 of a box was forked from a warden and comes to us when that one dies.
                if os.readlink(f"/proc/{pid}/ns/pid") != os.readlink("/proc/self/ns/pid"):
                    continue
            except OSError:
                continue
            for word in words[:3]:
                if word.startswith(b"role-"):
                    found[word[5:].decode()] = pid
        return found

    def leaves(self):
        """{id: name of its cgroup leaf}, as the warden has it on record. A sandbox that was kept
        ready before anybody asked for it keeps the name it was made under."""
        found, top = {}, os.path.join(self.state, "boxes")
        for one in os.listdir(top):
            try:
                with open(os.path.join(top, one, "record"), encoding="utf-8") as f:
                    found[one] = next(line.split()[1] for line in f if line.startswith("cgroup "))
            except (OSError, StopIteration):
                continue  # not a sandbox yet, or no more
        return found

    def processes(self):
        """{id: pids} of what runs in each sandbox."""
        inside, found = processes_by_leaf(), self.leaves()
        return {one: inside.get(leaf, []) for one, leaf in found.items()}

    # ---- asking it -----------------------------------------------------------------------------

    def request(self, method, path, body=None, headers=None, key="", timeout=30):
        """One request on a connection of its own; key "" is the server's own, None is none."""
        headers = dict(headers or {})
        if key is not None:
            headers.setdefault("X-API-KEY", key or self.key or "")
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            connection.request(method, path, body, headers)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def list(self):
        """Every sandbox of our tenant, all pages."""
        found, token = [], None
        while True:
            answer = self.request("GET", "/v2/sandboxes" + (f"?nextToken={token}" if token else ""))
            if answer.status != 200:
                raise RuntimeError(f"list: {answer.status} {answer.body[:300]}")
            found += answer.json()
            token = answer.headers.get("X-Next-Token")
            if not token:
                return found

    def create(self, timeout=300, **more):
        answer = self.request("POST", "/v2/sandboxes",
                              {"templateID": "base", "timeout": timeout, **more})
        if answer.status != 201:
            raise RuntimeError(f"create: {answer.status} {answer.body[:300]}")
        return answer.json()

    @staticmethod
    def inside(sandbox, **more):
        """The headers that lead to a sandbox's envd."""
        headers = {"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": "49983", **more}
        if sandbox.get("envdAccessToken"):
            headers["X-Access-Token"] = sandbox["envdAccessToken"]
        return headers

    def rpc(self, sandbox, method, message, timeout=30):
        """A unary call, such as rpc(s, "filesystem.Filesystem/Stat", {"path": "/"})."""
        headers = self.inside(sandbox, **{"Connect-Protocol-Version": "1"})
        return self.request("POST", f"/{method}", message, headers, key=None, timeout=timeout)

    def run(self, sandbox, command, timeout=60, **process):
        """`bash -l -c command` inside; (exit code, stdout, stderr)."""
        message = {"process": {"cmd": "/bin/bash", "args": ["-l", "-c", command], **process},
                   "stdin": False}
        payload = json.dumps(message).encode()
        frame = b"\0" + len(payload).to_bytes(4, "big") + payload
        headers = self.inside(sandbox, **{"Connect-Protocol-Version": "1",
                                          "Content-Type": "application/connect+json"})
        answer = self.request("POST", "/process.Process/Start", frame, headers, key=None,
                              timeout=timeout)
        if answer.status != 200:
            raise RuntimeError(f"Start: {answer.status} {answer.body[:300]}")
        return collect(answer.body)


def frames(body):
    """(flags, message) of each Connect frame."""
    while body:
        size = int.from_bytes(body[1:5], "big")
        yield body[0], json.loads(body[5:5 + size])
        body = body[5 + size:]


def collect(body):
    """What a stream of process events amounts to: (exit code, stdout, stderr)."""
    out, code = {"stdout": b"", "stderr": b"", "pty": b""}, None
    for flags, message in frames(body):
        if flags & 2:
            if "error" in message:
                raise RuntimeError(f"stream ended: {message['error']}")
            continue
        event = message.get("event", {})
        for stream, data in event.get("data", {}).items():
            out[stream] += base64.b64decode(data)
        if "end" in event:
            code = event["end"].get("exitCode", 0)
    return code, out["stdout"] + out["pty"], out["stderr"]
