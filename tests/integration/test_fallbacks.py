# SPDX-License-Identifier: Apache-2.0
"""Kernels that lack something: the documented fallback, or a refusal that names the wall and the way on.

tests/tools/without makes the feature seem absent. It runs in front of setpriv and unshare,
as root, so that setuid newuidmap still works below it.
"""
import subprocess

import pytest


def without(bawn, *names):
    return (bawn.tool("without"), ",".join(names), "--")


def record(result, wall):
    return {w["name"]: w for w in result["walls"]}[wall]


def test_landlock_missing_is_a_refusal_that_says_how_to_go_on(bawn, root):
    done = bawn.run("--root", root, "--", "echo", "ran", before=without(bawn, "landlock"))
    assert done.returncode == 125
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1
    assert "landlock" in done.stderr and "--wall landlock=preferred" in done.stderr


def test_landlock_missing_and_only_preferred_runs_and_is_recorded(bawn, root):
    done, result = bawn.json("--root", root, "--wall", "landlock=preferred", "--", "echo", "ran",
                             before=without(bawn, "landlock"))
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "ran"
    assert record(result, "landlock")["requested"] == "preferred"
    assert record(result, "landlock")["enforced"] == "missing"


@pytest.mark.parametrize("call", ["openat2", "clone3", "close_range", "pidfd_open", "faccessat2",
                                  "execveat", "statx", "memfd_create"])
def test_newer_calls_have_a_fallback_or_a_clear_refusal(bawn, root, call):
    done = bawn.run("--root", root, "--", "echo", "ran", before=without(bawn, call))
    if done.returncode == 0:
        assert done.stdout == "ran\n"
    else:
        assert done.returncode == 125, done.stderr
        assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("bawn: ")


@pytest.mark.parametrize("call", ["openat2", "clone3"])
def test_openat2_and_clone3_have_a_fallback(bawn, root, call):
    done = bawn.run("--root", root, "--", "echo", "ran", before=without(bawn, call))
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


@pytest.mark.parametrize("call", ["openat2", "clone3"])
def test_the_fallback_keeps_every_wall(bawn, root, call):
    _, with_it = bawn.json("--root", root, "--", "true")
    _, without_it = bawn.json("--root", root, "--", "true", before=without(bawn, call))
    assert [(w["name"], w["enforced"]) for w in with_it["walls"]] == \
        [(w["name"], w["enforced"]) for w in without_it["walls"]]


def test_copy_on_write_works_without_openat2(bawn):
    done = bawn.sh("echo new > file", "--cow", before=without(bawn, "openat2"))
    assert done.returncode == 0, done.stderr


@pytest.mark.modes("root")
def test_idmap_missing_is_a_fallback_or_a_refusal_that_names_it(bawn, root):
    done = bawn.run("--root", root, "--", "echo", "ran", before=without(bawn, "idmap"))
    if done.returncode == 0:
        assert done.stdout == "ran\n"
    else:
        assert done.returncode == 125
        assert len(done.stderr.splitlines()) == 1 and "ids" in done.stderr


@pytest.mark.modes("root")
def test_idmap_missing_and_ids_off_runs(bawn):
    done = bawn.run("--root", "base", "--wall", "ids=preferred", "--", "echo", "ran",
                    before=without(bawn, "idmap"))
    assert (done.returncode, done.stdout) == (0, "ran\n"), done.stderr


def test_no_notifications_still_denies(bawn):
    """Without a listener a denied call is still refused, only not reported."""
    done = bawn.run("--root", "base", "--", "unshare", "-r", "true", before=without(bawn, "usernotif"))
    assert done.returncode not in (0, 125), done.stderr
    assert "Operation not permitted" in done.stderr


@pytest.mark.parametrize("call", ["mountapi", "pivot_root", "seccomp"])
def test_what_cannot_be_done_without_is_refused_clearly(bawn, call):
    done = bawn.run("--root", "base", "--", "echo", "ran", before=without(bawn, call))
    assert done.returncode == 125
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and done.stderr.startswith("bawn: ")


@pytest.mark.modes("user")
def test_without_newuidmap_a_single_id_is_mapped(bawn):
    """`without` as the user means no_new_privs, and no setuid program works under that."""
    argv = [*bawn.caller.prefix, "/usr/bin/setpriv", "--no-new-privs"]
    done = subprocess.run([*argv, bawn.path, "run", "--root", "base", "--", "cat", "/proc/self/uid_map"],
                          env=bawn.caller.environment(), cwd=bawn.work, capture_output=True, text=True,
                          timeout=60)
    assert done.returncode == 0, done.stderr
    assert [int(line.split()[2]) for line in done.stdout.splitlines()] == [1]
