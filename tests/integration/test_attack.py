# SPDX-License-Identifier: Apache-2.0
"""`bawn attack` from outside: all walls hold, and each one that is taken down lets an attack through."""
import json
import os
import re
import signal
import subprocess
import time

import pytest

GROUPS = {"fs", "kernel", "neighbours", "network", "resources", "terminal"}

# For every wall: an attack that must succeed once the wall is off.
BREACHES = {
    "user": "kernel/become-host-user",
    "ids": "neighbours/host-user-ids",
    "mount": "fs/host-file-by-path",
    "root": "fs/host-root-directory",
    "masks": "fs/plant-git-hook",
    "proc": "fs/proc-kernel-leaks",
    "dev": "fs/dev-unlisted-device",
    "sys": "fs/sys-tree",
    "pid": "neighbours/see-host-processes",
    "net": "network/host-loopback-tcp",
    "ipc": "neighbours/sysv-shared-memory",
    "uts": "neighbours/host-name",
    "cgroupns": "neighbours/place-in-cgroup-tree",
    "caps": "network/reconfigure-interface",
    "nnp": "fs/no-new-privs-taken-back",
    "seccomp": "kernel/userfaultfd",
    "landlock": "fs/reopen-stdin-for-writing",
    "memory": "resources/memory-bomb",
    "cpu": "resources/cpu-hog",
    "pids": "resources/fork-bomb",
    "io": "resources/disk-bandwidth",
    "disk": "resources/disk-fill",
    "rlimits": "resources/open-files",
    "fds": "fs/any-leaked-descriptor",
    "tty": "terminal/callers-terminal",
    "time": "resources/outstay-timeout",
}
# What a user cannot take down: these are what lets a user make a box at all, or need a controller.
ONLY_ROOT = {"user", "ids", "io"}


def attack(bawn, *args):
    done = bawn("attack", "--json", *args, timeout=150)
    assert done.returncode in (0, 1), done.stderr
    return done, json.loads(done.stdout)


def traces():
    """What the stage of an attack makes on the host."""
    found = [f for d in ("/tmp", "/var/tmp", "/dev/shm") for f in os.listdir(d) if f.startswith("bawn-attack")]
    with open("/proc/sysvipc/shm", encoding="ascii") as f:
        found += [line.split()[0] for line in f.readlines()[1:]]
    return set(found)


def only(before, look=traces):
    """Nothing is left but what was there before. Somebody else may be attacking on this machine:
    what is theirs goes away with them, what is left behind stays."""
    deadline = time.monotonic() + 40
    while not look() <= before and time.monotonic() < deadline:
        time.sleep(0.1)
    return look() <= before


@pytest.mark.parametrize("root", ["base", "host"])
def test_everything_holds(bawn, root):
    before = traces()
    started = time.monotonic()
    done, result = attack(bawn, "--root", root)
    took = time.monotonic() - started
    assert [a for a in result["attacks"] if not a["held"]] == []
    assert done.returncode == 0
    assert len(result["attacks"]) >= 70
    assert result["held"] == result["total"] == len(result["attacks"])
    assert {a["group"] for a in result["attacks"]} == GROUPS
    assert all(a["name"].startswith(a["group"] + "/") and a["detail"] for a in result["attacks"])
    assert only(before)
    assert took < 60, f"{took:.0f} s"


def wall_names(bawn):
    _, result = bawn.json("--root", "base", "--", "/bin/true")
    return {w["name"] for w in result["walls"]}


def test_every_wall_has_an_attack_that_needs_it(bawn):
    assert wall_names(bawn) == set(BREACHES)


@pytest.mark.parametrize("wall", [
    pytest.param(w, marks=pytest.mark.modes("root")) if w in ONLY_ROOT else w for w in sorted(BREACHES)])
def test_without_its_wall_an_attack_succeeds(bawn, wall):
    done, result = attack(bawn, "--only", BREACHES[wall], "--wall", f"{wall}=off")
    assert done.returncode == 1
    assert [a["name"] for a in result["attacks"] if not a["held"]] == [BREACHES[wall]]
    detail = result["attacks"][0]["detail"]
    assert not detail.startswith("not attempted"), detail


@pytest.mark.parametrize("wall", sorted(BREACHES))
def test_with_its_wall_the_same_attack_is_held(bawn, mode, wall):
    done, result = attack(bawn, "--only", BREACHES[wall])
    if mode != "root" and result["not_offered"]:
        assert wall == "io" and result["attacks"] == []
        return
    assert [a["held"] for a in result["attacks"]] == [True], result
    assert done.returncode == 0


def test_walls_taken_down_leave_nothing_behind(bawn):
    def look():
        stray = {f for f in os.listdir("/tmp") if re.match(r"fill-|inode-|jail-|link-|neigh", f)}
        return traces() | stray

    before = look()
    attack(bawn, "--wall", "mount=off", "--only", "resources/*fill*", "--only", "fs/*",
           "--only", "neighbours/other-*")
    assert only(before, look)


def test_list_shows_names_walls_and_meanings(bawn):
    done = bawn("attack", "--list")
    rows = [line.split(None, 2) for line in done.stdout.splitlines() if line.startswith("  ")]
    assert done.returncode == 0
    assert len(rows) >= 70
    names = [r[0] for r in rows]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z]+/[a-z0-9-]+(-CVE-\d{4}-\d+)?", n) for n in names)
    assert {n.split("/")[0] for n in names} == GROUPS
    assert {r[1] for r in rows} <= set(BREACHES)
    assert all(len(r) == 3 for r in rows)
    listed = json.loads(bawn("attack", "--list", "--json").stdout)["attacks"]
    assert [a["name"] for a in listed] == names


def test_only_takes_globs_and_may_be_repeated(bawn):
    done, result = attack(bawn, "--only", "terminal/tiocsti*", "--only=fs/dev-fuse")
    assert [a["name"] for a in result["attacks"]] == [
        "fs/dev-fuse", "terminal/tiocsti-CVE-2017-5226", "terminal/tiocsti-high-bits-CVE-2019-10063"]
    assert done.returncode == 0


def test_people_see_groups_marks_and_a_sum(bawn):
    done = bawn("attack", "--only", "terminal/*", "--only", "network/dns")
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert lines[0] == "Network" and "Terminal" in lines
    assert all(line.startswith("  ✓ ") for line in lines[1:-1] if line != "Terminal")
    assert re.fullmatch(r"(\d+) of \1 held", lines[-1])
    broken = bawn("attack", "--only", "neighbours/host-name", "--wall", "uts=off")
    assert broken.returncode == 1
    assert "  ✗ neighbours/host-name" in broken.stdout
    assert broken.stdout.endswith("0 of 1 held\n")


@pytest.mark.parametrize("args, said", [
    (["--frobnicate"], "--only GLOB"),
    (["--jsn"], "did you mean '--json'"),
    (["--only"], "--only needs a value"),
    (["--only", "nothing/*"], "--list"),
    (["--wall", "moat=off"], "moat"),
    (["--wall", "net=maybe"], "required"),
    (["--root", "moon"], "base"),
])
def test_bad_input_is_one_sentence(bawn, args, said):
    before = traces()
    done = bawn("attack", *args)
    assert done.returncode == 125
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1 and said in done.stderr
    assert only(before)


def test_a_sandbox_that_cannot_be_made_is_not_a_wall_that_held(bawn):
    """A required wall without its ground refuses to start: nothing was attempted, so nothing held."""
    done, result = attack(bawn, "--only", "fs/dev-fuse", "--wall", "mount=off", "--wall", "dev=required")
    assert done.returncode == 1
    assert result["attacks"][0]["held"] is False
    assert "not attempted: no sandbox" in result["attacks"][0]["detail"]


def test_interrupted_it_cleans_up(bawn, caller):
    before = traces()
    p = subprocess.Popen(bawn.argv("attack"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                         env=caller.environment(), cwd=bawn.work, start_new_session=True)
    deadline = time.monotonic() + 30
    while not (traces() - before):  # the stage stands: it is at work
        assert time.monotonic() < deadline and p.poll() is None
        time.sleep(0.01)
    os.killpg(p.pid, signal.SIGINT)
    out, err = p.communicate(timeout=60)
    assert p.returncode in (128 + signal.SIGINT, 125), (out, err)
    assert only(before)


def test_the_threat_model_names_every_attack_and_only_files_that_exist(bawn):
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(top, "docs", "threat-model.md"), encoding="utf-8") as f:
        page = f.read()
    rows = "\n".join(line for line in page.splitlines() if line.startswith("|"))
    named = set(re.findall(rf"`((?:{'|'.join(GROUPS)})/[^`]+)`", rows))
    listed = json.loads(bawn("attack", "--list", "--json").stdout)["attacks"]
    assert named == {a["name"] for a in listed}
    files = set(re.findall(r"`((?:src|tests|tools)/[a-z0-9_/.-]+)`", rows))
    assert files and [f for f in files if not os.path.exists(os.path.join(top, f))] == []
