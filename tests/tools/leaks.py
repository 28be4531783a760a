# SPDX-License-Identifier: Apache-2.0
"""What a run of bawn could leave behind, listed, so that before and after can be compared.

A Baseline is taken once, after a first run has made what is allowed to stay (a lock
file, the built template). left() is what is there now and was not then. The caller
becomes a subreaper, so that a process which outlives its bawn becomes our child and
cannot hide among the others of the machine; and gets a mount namespace of its own with
fresh state directories, so that what others do meanwhile is not taken for ours.
"""
import ctypes
import glob
import os
import pwd
import time

TEST_USER = "bawn-test"
PR_SET_CHILD_SUBREAPER = 36
CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = (1 << 14) | (1 << 18)


STATE = "/var/lib/bawn"


def stand_apart():
    """Subreaper, private mount namespace, empty state. Once per program, as root."""
    libc = ctypes.CDLL(None, use_errno=True)

    def check(result):
        if result < 0:
            number = ctypes.get_errno()
            raise OSError(number, "stand apart: " + os.strerror(number))

    check(libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0))
    check(libc.unshare(CLONE_NEWNS))
    check(libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None))
    os.makedirs(STATE, exist_ok=True)
    check(libc.mount(b"tmpfs", STATE.encode(), b"tmpfs", 0, b"mode=0755"))
    uid, gid, home = user()
    options = f"mode=0755,uid={uid},gid={gid}".encode()
    check(libc.mount(b"tmpfs", home.encode(), b"tmpfs", 0, options))


def user():
    """The unprivileged user of the tests: (uid, gid, home)."""
    entry = pwd.getpwnam(TEST_USER)
    return entry.pw_uid, entry.pw_gid, entry.pw_dir


def environment(home):
    """What bawn is started with: the same in every run, nothing of the caller's."""
    return {"PATH": "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": home, "LANG": "C.UTF-8"}


def cgroup_leaves():
    """Directories of ours in every mounted hierarchy, the delegated ones included."""
    found = set()
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        for line in f:
            fields, _, rest = line.partition(" - ")
            if rest.startswith("cgroup"):
                where = fields.split()[4]
                found.update(glob.glob(where + "/bawn-*-*"))
                found.update(glob.glob(where + "/bawn-*/bawn-*-*"))
    return found


def is_alive(leaf):
    """A leaf is named after the bawn that made it: bawn-PID-STARTTIME-…"""
    parts = os.path.basename(leaf).split("-")
    try:
        with open(f"/proc/{parts[1]}/stat", encoding="utf-8") as f:
            return f.read().rpartition(")")[2].split()[19] == parts[2]
    except OSError:
        return False


def mounts():
    with open("/proc/self/mountinfo", encoding="utf-8") as f:
        return {" ".join(line.split()[3:5]) for line in f}


def files():
    """Every path below a directory where bawn may keep something."""
    found = set()
    places = [STATE, user()[2], "/run/bawn", *glob.glob("/tmp/.bawn*")]
    for place in places:
        if os.path.lexists(place):
            found.add(place)
        for top, names, leaves in os.walk(place):
            found.update(os.path.join(top, name) for name in names + leaves)
    return found


def reap():
    """Collect children that have ended; the pids of those that still run."""
    while True:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return []
        if pid == 0:
            with open(f"/proc/self/task/{os.getpid()}/children", encoding="utf-8") as f:
                return [int(pid) for pid in f.read().split()]


class Baseline:
    def __init__(self):
        self.leaves = cgroup_leaves()
        self.mounts = mounts()
        self.files = files()

    def now(self):
        left = [f"process {pid}: {command_of(pid)}" for pid in reap()]
        left += [f"cgroup {x}" for x in cgroup_leaves() - self.leaves if not is_alive(x)]
        left += [f"mount {x}" for x in mounts() - self.mounts]
        left += [f"file {x}" for x in files() - self.files]
        return sorted(left)

    def left(self, seconds):
        """What is left once it had `seconds` to go away."""
        end = time.monotonic() + seconds
        while True:
            left = self.now()
            # A file does not go away by itself.
            if all(x.startswith("file") for x in left) or time.monotonic() > end:
                return left
            # The kernel tells nobody when the last of these has gone; look again soon.
            time.sleep(0.01)


def command_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            return f.read().replace(b"\0", b" ").decode(errors="replace").strip()
    except OSError:
        return "?"
