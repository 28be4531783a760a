# SPDX-License-Identifier: Apache-2.0
"""Bad input: one sentence that names the field and what is accepted, exit 125, nothing created."""
import json
import os
import subprocess

import pytest


def everything_below(path):
    return sorted(os.path.join(d, n) for d, _, names in os.walk(path) for n in names + [""])


def refused(bawn, *args, **more):
    """`bawn ARGS` fails in our name, with one line, and leaves nothing in work and home."""
    places = [bawn.work, bawn.caller.home]
    before = [everything_below(p) for p in places]
    done = bawn(*args, **more)
    assert done.returncode == 125, done
    assert done.stdout == ""
    assert done.stderr.startswith("bawn: ") and done.stderr.count("\n") == 1, done.stderr
    assert [everything_below(p) for p in places] == before
    return done.stderr


OPTIONS = [
    ([], ["no command given", "bawn run [options] -- CMD"]),
    (["--"], ["no command given"]),
    (["--", ""], ["command is an empty string"]),
    (["--memroy", "1G", "true"], ["unknown option '--memroy'", "did you mean '--memory'?"]),
    (["--quite-unlike-any-of-them", "true"], ["unknown option", "bawn run --help"]),
    (["-x", "true"], ["unknown option '-x'"]),
    (["--\x1b[2J", "true"], ["unknown option", "\\x1b"]),
    (["--rw"], ["--rw needs a value: --rw PATH"]),
    (["--rw", "--"], ["--rw needs a value"]),
    (["--rw", "--ro", "x", "true"], ["--rw needs a value, but '--ro' follows", "--rw=--ro"]),
    (["--cow=yes", "true"], ["--cow takes no value"]),
    (["--root", "debian", "true"], ["--root", "accepted: host, base"]),
    (["--root=", "true"], ["--root", "accepted: host, base"]),
    (["--net", "full", "true"], ["--net", "accepted: none, allow"]),
    (["--net", "none", "--allow", "a.test", "true"], ["--net none", "--allow", "keep one"]),
    (["--allow", "tcp:a.test", "true"], ["--allow", "tcp:a.test", "needs a port"]),
    (["--allow", "a b", "true"], ["--allow", "accepted: a name"]),
    (["--allow", "a.test", "--no-loopback", "true"], ["needs the loopback"]),
    (["--allow", "a.test", "--wall", "net=off", "true"], ["wall 'net'"]),
    (["--env", "NAME", "true"], ["--env", "NAME=VALUE", "--pass-env"]),
    (["--env", "=x", "true"], ["--env", "NAME=VALUE"]),
    (["--pass-env", "A=1", "true"], ["pass-env", "accepted: NAME, or PREFIX*"]),
    (["--memory", "1", "true"], ["--memory '1'", "accepted: 4M to 64T, or none"]),
    (["--memory", "-1", "true"], ["--memory '-1'", "accepted:"]),
    (["--memory", "1e99", "true"], ["--memory", "accepted:"]),
    (["--cpus", "4096", "true"], ["--cpus", "accepted: 0.01 to 1024"]),
    (["--pids", "1", "true"], ["--pids", "accepted: 2 to 4194304"]),
    (["--disk", "1", "true"], ["--disk", "accepted: 1M to 64T"]),
    (["--io", "1", "true"], ["--io", "accepted: 4K to 1T"]),
    (["--timeout", "0", "true"], ["--timeout", "accepted: 1ms to 365d"]),
    (["--timeout", "soon", "true"], ["--timeout", "accepted:"]),
    (["--kill-after", "2d", "true"], ["--kill-after", "accepted: 0 to 1h"]),
    (["--open-files", "1", "true"], ["--open-files", "accepted: 16 to 1048576"]),
    (["--user", "a b", "true"], ["user 'a b'", "a number from 0 to 65533"]),
    (["--user", "70000", "true"], ["user '70000'", "0 to 65533"]),
    (["--hostname", "a_b", "true"], ["hostname 'a_b'", "letters, digits"]),
    (["--hostname", "", "true"], ["--hostname", "empty"]),
    (["--cwd", "", "true"], ["--cwd", "empty"]),
    (["--wall", "secomp=off", "true"], ["--wall", "did you mean 'seccomp'?"]),
    (["--wall", "net=maybe", "true"], ["--wall", "accepted: required, preferred, off"]),
    (["--wall", "net", "true"], ["--wall", "NAME=LEVEL"]),
    (["--wall", "cpu=required", "true"], ["wall 'cpu'", "give --cpus"]),
    (["--wall", "mount=off", "--wall", "proc=required", "true"],
     ["wall 'proc' cannot be required while wall 'mount' is off"]),
    (["--wall", "nnp=required", "--allow-sudo", "true"], ["--allow-sudo", "nnp"]),
    (["--rw", "/srv/a", "--hide", "/srv/x/../a", "true"],
     ["--rw and --hide both name '/srv/a'", "keep one"]),
    (["--rw", "/", "true"], ["--rw '/'", "name the directories"]),
    (["--ro", "/proc/1", "true"], ["--ro '/proc/1'", "its own /proc"]),
    (["--rw", "x" * 5000, "true"], ["--rw", "4095 bytes"]),
    (["--profile", "missing.yaml", "true"], ["--profile", "missing.yaml", "No such file"]),
    (["--profile", "/dev/null", "true"], ["--profile", "not a regular file"]),
    (["--profile", ".", "true"], ["--profile", "not a regular file"]),
    (["--json=missing/result.json", "true"], ["--json", "missing/result.json", "No such file"]),
    (["--rw", "no/such/place", "true"], ["--rw", "no/such/place"]),
    (["--ro", "no/such/place", "true"], ["--ro", "no/such/place"]),
]


@pytest.mark.parametrize("args,words", OPTIONS, ids=lambda v: " ".join(v)[:40] or "nothing")
def test_a_wrong_option_is_answered_in_one_sentence(bawn, args, words):
    message = refused(bawn, "run", *args)
    for word in words:
        assert word in message


PROFILES = [
    ("", ["p.yaml:1:", "the profile is empty"]),
    ("name: x\nlimit: {memory: 1G}\n", ["p.yaml:2:", "unknown field 'limit'", "'limits'"]),
    ("limits:\n  memory: 1\n", ["p.yaml:2:", "limits.memory", "accepted: 4M to 64T"]),
    ("root: host\nroot: base\n", ["p.yaml:2:", "field 'root' is given twice"]),
    ("name: &a x\n", ["p.yaml:1:", "anchors"]),
    ("name: !!str x\n", ["p.yaml:1:", "tags"]),
    ("env: [A]\n", ["p.yaml:1:", "field 'env' takes"]),
    ("net: full\n", ["p.yaml:1:", "accepted: none"]),
    ("walls: {sandbox: off}\n", ["p.yaml:1:", "no wall is called 'sandbox'"]),
    ("name: 'x\n", ["p.yaml:2:", "not YAML"]),
    ("#" * (256 * 1024 + 1), ["p.yaml", "at most 262144"]),
    ("filesystem: {rw: [/srv/a], hide: [/srv/a]}\n", ["--rw and --hide both name '/srv/a'"]),
]


@pytest.mark.parametrize("text,words", PROFILES, ids=lambda v: repr(v)[:40])
def test_a_wrong_profile_is_answered_with_its_line(bawn, text, words):
    path = os.path.join(bawn.work, "p.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(text)
    bawn.caller.own(path)
    message = refused(bawn, "run", "--profile", "p.yaml", "--", "true")
    for word in words:
        assert word in message


def test_one_profile_only(bawn):
    path = os.path.join(bawn.work, "p.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write("root: base\n")
    bawn.caller.own(path)
    assert "given twice" in refused(bawn, "run", "--profile", path, "--profile", path, "true")


def test_arguments_past_a_mebibyte_are_refused_by_number(bawn):
    # The kernel itself refuses one argument of 128 KiB, so a MiB comes in pieces.
    message = refused(bawn, "run", "--", "true", *["x" * 100000] * 11)
    assert "argument 11" in message and "1048576" in message


def test_a_directory_that_is_gone_is_said_so(bawn):
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
    done = subprocess.run([*bawn.caller.prefix, "/bin/sh", "-c", script, "sh", bawn.path, "run", "true"],
                          env=bawn.caller.environment(), cwd=bawn.work, capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 125 and "current directory is gone" in done.stderr


def test_a_result_file_that_is_a_link_is_not_followed(bawn):
    target = os.path.join(bawn.work, "target")
    link = os.path.join(bawn.work, "result.json")
    os.symlink(target, link)
    assert "--json" in refused(bawn, "run", "--json=result.json", "--", "true")
    assert not os.path.exists(target)


VERBS = [
    (["rnu", "true"], ["'rnu' is not a bawn command", "did you mean 'run'?"]),
    (["python3"], ["'python3' is not a bawn command", "bawn run -- python3"]),
    (["--memory", "1G"], ["unknown option '--memory'", "options come after the command"]),
    (["\x1b[31m"], ["\\x1b[31m"]),
    (["help", "nothing"], ["'nothing' is not a bawn command"]),
]


@pytest.mark.parametrize("args,words", VERBS, ids=lambda v: " ".join(v)[:40])
def test_a_wrong_command_is_answered_with_the_right_one(bawn, args, words):
    message = refused(bawn, *args)
    for word in words:
        assert word in message


def test_no_command_prints_the_help_and_fails(bawn):
    done = bawn()
    assert done.returncode == 125 and done.stdout == ""
    assert "bawn run -- python3 task.py" in done.stderr


@pytest.mark.parametrize("args", [["--help"], ["-h"], ["help"], ["help", "run"], ["run", "--help"],
                                  ["run", "-h"], ["run", "--help", "--no-such"], ["help", "help"]],
                         ids=" ".join)
def test_help_is_on_stdout_and_succeeds(bawn, args):
    done = bawn(*args)
    assert done.returncode == 0 and done.stderr == ""
    assert "bawn run" in done.stdout
    assert all(len(line) <= 100 for line in done.stdout.splitlines())


def test_the_manual_names_every_option_of_the_help(bawn):
    top = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    with open(os.path.join(top, "man", "bawn-run.1"), encoding="utf-8") as f:
        manual = f.read()
    options = [line.split()[0].split("[")[0] for line in bawn("run", "--help").stdout.splitlines()
               if line.startswith("  --")]
    assert len(options) > 25
    for option in options:
        assert f".It Fl -{option[2:]}" in manual, option


def test_the_version_is_one_line(bawn):
    for args in (["--version"], ["-V"], ["version"]):
        done = bawn(*args)
        assert done.returncode == 0 and done.stdout.startswith("bawn ")
        assert done.stdout.count("\n") == 1


def test_a_full_disk_for_our_own_output_is_a_failure(bawn):
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = bawn("--help", stdout=full)
    assert done.returncode == 125 and "No space left" in done.stderr


def test_options_override_the_profile(bawn):
    path = os.path.join(bawn.work, "p.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write("name: ci\nversion: 2\nroot: base\nhostname: fromfile\nenv: {A: file, B: file}\n"
                "limits: {timeout: 1ms}\n")
    bawn.caller.own(path)
    done, result = bawn.json("--env", "A=line", "--timeout", "1m", "--profile", "p.yaml", "--",
                             "/bin/sh", "-c", "echo $A $B; hostname")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[:2] == ["line file", "fromfile"]
    assert result["profile"] == "ci@2"


def test_a_refused_start_is_json_too(bawn):
    done = bawn.run("--json", "--root", "base", "--user", "no-such-user", "--", "true")
    assert done.returncode == 125
    result = json.loads(done.stdout)
    assert result["status"] == 125 and result["exit"] is None and "no-such-user" in result["error"]


def test_a_command_may_follow_without_dashes_and_keeps_its_options(bawn):
    done = bawn.run("--root", "base", "echo", "--memory", "-q", "--", "x")
    assert done.returncode == 0 and done.stdout == "--memory -q -- x\n"


def test_quiet_says_nothing_of_ours(bawn):
    script = "echo x > /etc/hosts.bawn-test"
    assert "bawn: " in bawn.sh(script).stderr
    assert "bawn: " not in bawn.sh(script, "--quiet").stderr


def test_names_that_are_not_utf8_survive_in_json(bawn):
    script = b"echo x > /etc/\xff\xfe.bawn-test"
    argv = [a.encode() for a in bawn.argv("run", "--json", "--", "/bin/sh", "-c")] + [script]
    done = subprocess.run(argv, env=bawn.caller.environment(), cwd=bawn.work, timeout=60, check=False,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    result = json.loads(done.stdout.splitlines()[-1].decode("ascii"))
    tried = [v["tried"] for v in result["violations"] if v["kind"] == "write"]
    assert any("\\xff\\xfe.bawn-test" in t for t in tried), tried
