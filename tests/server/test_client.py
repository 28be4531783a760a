# SPDX-License-Identifier: Apache-2.0
"""The verbs of the command line that talk to a server."""
import hashlib
import http.client
import json
import os
import pty
import re
import select
import signal
import subprocess
import time

import pytest

from server import BAWN, PATH


@pytest.fixture
def bawn(server):
    """bawn("ls", …): a verb on the server's own socket, as its user. text=False for bytes."""
    def call(verb, *args, **more):
        more.setdefault("timeout", 60)
        more.setdefault("text", True)
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        return subprocess.run([*server.prefix, BAWN, verb, "--state", server.state, *map(str, args)],
                              env=server.environment(), capture_output=True, **more)
    return call


@pytest.fixture
def box(bawn):
    """The id of a fresh sandbox."""
    made = bawn("new", "--ttl", "10m")
    assert made.returncode == 0, made.stderr
    one = made.stdout.strip()
    yield one
    bawn("kill", one)


@pytest.fixture
def work(server):
    """A directory that the server's user may write to."""
    path = os.path.join(server.top, f"work-{time.monotonic_ns()}")
    os.mkdir(path)
    os.chmod(path, 0o777)
    return path


def fine(done):
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_new_ls_info_ttl_kill(bawn, server):
    made = json.loads(fine(bawn("new", "--name", "shop", "--label", "team=red", "--env", "A=b c",
                                "--memory", "256M", "--cpus", "1.5", "--ttl", "10m", "--json")))
    assert re.fullmatch("i[a-z0-9]{20}", made["id"]) and made["name"] == "shop"
    assert made["limits"]["memory_bytes"] == 256 << 20 and made["limits"]["cpus"] == 1.5
    table = fine(bawn("ls"))
    assert made["id"] in table and "shop" in table and "running" in table
    assert fine(bawn("ls", "--quiet")).split() == ["shop"]
    assert [s["id"] for s in json.loads(fine(bawn("ls", "--json", "--label", "team=red")))] == [made["id"]]
    assert json.loads(fine(bawn("ls", "--json", "--label", "team=blue"))) == []
    # By name, by id, by the beginning of the id.
    for which in ("shop", made["id"], made["id"][:8]):
        info = json.loads(fine(bawn("info", which, "--json")))
        assert info["id"] == made["id"] and "access_token" not in info
        assert info["walls"]["net"]["enforced"] == "enforced"
    assert "REQUESTED" in fine(bawn("info", "shop"))
    assert fine(bawn("exec", "shop", "--", "sh", "-c", "echo $A")) == "b c\n"
    fine(bawn("ttl", "shop", "20m"))
    assert re.search("(19|20)m", fine(bawn("ls")))
    again = bawn("new", "--name", "shop")
    assert again.returncode == 125 and "shop" in again.stderr
    assert fine(bawn("kill", "shop")).strip() == made["id"]
    assert fine(bawn("ls", "--quiet")) == ""
    assert made["id"] in fine(bawn("ls", "--all"))
    gone = bawn("exec", made["id"], "true")
    assert gone.returncode == 125 and "ended" in gone.stderr


def test_exec_passes_output_input_and_status(bawn, box):
    done = bawn("exec", box, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, "out\n", "err\n")
    done = bawn("exec", box, "cat", input="from here\n")
    assert (done.returncode, done.stdout) == (0, "from here\n")
    assert fine(bawn("exec", box, "pwd")) == "/home/user\n"
    assert fine(bawn("exec", "-w", "/tmp", "-e", "X=1", "-u", "root", box, "--", "sh", "-c",
                     "pwd; echo $X; id -u")) == "/tmp\n1\n0\n"
    assert bawn("exec", box, "--", "sh", "-c", "kill -TERM $$").returncode == 128 + 15
    assert bawn("exec", box, "--", "sh", "-c", "kill -SYS $$").returncode == 128 + 31
    assert bawn("exec", box, "nosuchprogram").returncode == 127
    assert bawn("exec", box, "/etc").returncode == 126
    began = time.monotonic()
    assert bawn("exec", "--timeout", "500ms", box, "sleep", "60").returncode == 124
    assert time.monotonic() - began < 10


def test_exec_of_megabytes_both_ways(bawn, box):
    blob = os.urandom(3 << 20)
    done = bawn("exec", box, "cat", input=blob, text=False)
    assert done.returncode == 0 and hashlib.sha256(done.stdout).digest() == hashlib.sha256(blob).digest()


def test_exec_input_from_a_file(bawn, box, work):
    path = os.path.join(work, "in")
    with open(path, "wb") as f:
        f.write(b"x" * 100000)
    with open(path, "rb") as f:
        assert fine(bawn("exec", box, "wc", "-c", stdin=f)).strip() == "100000"


def test_exec_detached_goes_on(bawn, box):
    pid = int(fine(bawn("exec", "-d", box, "--", "sh", "-c", "sleep 0.2; echo late > done; sleep 100")))
    assert fine(bawn("exec", box, "--", "sh", "-c",
                     f"while ! test -s done; do sleep 0.05; done; cat done; kill -0 {pid} && echo up")) \
        == "late\nup\n"


def test_an_interrupt_here_kills_the_process_there(bawn, server, box):
    child = subprocess.Popen(
        [*server.prefix, BAWN, "exec", "--state", server.state, box, "--", "sh", "-c",
         "echo $$; exec sleep 1000"], env=server.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, text=True)
    pid = int(child.stdout.readline())
    child.send_signal(signal.SIGINT)
    assert child.wait(15) == 128 + 9
    assert bawn("exec", box, "kill", "-0", pid).returncode != 0


class Terminal:
    """A program on a terminal of its own."""

    def __init__(self, argv, env):
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execvpe(argv[0], argv, env)
        self.seen = b""

    def expect(self, text, seconds=20):
        """Read until `text`; what came before it."""
        end = time.monotonic() + seconds
        while text not in self.seen:
            assert time.monotonic() < end, self.seen
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.seen += os.read(self.fd, 65536)
                except OSError:
                    break
        assert text in self.seen, self.seen
        before, self.seen = self.seen.split(text, 1)
        return before

    def type(self, text):
        os.write(self.fd, text)

    def wait(self):
        status = os.waitpid(self.pid, 0)[1]
        os.close(self.fd)
        return os.waitstatus_to_exitcode(status)


def test_shell_leave_and_return(server, box):
    env = dict(server.environment(), TERM="xterm")
    words = [*server.prefix, BAWN, "shell", "--state", server.state]
    t = Terminal([*words, box], env)
    t.expect(b"$ ")
    t.type(b"tty; x=kept; echo $((40+2))\n")
    t.expect(b"/dev/pts/")
    t.expect(b"42")
    t.type(b"\x10\x11")
    t.expect(b"--attach ")
    pid = t.expect(b"'")
    assert t.wait() == 0
    t = Terminal([*words, box, "--attach", pid.decode()], env)
    t.type(b"echo $x.$x\n")
    t.expect(b"kept.kept")
    t.type(b"exit 3\n")
    assert t.wait() == 3


def test_cp_files_and_directories(bawn, box, work):
    blob = os.urandom(5 << 20)
    tree = os.path.join(work, "tree")
    os.makedirs(os.path.join(tree, "sub", "empty"))
    for name, data in (("big", blob), ("sub/ünï cödé?&#", b"x"), ("sub/zero", b"")):
        with open(os.path.join(tree, name), "wb") as f:
            f.write(data)
    os.symlink("/etc/passwd", os.path.join(tree, "link"))
    os.chmod(os.path.join(tree, "big"), 0o755)
    fine(bawn("cp", tree, f"{box}:copied"))
    assert fine(bawn("exec", box, "--", "sh", "-c", "cd copied && find . | LC_ALL=C sort && test -x big")) \
        == "".join(f"{line}\n" for line in (".", "./big", "./sub", "./sub/empty", "./sub/zero",
                                            "./sub/ünï cödé?&#"))
    back = os.path.join(work, "back")
    done = json.loads(fine(bawn("cp", "--json", f"{box}:copied", back)))
    assert done == {"files": 3, "bytes": len(blob) + 1}
    assert sorted(os.listdir(back)) == ["big", "sub"] and os.path.isdir(os.path.join(back, "sub/empty"))
    with open(os.path.join(back, "big"), "rb") as f:
        assert f.read() == blob
    assert os.stat(os.path.join(back, "big")).st_mode & 0o777 == 0o755
    # Into a directory under its own name; standard streams.
    fine(bawn("cp", os.path.join(tree, "big"), f"{box}:"))
    assert bawn("cp", f"{box}:big", "-", text=False).stdout == blob
    fine(bawn("cp", "-", f"{box}:typed", input="typed"))
    assert bawn("cp", f"{box}:/home/user/typed", "-").stdout == "typed"


def test_cp_refuses_what_makes_no_sense(bawn, box, work):
    for words, expected in (((work, work), "one of the two"), ((f"{box}:a", f"{box}:b"), "one of the two"),
                            ((f"{box}:missing", work), "missing"), (("/nonexistent", f"{box}:x"), "open")):
        done = bawn("cp", *words)
        assert done.returncode == 125 and expected in done.stderr, done
    assert os.listdir(work) == []


def test_cp_stays_in_its_target(bawn, box, work):
    """A sandbox chooses names and modes; links and devices of ours are not its to write to."""
    target, victim = os.path.join(work, "target"), os.path.join(work, "victim")
    os.makedirs(os.path.join(target, "d"))
    os.mkdir(victim)
    os.chmod(target, 0o777)
    os.chmod(os.path.join(target, "d"), 0o777)
    os.chmod(victim, 0o777)
    os.symlink("../../victim", os.path.join(target, "d", "link"))
    fine(bawn("exec", box, "--", "sh", "-c", "mkdir -p d/link e/f && echo x >d/link/planted && echo x >e/g"
              " && chmod 777 e/g && mkdir h && : >\"h/$(printf '\\033]0;%0245d' 0)\""))
    done = bawn("cp", f"{box}:d", target)
    assert done.returncode == 125 and "not followed" in done.stderr
    assert os.listdir(victim) == []
    fine(bawn("cp", f"{box}:e/f/..", victim))
    assert sorted(os.listdir(victim)) == ["f", "g"]
    assert os.stat(os.path.join(victim, "g")).st_mode & 0o022 == 0
    assert sorted(os.listdir(work)) == ["target", "victim"]
    done = bawn("cp", f"{box}:h", os.path.join(target, "h"))
    assert done.returncode == 125 and "\033" not in done.stderr
    fifo = os.path.join(target, "fifo")
    os.mkfifo(fifo, 0o666)
    os.chmod(fifo, 0o666)
    reader = subprocess.Popen(["cat", fifo], stdout=subprocess.PIPE, text=True)
    fine(bawn("cp", f"{box}:e/g", fifo))
    assert reader.communicate(timeout=30)[0] == "x\n"


def test_logs_and_events(bawn, server, box):
    fine(bawn("exec", box, "true"))
    actions = [json.loads(line)["action"] for line in fine(bawn("logs", "--json", box)).splitlines()]
    assert actions[0].startswith("sandbox.create") and "exec.start" in actions
    assert box in fine(bawn("events"))
    follower = subprocess.Popen(
        [*server.prefix, BAWN, "logs", "-f", "--json", "--state", server.state, box],
        env=server.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        for _ in actions:
            follower.stdout.readline()
        fine(bawn("exec", box, "echo", "marker-of-this-test"))
        seen = ""
        while "marker-of-this-test" not in seen:
            seen = follower.stdout.readline()
            assert seen
    finally:
        follower.kill()
        follower.wait()


def test_port_prints_and_forwards(bawn, server, box):
    url = fine(bawn("port", box, "8000")).strip()
    assert url == f"http://8000-{box}.localhost:{server.port}"
    fine(bawn("exec", box, "--", "sh", "-c", "mkdir -p www && echo inside > www/page"))
    fine(bawn("exec", "-d", box, "--", "python3", "-m", "http.server", "-d", "www", "8000"))
    child = subprocess.Popen(
        [*server.prefix, BAWN, "port", "--state", server.state, "--json", box, "8000", "0"],
        env=server.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    try:
        port = int(json.loads(child.stdout.readline())["url"].rsplit(":", 1)[1])
        end = time.monotonic() + 20
        while True:
            one = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            one.request("GET", "/page")
            answer = one.getresponse()
            if answer.status == 200 or time.monotonic() > end:
                break
            time.sleep(0.1)  # until python listens inside
        assert (answer.status, answer.read()) == (200, b"inside\n")
    finally:
        child.kill()
        child.wait()


def test_top_once(bawn, box):
    assert box in fine(bawn("top", "--once"))
    mine = [s for s in json.loads(fine(bawn("top", "--json"))) if s["id"] == box]
    assert mine and mine[0]["usage"]["cpu_percent"] >= 0


def test_a_remote_server_needs_a_key(server, box):
    def ls(*words):
        return subprocess.run([BAWN, "ls", "--server", server.url, *words], capture_output=True, text=True,
                              env={"PATH": PATH, "HOME": "/"}, timeout=30)
    assert box in fine(ls("--key", server.key))
    refused = ls()
    assert refused.returncode == 125 and "--key" in refused.stderr
    refused = ls("--key", "e2b_" + "0" * 40)
    assert refused.returncode == 125 and refused.stdout == ""


@pytest.mark.parametrize("words,expected", [
    (["exec"], "too few words"),
    (["info", "nosuchsandbox"], "nosuchsandbox"),
    (["new", "--memroy", "1G"], "did you mean '--memory'?"),
    (["new", "--ttl", "soon"], "--ttl"),
    (["new", "--template", "nosuch"], "nosuch"),
    (["ls", "--server", "ftp://x"], "http://HOST:PORT"),
    (["ls", "--state", "/nonexistent"], "bawn serve"),
    (["kill"], "--all"),
    (["port", "x", "99999"], "the port"),
])
def test_mistakes_are_explained(server, words, expected):
    if "--state" not in words and "--server" not in words:
        words = [words[0], "--state", server.state, *words[1:]]
    done = server.bawn(*words)
    assert done.returncode == 125 and expected in done.stderr, done
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize("verb", ["new", "ls", "info", "exec", "shell", "cp", "logs", "kill", "ttl",
                                  "events", "port", "top", "key"])
def test_every_verb_has_help(server, verb):
    done = server.bawn(verb, "--help")
    assert done.returncode == 0 and f"bawn {verb}" in done.stdout
    assert server.bawn("help", verb).stdout == done.stdout


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_knows_the_verbs(server, shell):
    script = fine(server.bawn("completion", shell))
    for verb in ("run", "serve", "exec", "top", "key"):
        assert verb in script
    if shell == "bash":
        found = subprocess.run(
            ["bash", "-c", script + "\nCOMP_WORDS=(bawn exe); COMP_CWORD=1; _bawn; echo \"${COMPREPLY[@]}\"; "
             "COMP_WORDS=(bawn exec --time); COMP_CWORD=2; _bawn; echo \"${COMPREPLY[@]}\""],
            capture_output=True, text=True)
        assert found.stdout.split() == ["exec", "--timeout"], found
