# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that drive the program from outside.

Environment: BAWN (else build/bawn), BUILD (its directory), BAWN_MODE: as whom it runs,
  root    as root (the default when we are root)
  user    as the unprivileged user BAWN_USER (bawn-test), or as ourselves if not root
  userns  as root of a user namespace: `unshare -r`
A test that means something in some modes only says so: @pytest.mark.modes("root", "user").
It is then left out of the others, not skipped: a skip is a failure in CI.
"""
import json
import os
import pwd
import shutil
import subprocess
import tempfile

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.abspath(os.environ.get("BUILD", os.path.join(TOP, "build")))
BAWN = os.path.abspath(os.environ.get("BAWN", os.path.join(BUILD, "bawn")))
MODE = os.environ.get("BAWN_MODE", "root" if os.geteuid() == 0 else "user")
PATH = "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def pytest_configure(config):
    config.addinivalue_line("markers", "modes(*names): run in these modes only")


def pytest_collection_modifyitems(config, items):
    kept, dropped = [], []
    for item in items:
        marks = [m.args for m in item.iter_markers("modes")]
        (kept if all(MODE in names for names in marks) else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


class Caller:
    """As whom commands run, and with what environment."""

    def __init__(self):
        self.prefix, self.uid, self.gid, self.home = [], os.getuid(), os.getgid(), ""
        if MODE == "user" and os.geteuid() == 0:
            entry = pwd.getpwnam(os.environ.get("BAWN_USER", "bawn-test"))
            self.uid, self.gid = entry.pw_uid, entry.pw_gid
            self.prefix = [
                "/usr/bin/setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups",
            ]
        elif MODE == "userns":
            self.prefix = ["/usr/bin/unshare", "-r", "--"]

    def own(self, path):
        """Give a file or directory that we made to the caller."""
        if os.geteuid() == 0:
            os.chown(path, self.uid, self.gid)
        return path

    def environment(self, **more):
        env = {"PATH": PATH, "LANG": "C.UTF-8", "HOME": self.home, "TERM": "xterm"}
        for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS"):
            if name in os.environ:
                env[name] = os.environ[name]
        env.update({k: str(v) for k, v in more.items()})
        return env


class Bawn:
    """The program under test. bawn("run", …) is one call of it; bawn.run(…) a sandboxed command."""

    def __init__(self, caller, work):
        self.caller, self.work, self.path, self.build, self.mode = caller, work, BAWN, BUILD, MODE

    def argv(self, *args):
        return [*self.caller.prefix, BAWN, *map(str, args)]

    def __call__(self, *args, env=None, cwd=None, input=None, timeout=60, text=True, before=(), **more):
        """Run `bawn ARGS`; a CompletedProcess. `before` are words in front, such as a wrapper."""
        if input is None and "stdin" not in more:
            more["stdin"] = subprocess.DEVNULL
        return subprocess.run(
            [*map(str, before), *self.argv(*args)], env=env or self.caller.environment(),
            cwd=cwd or self.work, input=input, timeout=timeout, text=text,
            errors="backslashreplace" if text else None,
            stdout=more.pop("stdout", subprocess.PIPE), stderr=more.pop("stderr", subprocess.PIPE),
            **more,
        )

    def run(self, *args, **more):
        """`bawn run ARGS`: options, then "--" and the command."""
        return self("run", *args, **more)

    def sh(self, script, *options, **more):
        """A shell script inside."""
        return self("run", *options, "--", "/bin/sh", "-c", script, **more)

    def json(self, *args, **more):
        """`bawn run --json ARGS`: (CompletedProcess, result). The result is the last line."""
        done = self("run", "--json", *args, **more)
        lines = done.stdout.splitlines()
        assert lines, f"no result on stdout; status {done.returncode}, stderr: {done.stderr}"
        return done, json.loads(lines[-1])

    def tool(self, name):
        """A program of tests/tools."""
        return os.path.join(BUILD, "tests", "tools", name)


@pytest.fixture(scope="session")
def mode():
    return MODE


@pytest.fixture(scope="session")
def caller():
    """The identity bawn runs under, with a home directory of its own for this session."""
    who = Caller()
    # Not below /tmp or /var/tmp: the box has its own of these.
    above = "/home" if os.geteuid() == 0 and os.path.isdir("/home") else os.path.expanduser("~")
    top = tempfile.mkdtemp(prefix="bawn-it.", dir=above)
    os.chmod(top, 0o755)
    who.home = os.path.join(top, "home")
    os.mkdir(who.home, 0o755)
    who.own(who.home)
    who.top = top
    yield who
    shutil.rmtree(top, ignore_errors=True)


@pytest.fixture
def work(caller):
    """A fresh directory that belongs to the caller; bawn is started in it."""
    path = tempfile.mkdtemp(prefix="work.", dir=caller.top)
    os.chmod(path, 0o755)
    caller.own(path)
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture
def bawn(caller, work):
    return Bawn(caller, work)


@pytest.fixture(params=["host", "base"])
def root(request):
    """Both views of the file system, one after the other."""
    return request.param
