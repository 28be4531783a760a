# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests of the road out: a world, a caller in its machine, boxes with rules.

Environment: BAWN (else build/bawn), BUILD, BAWN_MODE: "root" or "user" (the user BAWN_USER), as
everywhere. The world itself needs root. One world per run: a test looks at what it caused by a mark.
"""
import hashlib
import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
sys.path.insert(0, HERE)
from world import World  # noqa: E402 (the path must be set first)

BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(TOP, "build")))
BAWN = os.path.abspath(os.environ.get("BAWN", os.path.join(BUILD, "bawn")))
MODE = os.environ.get("BAWN_MODE", "root")
CACHE = os.path.join(TOP, ".cache", "egress")
PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
PROXIES = [f"{name}_{end}" for name in ("http", "https", "all", "no") for end in ("proxy",)]
PROXIES += [name.upper() for name in PROXIES]
BARE = ["/usr/bin/env", *(word for name in PROXIES for word in ("-u", name))]  # without proxy variables


@pytest.fixture(scope="session")
def world():
    with World() as made:
        yield made


@pytest.fixture(scope="session")
def postgres(world):
    world.postgres()


@pytest.fixture(scope="session")
def ssh_key(world):
    return world.ssh()


class Caller:
    """As whom bawn runs, in the machine of the world."""

    def __init__(self, world):
        self.world, self.prefix, self.uid, self.gid = world, world.here(), 0, 0
        if MODE == "user":
            entry = pwd.getpwnam(os.environ.get("BAWN_USER", "bawn-test"))
            self.uid, self.gid = entry.pw_uid, entry.pw_gid
            self.prefix = [*self.prefix, "/usr/bin/setpriv", f"--reuid={self.uid}",
                           f"--regid={self.gid}", "--init-groups"]
        # Not below /tmp or /var/tmp: the box has its own of these.
        self.top = tempfile.mkdtemp(prefix="bawn-egress.", dir="/home")
        os.chmod(self.top, 0o755)
        self.home = self.directory("home")
        self.env = {"PATH": PATH, "HOME": self.home, "LANG": "C.UTF-8", "BAWN_STATE_DIR": self.directory("state"),
                    **{k: os.environ[k] for k in ("ASAN_OPTIONS", "UBSAN_OPTIONS") if k in os.environ}}

    def directory(self, name):
        path = os.path.join(self.top, name)
        os.mkdir(path, 0o755)
        os.chown(path, self.uid, self.gid)
        return path

    def own(self, path):
        os.chown(path, self.uid, self.gid)
        return path

    def __call__(self, *argv, cwd=None, timeout=60, env=None, **more):
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        cwd = cwd or self.home
        # nsenter changes to a directory of the namespace; we give it by name.
        prefix = [f"--wdns={cwd}" if word.startswith("--wdns=") else word for word in self.prefix]
        return subprocess.run([*prefix, *map(str, argv)], env={**self.env, **(env or {})}, text=True,
                              errors="backslashreplace", timeout=timeout, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, **more)


@pytest.fixture(scope="session")
def caller(world):
    made = Caller(world)
    yield made
    shutil.rmtree(made.top, ignore_errors=True)


@pytest.fixture
def work(caller):
    """A fresh directory of the caller; what runs in a box starts in it and may write to it."""
    path = tempfile.mkdtemp(prefix="work.", dir=caller.top)
    os.chmod(path, 0o755)
    caller.own(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def clients(caller):
    """The directory of the client programs, compiled; kept in .cache by the content of their sources."""
    source, digest = os.path.join(HERE, "clients"), hashlib.sha256()
    for name in sorted(os.listdir(source)):
        with open(os.path.join(source, name), "rb") as f:
            digest.update(f.read())
    kept = os.path.join(CACHE, digest.hexdigest()[:16])
    if not os.path.isdir(kept):
        os.makedirs(CACHE, exist_ok=True)
        made = tempfile.mkdtemp(dir=CACHE)
        env = {**os.environ, "GOCACHE": os.path.join(CACHE, "go"), "GOFLAGS": "-mod=mod", "CGO_ENABLED": "0",
               "GOTOOLCHAIN": "local", "GO111MODULE": "off"}
        for name in ("fetch.py", "fetch.mjs", "trick.py"):
            shutil.copy(os.path.join(source, name), made)
        subprocess.run(["go", "build", "-o", f"{made}/fetch-go", os.path.join(source, "fetch.go")],
                       check=True, env=env)
        subprocess.run(["javac", "-d", made, os.path.join(source, "Fetch.java")], check=True)
        os.rename(made, kept)
    there = os.path.join(caller.top, "clients")
    shutil.copytree(kept, there)
    subprocess.run(["chmod", "-R", "a+rX", there], check=True)
    return there


class Result:
    """What a box printed and how it ended; `violations` of the road, as --json has them."""

    def __init__(self, done):
        self.status, self.out, self.err = done.returncode, done.stdout, done.stderr

    def __repr__(self):
        return f"status {self.status}\n--- out\n{self.out[-3000:]}\n--- err\n{self.err[-3000:]}"


class Box:
    """box("--allow", "api.test", "--", "curl", …) is one `bawn run` in the machine."""

    def __init__(self, caller, clients, work):
        self.caller, self.clients, self.work = caller, clients, work

    def __call__(self, *words, **more):
        return Result(self.caller(BAWN, "run", *words, cwd=self.work, **more))

    def json(self, *words, **more):
        """(Result, the object that --json wrote)."""
        path = os.path.join(self.work, "result.json")
        done = self(f"--json={path}", *words, **more)
        assert os.path.exists(path), done
        with open(path, encoding="utf-8") as f:
            return done, json.load(f)

    def copy(self, path, name):
        """A file for the box alone, in its working directory; the new path."""
        there = os.path.join(self.work, name)
        shutil.copy(path, there)
        os.chmod(there, 0o600)
        return self.caller.own(there)

    def profile(self, rules, **network):
        """A profile with these rules in the working directory; its path."""
        path = os.path.join(self.work, "profile.yaml")
        with open(path, "w", encoding="ascii") as f:
            # YAML reads JSON.
            f.write(json.dumps({"name": "test", "version": 1, "network": {"rules": rules, **network}}, indent=1))
        self.caller.own(path)
        return path


@pytest.fixture
def box(caller, clients, work):
    return Box(caller, clients, work)
