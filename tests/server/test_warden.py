# SPDX-License-Identifier: Apache-2.0
"""The warden role by itself, over its socket: boxes that outlive it, and nothing that it leaks.

The guest is a stand-in (tests/tools/idle_guest) that says who it is. As root and as a user.
"""
import ctypes
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from server import BAWN, BUILD, PATH, TEST_USER

CTL = os.path.join(BUILD, "tests", "tools", "warden_ctl")
GUEST = os.path.join(BUILD, "tests", "tools", "idle_guest")
STRANGER = 54321
SPEC = ["memory=256M", "pids=64", "disk=64M", "loopback", "sudo"]


def reap():
    """We are the subreaper: what lost its warden becomes our child."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return


def until(what, seconds=20):
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it did not come to pass"
        reap()
        time.sleep(0.01)  # the kernel tells nobody but the warden


def leaves(part):
    found = []
    for line in open("/proc/self/mountinfo", encoding="utf-8"):
        fields, _, rest = line.partition(" - ")
        if rest.split()[0] in ("cgroup", "cgroup2"):
            top = fields.split()[4]
            for where in (top, *(os.path.join(top, d) for d in os.listdir(top) if d[:5] == "bawn-")):
                if os.path.isdir(where):
                    found += [d for d in os.listdir(where) if d.startswith("bawn-box-" + part)]
    return found


def pids_of(name):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as f:
                text = f.read()
        except OSError:
            continue
        state = text[text.rindex(")") + 2]
        parent = int(text[text.rindex(")") + 2:].split()[1])
        if text[text.index("(") + 1:text.rindex(")")] == name and state != "Z":
            found.append((int(pid), parent))
    return found


class Warden:
    def __init__(self, mode):
        self.top = tempfile.mkdtemp(prefix="bawn-warden.", dir="/var/tmp")
        os.chmod(self.top, 0o755)
        self.state = os.path.join(self.top, "state")
        self.sock = os.path.join(self.state, "run", "warden.sock")
        self.prefix, self.uid = [], os.getuid()
        self.name = f"t{os.getpid()}x"  # ids of this test begin so
        os.makedirs(os.path.join(self.state, "run"))
        os.makedirs(os.path.join(self.state, "boxes"))
        if mode == "user" and os.getuid() == 0:
            entry = pwd.getpwnam(TEST_USER)
            self.uid = entry.pw_uid
            for d in (self.top, self.state, self.state + "/run", self.state + "/boxes"):
                os.chown(d, entry.pw_uid, entry.pw_gid)
            self.prefix = ["/usr/bin/setpriv", f"--reuid={entry.pw_uid}",
                           f"--regid={entry.pw_gid}", "--init-groups"]
        self.process = None
        self.spares = 0
        self.more = []
        self.pids = []  # of every warden there was: in the names of its spares

    def start(self):
        with open(self.top + "/log", "ab") as log:
            self.process = subprocess.Popen(
                [*self.prefix, CTL, "serve", self.sock, BAWN, "role-warden", "--state", self.state,
                 "--api-uid", str(self.uid), "--guest", GUEST,
                 "--spares", str(self.spares), *self.more],
                env={"PATH": PATH, "HOME": self.top}, cwd="/", stdin=subprocess.DEVNULL,
                stdout=log, stderr=log)
        self.pids.append(self.process.pid)
        until(lambda: self.process.poll() is not None or self.ask("list")[0] == "ok")
        assert self.process.poll() is None, self.log()
        return self

    def log(self):
        with open(self.top + "/log", encoding="utf-8") as f:
            return f.read()

    def kill(self):
        self.process.kill()
        self.process.wait()

    def again(self):
        self.kill()
        return self.start()

    def popen(self, *words):
        return subprocess.Popen([*self.prefix, CTL, self.sock, *words], text=True, cwd="/",
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)

    def ask(self, *words):
        """The words of the last line of the answer."""
        out, _ = self.popen(*words).communicate(timeout=60)
        return (out.strip().splitlines() or ["lost"])[-1].split()

    def ids(self):
        out, _ = self.popen("list").communicate(timeout=60)
        lines = out.strip().splitlines()
        assert lines[-1] == "ok", out
        return {line.split()[1] for line in lines[:-1]}

    def walls(self, box):
        out, _ = self.popen("list").communicate(timeout=60)
        line, = [x for x in out.splitlines() if x.startswith(f"box {box} ")]
        return dict(word.split("=") for word in line.split()[2:])

    def guest(self, box, say=b""):
        """What the guest says of itself; as the user who may ask."""
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(20)
        s.connect(f"{self.state}/boxes/{box}/guest.sock")
        line = s.recv(200)
        if say:
            s.sendall(say)
        else:
            s.close()
        return line.decode()

    def record(self, box):
        with open(f"{self.state}/boxes/{box}/record", encoding="utf-8") as f:
            return dict(x.split(" ", 1) for x in f.read().splitlines() if " " in x)

    def boxes(self):
        return {d for d in os.listdir(self.state + "/boxes") if not d.startswith("spare")}

    def destroy(self):
        if self.process.poll() is None:
            for box in self.ids():
                self.ask("stop", box)
            self.process.terminate()
            self.process.wait()
        reap()
        shutil.rmtree(self.top)


@pytest.fixture
def warden(mode):
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
    one = Warden(mode).start()
    yield one
    one.destroy()
    until(lambda: not leaves(one.name))
    assert not [pid for pid in one.pids if leaves(f"spare{pid}x")]


def test_a_box_comes_up_tells_its_walls_and_goes(warden, mode):
    box = warden.name + "a"
    walls = dict(w.split("=") for w in warden.ask("start", box, *SPEC, "host=e2b.local")[1:])
    assert walls["user"] == walls["seccomp"] == walls["root"] == "required/enforced"
    assert walls["nnp"] == "off/off"
    assert walls["disk"] == "preferred/enforced"
    assert "missing" not in " ".join(walls.values())
    assert warden.guest(box) == "pid 2 uid 0 ppid 1\n"
    assert warden.ids() == {box}
    assert warden.walls(box) == walls
    pid = int(warden.record(box)["pid"])
    if mode == "root":
        usage = dict(w.split("=") for w in warden.ask("usage", box)[1:])
        assert int(usage["memory"]) > 0 and int(usage["disk"]) >= 0
        assert leaves(box)
    assert warden.ask("stop", box) == ["ok"]
    assert not os.path.exists(f"/proc/{pid}")
    assert warden.ids() == set() and warden.boxes() == set() and not leaves(box)
    assert warden.ask("stop", box) == ["ok"]
    assert warden.ask("usage", box)[:2] == ["error", "2"]


def test_what_cannot_be_made_is_refused_and_leaves_nothing(warden):
    box = warden.name + "b"
    assert warden.ask("start", box, "template=nope")[:2] == ["error", "2"]
    assert warden.ask("start", box, "tier=microvm")[:2] == ["error", "2"]
    assert warden.boxes() == set()
    assert warden.ask("start", box)[0] == "ok"
    assert warden.ask("start", box)[:2] == ["error", "17"]
    assert warden.guest(box) == "pid 2 uid 0 ppid 1\n"
    assert warden.ids() == {box}


def test_boxes_outlive_the_warden_and_are_adopted(warden):
    boxes = {warden.name + str(i) for i in range(3)}
    for box in boxes:
        assert warden.ask("start", box, *SPEC)[0] == "ok"
    before = {box: (warden.record(box)["pid"], warden.walls(box)) for box in boxes}
    warden.again()
    assert warden.ids() == boxes
    assert {box: (warden.record(box)["pid"], warden.walls(box)) for box in boxes} == before
    for box in boxes:
        assert warden.guest(box) == "pid 2 uid 0 ppid 1\n"
    # On SIGTERM too.
    warden.process.terminate()
    assert warden.process.wait() == 0
    warden.start()
    assert warden.ids() == boxes
    for box in boxes:
        assert warden.ask("stop", box) == ["ok"]
    assert warden.boxes() == set()


@pytest.mark.modes("root")
def test_a_name_that_a_box_came_up_under_kills_nobody(warden):
    """A box that was a spare keeps the spare's leaf: whoever is to get that name must not end it."""
    warden.spares = 1
    warden.again()
    first, second = warden.name + "n1", warden.name + "n2"
    assert warden.ask("start", first, *SPEC)[0] == "ok"
    until(lambda: [d for d in os.listdir(warden.state + "/boxes") if d.startswith("spare")])
    assert warden.ask("start", second, *SPEC)[0] == "ok"
    leaf = warden.record(second)["cgroup"]
    assert leaf.startswith("bawn-box-spare")
    # Of another kind, so that none is there and one would be made.
    assert warden.ask("start", leaf[len("bawn-box-"):], "pids=63")[0] == "error"
    assert warden.ask("stop", leaf[len("bawn-box-"):]) == ["ok"]
    assert warden.ids() == {first, second} and warden.guest(second) == "pid 2 uid 0 ppid 1\n"


def test_a_box_that_ends_by_itself_is_told_of(warden):
    box = warden.name + "c"
    assert warden.ask("start", box, *SPEC)[0] == "ok"
    watch = warden.popen("watch")
    assert watch.stdout.readline() == "watching\n"
    warden.guest(box, b"exit")
    assert watch.stdout.readline() == f"ended {box} exited\n"
    until(lambda: warden.boxes() == set())
    assert warden.ids() == set() and not leaves(box)
    watch.kill()
    watch.communicate()


@pytest.mark.modes("root")
def test_a_box_at_its_memory_limit_ends_as_oom(warden):
    box = warden.name + "d"
    assert warden.ask("start", box, "memory=64M", "pids=64")[0] == "ok"
    watch = warden.popen("watch")
    assert watch.stdout.readline() == "watching\n"
    warden.guest(box, b"eat it all")
    assert watch.stdout.readline() == f"ended {box} oom\n"
    watch.kill()
    watch.communicate()


def test_one_that_ended_while_nobody_watched_is_cleaned_up(warden):
    box, other = warden.name + "e", warden.name + "f"
    assert warden.ask("start", box, *SPEC)[0] == warden.ask("start", other, *SPEC)[0] == "ok"
    pid = int(warden.record(box)["pid"])
    warden.kill()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{pid}"))
    warden.start()
    assert warden.ids() == {other} and warden.boxes() == {other} and not leaves(box)


def test_a_record_that_names_somebody_else_kills_nobody(warden):
    box = warden.name + "g"
    bystander = subprocess.Popen(["sleep", "1000"])
    assert warden.ask("start", box, *SPEC)[0] == "ok"
    path = f"{warden.state}/boxes/{box}/record"
    pid = int(warden.record(box)["pid"])
    warden.kill()
    os.kill(pid, signal.SIGKILL)
    until(lambda: not os.path.exists(f"/proc/{pid}"))
    with open(path, encoding="utf-8") as f:
        text = f.read()
    with open(path, "w", encoding="utf-8") as f:
        f.write(text.replace(f"\npid {pid}\n", f"\npid {bystander.pid}\n"))
    warden.start()
    assert warden.ids() == set() and warden.boxes() == set()
    assert bystander.poll() is None
    bystander.kill()
    bystander.wait()


@pytest.mark.parametrize("text", ["", "bawn sandbox 1\n", "bawn sandbox 1\nid x\npid -1\nend\n",
                                  "\0" * 5000, "x" * 100000])
def test_a_record_that_is_none_is_removed(warden, text):
    box = warden.name + "h"
    warden.kill()
    os.mkdir(f"{warden.state}/boxes/{box}")
    with open(f"{warden.state}/boxes/{box}/record", "w", encoding="utf-8") as f:
        f.write(text)
    os.chown(f"{warden.state}/boxes/{box}", warden.uid, -1)
    warden.start()
    assert warden.boxes() == set()


def test_what_is_not_a_question_ends_the_connection_and_is_logged(warden):
    box = warden.name + "i"
    assert warden.ask("start", box)[0] == "ok"
    for packet in ("00", "01000000" * 8, "ff" * 1784, "00" * 4000):
        assert warden.ask("raw", packet) == ["lost"]
    assert warden.log().count("event=attack") == 4
    assert warden.ids() == {box}
    assert warden.guest(box) == "pid 2 uid 0 ppid 1\n"


@pytest.mark.modes("root")
def test_only_the_api_role_may_ask_and_reach_guests(warden):
    box = warden.name + "j"
    assert warden.ask("start", box)[0] == "ok"
    os.chmod(warden.sock, 0o777)
    warden.prefix = ["/usr/bin/setpriv", f"--reuid={STRANGER}", "--clear-groups"]
    assert warden.ask("stop", box) == ["lost"]
    warden.prefix = []
    assert f"uid={STRANGER}" in warden.log()
    assert warden.ids() == {box}
    code = ("import socket,sys\ns=socket.socket(socket.AF_UNIX)\n"
            "try: s.connect(sys.argv[1])\nexcept PermissionError: sys.exit(7)")
    done = subprocess.run(["/usr/bin/setpriv", f"--reuid={STRANGER}", "--clear-groups",
                           "/usr/bin/python3", "-c", code,
                           f"{warden.state}/boxes/{box}/guest.sock"], check=False)
    assert done.returncode == 7


def dial(warden, box):
    """What a connection out of the box comes to: (what the box says, a socket of it)."""
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(20)
    s.connect(f"{warden.state}/boxes/{box}/guest.sock")
    s.recv(200)
    s.sendall(b"dial")
    return s.recv(200).decode().strip()


@pytest.mark.parametrize("spares", [0, 1])
def test_a_road_comes_out_and_is_made_again_by_the_next_warden(warden, spares):
    if spares:
        warden.spares = spares
        warden.again()
        assert warden.ask("start", warden.name + "s", *SPEC, "road")[0] == "ok"
        until(lambda: [d for d in os.listdir(warden.state + "/boxes") if d.startswith("spare")])
    box = warden.name + "r"
    assert warden.ask("start", box, *SPEC, "road")[0] == "ok"
    for _ in range(2):
        road = warden.popen("road", box)
        assert road.stdout.readline() == "ready\n"
        assert dial(warden, box) == "connected"
        assert road.communicate(timeout=20)[0] == "to ::ffff:192.0.2.1 443\n"
    # The warden still holds it: who connects now waits for the next one who takes it.
    assert dial(warden, box) == "connected"
    assert warden.popen("road", box).communicate(timeout=20)[0].splitlines()[1] == (
        "to ::ffff:192.0.2.1 443")
    # Nobody does any more.
    warden.kill()
    assert dial(warden, box) == "refused 111"
    warden.start()
    road = warden.popen("road", box)
    assert road.stdout.readline() == "ready\n"
    assert dial(warden, box) == "connected"
    assert road.communicate(timeout=20)[0] == "to ::ffff:192.0.2.1 443\n"


def test_a_box_without_a_road_has_none(warden):
    box = warden.name + "o"
    assert warden.ask("start", box, *SPEC)[0] == "ok"
    assert dial(warden, box) == "refused 101"  # ENETUNREACH
    assert warden.ask("road", warden.name + "none")[:2] == ["error", "2"]


@pytest.mark.modes("root")
def test_the_egress_role_may_ask_for_roads_and_for_nothing_else(warden):
    box = warden.name + "e"
    warden.more = ["--egress-uid", str(STRANGER)]
    warden.again()
    assert warden.ask("start", box, *SPEC, "road")[0] == "ok"
    os.chmod(warden.sock, 0o777)
    warden.prefix = ["/usr/bin/setpriv", f"--reuid={STRANGER}", "--clear-groups"]
    road = warden.popen("road", box)
    assert road.stdout.readline() == "ready\n"
    assert warden.ask("stop", box) == ["lost"]
    assert warden.ask("list") == ["lost"]
    warden.prefix = []
    assert "attack" in warden.log() and "from=egress" in warden.log()
    assert dial(warden, box) == "connected"
    assert road.communicate(timeout=20)[0] == "to ::ffff:192.0.2.1 443\n"
    assert warden.ids() == {box}


def test_a_box_holds_nothing_of_the_warden(warden):
    boxes = [warden.name + "k", warden.name + "l"]
    for box in boxes:
        assert warden.ask("start", box, *SPEC)[0] == "ok"
    watch = warden.popen("watch")
    assert watch.stdout.readline() == "watching\n"
    if os.geteuid() == 0:
        fds = f"/proc/{warden.record(boxes[1])['pid']}/fd"

        def held():
            return [x for x in (os.readlink(f"{fds}/{n}") for n in os.listdir(fds))
                    if x.startswith("socket:") or "log" in x or "pidfd" in x]
        # The socket it answered on is closed right after the answer.
        until(lambda: not held(), 5)
    # Its end is seen at once by who is connected: no box holds the other end.
    warden.kill()
    assert watch.communicate(timeout=20)[0] == "lost\n"
    warden.start()


@pytest.mark.parametrize("spares", [0, 2])
def test_killed_in_the_middle_of_starts_a_hundred_times(warden, spares):
    """What was answered lives, what lives is listed, and what was cut short leaves nothing."""
    rng = random.Random(7)
    warden.spares = spares
    warden.again()
    up = set()
    for n in range(100):
        filler = warden.popen("fill", "50", f"{warden.name}{n}x", *SPEC)
        time.sleep(rng.uniform(0, 0.06))
        warden.kill()
        out = filler.communicate(timeout=60)[0].split("\n")
        answered = {line.split()[1] for line in out if line.startswith("up ")}
        warden.start()
        listed = warden.ids()
        assert up | answered <= listed, "a sandbox that was answered is gone"
        assert listed == warden.boxes()
        # A start that was not answered may be there whole; never more than the one under way.
        assert len(listed - up - answered) <= 1
        for box in listed:
            if box not in up:
                assert warden.guest(box) == "pid 2 uid 0 ppid 1\n"
        up = listed
        while len(up) > 10:
            box = rng.choice(sorted(up))
            assert warden.ask("stop", box) == ["ok"]
            up.discard(box)
    found = set(x.removeprefix("bawn-box-") for x in leaves(warden.name))
    assert found <= up
    pids = {int(warden.record(box)["pid"]) for box in up}
    until(lambda: {p for p, _ in pids_of("bawn-init")} >= pids)
    # Spares are beside them, of the last warden alone.
    mine = {p for p, parent in pids_of("bawn-init")
            if parent in (os.getpid(), warden.process.pid)}
    assert pids <= mine and len(mine - pids) <= spares
    orphans = {p for p, parent in pids_of("bawn-init") if parent == os.getpid()}
    assert orphans <= pids
    for box in sorted(up):
        assert warden.ask("stop", box) == ["ok"]
    assert warden.boxes() == set() and not leaves(warden.name)
    until(lambda: len([p for p, parent in pids_of("bawn-init")
                       if parent in (os.getpid(), warden.process.pid)]) <= spares)
    with open(f"/proc/{warden.process.pid}/mountinfo", encoding="utf-8") as f:
        assert warden.name not in f.read()


def test_several_come_up_at_once_and_one_that_cannot_harms_none(warden):
    taken = warden.name + "v3"
    assert warden.ask("start", taken, *SPEC)[0] == "ok"
    out = warden.popen("volley", "20", warden.name + "v", *SPEC).communicate(timeout=60)[0].split("\n")
    wanted = {f"{warden.name}v{i}" for i in range(20)}
    assert {line.split()[1] for line in out if line.startswith("up ")} == wanted - {taken}
    assert [line for line in out if line.startswith("error")] == [f"error 17 {taken}"]
    assert warden.ids() == wanted == warden.boxes()
    for box in wanted:
        assert warden.guest(box) == "pid 2 uid 0 ppid 1\n"


@pytest.mark.parametrize("spares", [0, 2])
def test_stopped_while_it_comes_up_it_is_gone(warden, spares):
    warden.spares = spares
    warden.again()
    for i in range(10):
        out = warden.popen("cancel", f"{warden.name}s{i}", *SPEC).communicate(timeout=60)[0].split("\n")
        # Whether it was up already or not: it is answered first, and gone then.
        assert out[0].startswith(("ok user=", "ok ", "error 125 ")) and out[1] == "ok", out
        assert warden.boxes() == set() and not leaves(warden.name)
    assert warden.ids() == set()


@pytest.mark.parametrize("spares", [0, 2])
def test_killed_with_eight_under_way_nothing_is_left_half(warden, spares):
    rng = random.Random(11)
    warden.spares = spares
    warden.again()
    for n in range(20):
        volley = warden.popen("volley", "30", f"{warden.name}{n}x", *SPEC)
        time.sleep(rng.uniform(0, 0.06))
        warden.kill()
        out = volley.communicate(timeout=60)[0].split("\n")
        answered = {line.split()[1] for line in out if line.startswith("up ")}
        warden.start()
        listed = warden.ids()
        assert answered <= listed, "a sandbox that was answered is gone"
        assert listed == warden.boxes() and len(listed - answered) <= 8
        for box in sorted(listed):
            assert warden.guest(box) == "pid 2 uid 0 ppid 1\n"
            assert warden.ask("stop", box) == ["ok"]
        assert warden.boxes() == set() and not leaves(warden.name)
    until(lambda: not [p for p, parent in pids_of("bawn-init") if parent == os.getpid()])


def test_more_starts_than_can_wait_are_refused(warden):
    """And those whose asker has gone are not begun."""
    out = warden.popen("flood", "2000", warden.name + "q", *SPEC).communicate(timeout=60)[0].split("\n")
    refused = [line for line in out if line.startswith("error")]
    assert len(refused) == 1 and refused[0].startswith("error 16 ")
    up = warden.ids()  # waits for what was begun
    assert len(up) < 1000
    for box in up:
        assert warden.ask("stop", box) == ["ok"]
    assert warden.boxes() == set() and not leaves(warden.name)
