# SPDX-License-Identifier: Apache-2.0
"""A terminal outside, a terminal inside: job control, sizes, and the caller's own left as it was."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time

import pytest

# What bash writes around a line besides the line.
NOISE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\r")


class Terminal:
    """bawn at the slave end of a pty; we are the person at the other."""

    def __init__(self, bawn, *args, stdout=None, rows=24, columns=80, env=None):
        self.master, self.slave = pty.openpty()
        self.resize(rows, columns)
        self.before = termios.tcgetattr(self.slave)
        self.seen = ""
        self.process = subprocess.Popen(
            bawn.argv(*args), stdin=self.slave, stdout=stdout or self.slave, stderr=self.slave,
            env=env or bawn.caller.environment(), cwd=bawn.work, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.master, text.encode())

    def expect(self, pattern, seconds=30):
        """Read until the pattern is seen; what was read up to and with it."""
        end = time.monotonic() + seconds
        while True:
            clean = NOISE.sub("", self.seen)
            found = re.search(pattern, clean)
            if found:
                self.seen = clean[found.end():]
                return clean[:found.end()]
            left = end - time.monotonic()
            ready = select.select([self.master], [], [], max(0, left))[0]
            assert ready, f"waited for {pattern!r}, saw {clean!r}"
            try:
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            except OSError:  # the last slave was closed
                raise AssertionError(f"ended before {pattern!r}, saw {clean!r}") from None

    def wait(self):
        return self.process.wait(30)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def terminal(bawn):
    opened = []

    def start(*args, **more):
        opened.append(Terminal(bawn, *args, **more))
        return opened[-1]

    yield start
    for t in opened:
        t.close()


def shell(terminal, *options):
    t = terminal("run", *options, "--env", "PS1=ready> ", "--", "bash", "--norc", "--noediting", "-i")
    t.expect("ready> ")
    return t


def test_the_three_streams_are_a_terminal(terminal, root):
    t = terminal("run", "--root", root, "--", "/bin/sh", "-c", "for i in 0 1 2; do test -t $i && echo tty$i; done; tty")
    t.expect("tty0")
    t.expect("tty1")
    t.expect("tty2")
    t.expect("/dev/(pts/0|console)")
    assert t.wait() == 0


def test_the_callers_terminal_is_not_the_boxs(terminal):
    t = shell(terminal, "--root", "base")
    outer = os.ttyname(t.slave)
    t.type("tty\n")
    seen = t.expect("ready> ")
    assert outer not in seen or outer == "/dev/pts/0"
    t.type("ls /dev/pts | wc -l; exit\n")
    t.expect(r"\n2")  # its own terminal and ptmx
    assert t.wait() == 0


# Says when it has the terminal: what is typed before is taken from the shell, not given to the job
# (and a ^Z or ^C throws away what the shell has not read yet). It forks nothing: a ^Z that finds a
# shell inside vfork() stops the child before its exec, and the parent for ever.
JOB = """
import os, signal, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGCONT, lambda *_: os.write(1, b"resumed\\n"))
os.write(1, b"started\\n")
while True:
    time.sleep(10)
"""


def test_job_control(terminal, root):
    t = shell(terminal, "--root", root, "--env", "JOB=" + JOB)
    t.type('python3 -c "$JOB"\n')
    t.expect("started\n")
    t.type("\x1a")
    t.expect("Stopped.*python3")
    t.expect("ready> ")
    t.type("jobs\n")
    t.expect(r"\[1\]\+ +Stopped")
    t.expect("ready> ")
    t.type("fg\n")
    t.expect("resumed\n")
    t.type("\x03")
    t.expect("ready> ")
    t.type("echo status $?\n")
    t.expect("status 130")
    t.expect("ready> ")
    t.type("exit 5\n")
    assert t.wait() == 5


def test_background_jobs(terminal):
    t = shell(terminal, "--root", "base")
    t.type("sleep 100 &\n")
    t.expect(r"\[1\] \d+")
    t.type("kill %1; wait; echo ended\n")
    t.expect("\nended|Terminated")
    t.type("exit\n")
    assert t.wait() in (0, 143)


def test_control_c_ends_a_command(terminal, root):
    t = terminal("run", "--root", root, "--", "/bin/sh", "-c", "echo ready; exec sleep 100")
    t.expect("ready")
    t.type("\x03")
    assert t.wait() == 128 + signal.SIGINT


def test_control_d_ends_the_input(terminal):
    t = terminal("run", "--root", "base", "--", "cat")
    t.type("hello\n")
    t.expect("hello\nhello\n")
    t.type("\x04")
    assert t.wait() == 0


def test_the_window_size_passes_through_and_follows(terminal):
    t = terminal("run", "--root", "base", "--", "bash", "-c",
                 "stty size; trap 'stty size; exit 0' WINCH; echo waiting; while :; do sleep 0.1; done",
                 rows=31, columns=97)
    t.expect("31 97")
    t.expect("waiting")
    t.resize(41, 117)
    t.expect("41 117")
    assert t.wait() == 0


def test_the_terminal_is_as_before_at_the_end(terminal):
    t = terminal("run", "--root", "base", "--", "/bin/sh", "-c", "stty raw -echo; kill -KILL $$")
    assert t.wait() == 128 + signal.SIGKILL
    assert termios.tcgetattr(t.slave) == t.before


def test_the_terminal_is_as_before_after_a_refusal(terminal):
    t = terminal("run", "--root", "base", "--", "no-such-command-anywhere")
    assert t.wait() == 127
    assert termios.tcgetattr(t.slave) == t.before


def test_a_signal_to_bawn_restores_the_terminal(terminal):
    t = terminal("run", "--root", "base", "--", "/bin/sh", "-c", "echo ready; exec sleep 100")
    t.expect("ready")
    t.process.send_signal(signal.SIGTERM)
    assert t.wait() == 128 + signal.SIGTERM
    assert termios.tcgetattr(t.slave) == t.before


def test_stdin_a_terminal_and_stdout_a_pipe(terminal):
    t = terminal("run", "--root", "base", "--", "cat", stdout=subprocess.PIPE)
    t.type("through\n")
    assert t.process.stdout.readline() == b"through\n"
    t.type("\x04")
    assert t.wait() == 0


def test_output_through_the_terminal_is_whole(terminal):
    t = terminal("run", "--root", "base", "--", "seq", "1", "20000")
    seen = t.expect("\n20000\n")
    assert [int(n) for n in seen.split()] == list(range(1, 20001))
    assert t.wait() == 0
