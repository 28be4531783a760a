# SPDX-License-Identifier: Apache-2.0
"""`bawn run` as a user meets it: status, streams, environment, files, limits, the record."""
import errno
import json
import os
import signal
import socket
import subprocess
import threading
import time

import pytest


# ---- how it ends -------------------------------------------------------------------------------

@pytest.mark.parametrize("status", [0, 1, 7, 100, 255])
def test_the_exit_status_passes_through(bawn, root, status):
    assert bawn.sh(f"exit {status}", "--root", root).returncode == status


@pytest.mark.parametrize("name", ["TERM", "KILL", "SEGV", "HUP"])
def test_a_signal_becomes_128_plus_its_number(bawn, name):
    number = getattr(signal, "SIG" + name)
    assert bawn.sh(f"kill -{name} $$", "--root", "base").returncode == 128 + number


def test_a_command_that_is_not_there_is_127(bawn, root):
    done = bawn.run("--root", root, "--", "no-such-command-anywhere")
    assert done.returncode == 127
    assert "no-such-command-anywhere" in done.stderr


def test_a_file_that_cannot_be_executed_is_126(bawn, root):
    done = bawn.run("--root", root, "--", "/etc/passwd")
    assert done.returncode == 126
    assert "/etc/passwd" in done.stderr


def test_a_timeout_is_124_and_says_so(bawn, root):
    started = time.monotonic()
    done, result = bawn.json("--root", root, "--timeout", "300ms", "--", "sleep", "60")
    assert done.returncode == 124
    assert time.monotonic() - started < 20
    assert result["timed_out"] is True
    assert [v["kind"] for v in result["violations"]] == ["timeout"]
    assert "--timeout" in result["violations"][0]["instead"]


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(bawn):
    done = bawn.sh("trap '' TERM; while :; do sleep 1; done",
                   "--root", "base", "--timeout", "200ms", "--kill-after", "200ms")
    assert done.returncode == 124


def test_a_command_may_clean_up_at_the_timeout(bawn):
    done = bawn.sh("trap 'echo cleaned; exit 0' TERM; sleep 60 & wait", "--root", "base",
                   "--timeout", "300ms")
    assert done.returncode == 124
    assert "cleaned" in done.stdout


def test_our_own_failure_is_125(bawn):
    done = bawn.run("--no-such-option", "--", "true")
    assert done.returncode == 125
    assert done.stderr.startswith("bawn: ")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_signal_to_bawn_reaches_the_command(bawn, name):
    argv = bawn.argv("run", "--root", "base", "--", "/bin/sh", "-c",
                     f"trap 'echo got {name}; exit 3' {name[3:]}; echo ready; sleep 60 & wait")
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
                         env=bawn.caller.environment(), cwd=bawn.work)
    assert p.stdout.readline() == "ready\n"
    p.send_signal(getattr(signal, name))
    assert p.stdout.read() == f"got {name}\n"
    assert p.wait(30) == 3


def test_everything_inside_ends_with_the_command(bawn, root):
    """A daemon with its own session, and an orphan that ignores signals, both hold the pipe open."""
    script = "setsid sh -c 'trap \"\" TERM HUP; sleep 600' & (sleep 600 &) ; sleep 0.1; echo done"
    started = time.monotonic()
    done = bawn.sh(script, "--root", root)
    assert done.stdout == "done\n"
    assert time.monotonic() - started < 20


def test_a_timeout_ends_daemons_too(bawn):
    done = bawn.sh("setsid sh -c 'trap \"\" TERM; sleep 600' & sleep 600", "--root", "base",
                   "--timeout", "300ms", "--kill-after", "200ms")
    assert done.returncode == 124  # and the pipe was closed: we got here


# ---- streams -----------------------------------------------------------------------------------

def test_stdin_reaches_the_command(bawn, root):
    assert bawn.run("--root", root, "--", "cat", input="one\ntwo\n").stdout == "one\ntwo\n"


def test_the_three_streams_stay_apart(bawn):
    done = bawn.sh("echo out; echo err >&2; exit 0", "--root", "base")
    assert (done.stdout, done.stderr) == ("out\n", "err\n")


def test_a_big_output_is_whole(bawn):
    done = bawn.run("--root", "base", "--", "head", "-c", "50000000", "/dev/zero", text=False)
    assert len(done.stdout) == 50000000


def test_a_big_input_is_whole(bawn):
    done = bawn.run("--root", "base", "--", "wc", "-c", input="x" * 20000000)
    assert done.stdout.strip() == "20000000"


def test_a_closed_pipe_ends_the_writer(bawn):
    argv = bawn.argv("run", "--root", "base", "--", "yes")
    p = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                         env=bawn.caller.environment(), cwd=bawn.work)
    p.stdout.read(10)
    p.stdout.close()
    assert p.wait(30) == 128 + signal.SIGPIPE


def test_closed_standard_streams_do_no_harm(bawn):
    argv = bawn.argv("run", "--root", "base", "--", "/usr/bin/true")
    done = subprocess.run(["/bin/sh", "-c", 'exec "$@" <&- >&- 2>&-', "sh", *argv],
                          env=bawn.caller.environment(), cwd=bawn.work, timeout=60)
    assert done.returncode == 0


def test_no_other_descriptor_is_inherited(bawn, root):
    r, w = os.pipe()
    secret = os.open("/etc/hostname", os.O_RDONLY)
    done = bawn.sh("ls /proc/self/fd", "--root", root, pass_fds=(r, w, secret))
    # ls itself holds the directory it reads as 3.
    assert sorted(done.stdout.split()) == ["0", "1", "2", "3"]
    for fd in (r, w, secret):
        os.close(fd)


# ---- environment and identity ------------------------------------------------------------------

def test_the_environment_is_a_short_list(bawn, root):
    env = bawn.caller.environment(
        AWS_SECRET_ACCESS_KEY="k", GITHUB_TOKEN="t", SSH_AUTH_SOCK="/s", LD_LIBRARY_PATH="/l",
        MY_OWN="m", LC_ALL="C.UTF-8")
    done = bawn.run("--root", root, "--", "env", env=env)
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert {"PATH", "HOME", "BAWN"} <= names
    assert not names & {"AWS_SECRET_ACCESS_KEY", "GITHUB_TOKEN", "SSH_AUTH_SOCK", "LD_LIBRARY_PATH",
                        "MY_OWN"}
    allowed = {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TERM", "COLORTERM", "TZ", "SHELL", "BAWN",
               "PWD", "TMPDIR", "HOSTNAME",
               # In the host view the home directory is read-only: caches go to the box's /tmp.
               "XDG_CACHE_HOME", "npm_config_cache"}
    assert {n for n in names if not n.startswith("LC_")} <= allowed


def test_pass_env_and_env_are_taken(bawn):
    env = bawn.caller.environment(ONE="1", TWO_A="2a", TWO_B="2b", THREE="3")
    done = bawn.run("--root", "base", "--pass-env", "ONE", "--pass-env", "TWO_*", "--env", "FOUR=4=x",
                    "--", "env", env=env)
    lines = done.stdout.splitlines()
    assert {"ONE=1", "TWO_A=2a", "TWO_B=2b", "FOUR=4=x"} <= set(lines)
    assert not any(line.startswith("THREE=") for line in lines)


def test_the_hostname_is_the_boxs_own(bawn):
    assert bawn.run("--root", "base", "--", "hostname").stdout == "bawn\n"
    done = bawn.run("--root", "base", "--hostname", "yard", "--", "hostname")
    assert done.stdout == "yard\n"
    assert os.uname().nodename not in ("bawn", "yard")


def test_root_in_the_box_is_nobody_outside(bawn):
    done = bawn.sh("id -u; cat /proc/self/uid_map", "--root", "base", "--user", "root")
    lines = done.stdout.splitlines()
    assert lines[0] == "0"
    outside = {int(line.split()[1]) for line in lines[1:]}
    if bawn.mode == "root":
        assert min(outside) >= 0x70000000


@pytest.mark.modes("root")  # a user has one range for all boxes
def test_boxes_of_the_same_moment_have_different_ids(bawn):
    argv = bawn.argv("run", "--root", "base", "--", "/bin/sh", "-c", "cat /proc/self/uid_map; read x")
    boxes = [
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                         env=bawn.caller.environment(), cwd=bawn.work)
        for _ in range(3)
    ]
    maps = [p.stdout.readline().split()[1] for p in boxes]
    for p in boxes:
        p.communicate("\n", timeout=30)
    assert len(set(maps)) == 3


def test_the_current_directory_is_kept(bawn):
    sub = os.path.join(bawn.work, "a b")
    os.mkdir(sub)
    bawn.caller.own(sub)
    assert bawn.run("--", "pwd", cwd=sub).stdout == sub + "\n"


def test_cwd_is_taken(bawn):
    assert bawn.run("--root", "base", "--cwd", "/usr/share", "--", "pwd").stdout == "/usr/share\n"


# ---- files -------------------------------------------------------------------------------------

def test_the_working_directory_is_writable_and_the_rest_is_not(bawn, caller):
    done = bawn.sh("echo in > here && cat here; echo no > ../there; echo no > /usr/there")
    assert done.stdout == "in\n"
    with open(os.path.join(bawn.work, "here"), encoding="utf-8") as f:
        assert f.read() == "in\n"
    assert os.stat(os.path.join(bawn.work, "here")).st_uid == caller.uid
    assert not os.path.exists(os.path.join(caller.top, "there"))
    assert not os.path.exists("/usr/there")
    assert "Read-only file system" in done.stderr


def test_a_refused_write_is_explained_in_one_line(bawn):
    target = os.path.join(bawn.caller.home, "outside")
    done = bawn.sh(f"echo no > {target}")
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if line.startswith("bawn: ")]
    assert len(lines) == 1
    assert target in lines[0] or bawn.caller.home in lines[0]
    assert "--rw" in lines[0]


def test_rw_opens_a_directory(bawn, caller):
    other = os.path.join(caller.home, "other")
    os.makedirs(other, exist_ok=True)
    caller.own(other)
    assert bawn.sh(f"echo yes > {other}/file", "--rw", other).returncode == 0
    with open(os.path.join(other, "file"), encoding="utf-8") as f:
        assert f.read() == "yes\n"


def test_ro_inside_a_writable_directory_holds(bawn, caller):
    os.mkdir(os.path.join(bawn.work, "frozen"))
    caller.own(os.path.join(bawn.work, "frozen"))
    done = bawn.sh("echo a > free; echo b > frozen/x", "--ro", "frozen")
    assert done.returncode != 0
    assert sorted(os.listdir(bawn.work)) == ["free", "frozen"]
    assert not os.listdir(os.path.join(bawn.work, "frozen"))


def test_hide_hides(bawn, caller):
    for name in ("secret.txt", "plain.txt"):
        with open(os.path.join(bawn.work, name), "w", encoding="utf-8") as f:
            f.write("content\n")
        caller.own(os.path.join(bawn.work, name))
    done = bawn.sh("cat plain.txt; cat secret.txt", "--hide", "secret.*")
    assert done.stdout == "content\n"
    with open(os.path.join(bawn.work, "secret.txt"), encoding="utf-8") as f:
        assert f.read() == "content\n"


def test_ssh_keys_are_hidden_in_the_host_view(bawn, caller):
    ssh = os.path.join(caller.home, ".ssh")
    os.makedirs(ssh, exist_ok=True)
    with open(os.path.join(ssh, "id_ed25519"), "w", encoding="utf-8") as f:
        f.write("key\n")
    caller.own(ssh)
    caller.own(os.path.join(ssh, "id_ed25519"))
    assert "key" not in bawn.sh("cat ~/.ssh/id_ed25519; ls ~/.ssh").stdout


def test_tmp_is_private_and_empty(bawn, root):
    mark = f"/tmp/bawn-it-mark-{os.getpid()}"
    done = bawn.sh(f"ls -A /tmp; echo x > {mark} && echo written", "--root", root)
    assert done.stdout == "written\n"
    assert not os.path.exists(mark)


def test_the_base_root_is_clean(bawn):
    done = bawn.sh("ls -A /home /root /var /opt /srv /run /workspace 2>/dev/null; ls /", "--root", "base")
    assert "bawn-test" not in done.stdout
    for name in ("usr", "etc", "tmp", "proc", "dev", "home", "workspace"):
        assert name in done.stdout.split()


def test_the_disk_cap_is_enforced_and_reported(bawn):
    done, result = bawn.json("--root", "base", "--disk", "16M", "--", "/bin/sh", "-c",
                             "cd; for i in 1 2 3; do head -c 8000000 /dev/zero > big$i; done; exit 1")
    assert "No space left on device" in done.stderr
    assert "disk" in {v["wall"] for v in result["violations"]}
    assert result["bytes_written"] <= 32 << 20


# ---- what it sees ------------------------------------------------------------------------------

def test_only_its_own_processes_are_seen(bawn, root):
    done = bawn.sh("ls -d /proc/[0-9]* | wc -l; echo $$", "--root", root)
    count, own = map(int, done.stdout.split())
    assert count <= 6
    assert own < 10


@pytest.mark.parametrize("path", ["/proc/sysrq-trigger", "/proc/sys/kernel/hostname", "/proc/kcore",
                                  "/proc/sys/kernel/core_pattern"])
def test_dangerous_files_of_proc_cannot_be_written(bawn, path):
    assert bawn.sh(f"echo x > {path}", "--root", "base", "--user", "root").returncode != 0


def test_dev_is_minimal(bawn, root):
    done = bawn.run("--root", root, "--", "ls", "/dev")
    assert set(done.stdout.split()) <= {
        "console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr",
        "stdin", "stdout", "tty", "urandom", "zero"}
    assert bawn.sh("echo x > /dev/null; head -c 3 /dev/zero | wc -c; head -c 8 /dev/urandom | wc -c; "
                   "echo s > /dev/shm/f; cat /dev/shm/f", "--root", root).stdout.split() == ["3", "8", "s"]


CONNECT = """
import socket, sys
s = socket.socket()
s.settimeout(5)
try:
    s.connect((sys.argv[1], int(sys.argv[2])))
    print("connected")
except OSError as e:
    print("refused", e.errno)
"""


def test_the_hosts_loopback_is_out_of_reach(bawn, root):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        done = bawn.run("--root", root, "--", "python3", "-c", CONNECT, "127.0.0.1", port)
    assert done.stdout.startswith("refused")


def test_there_is_no_network_but_loopback(bawn):
    done, result = bawn.json("--root", "base", "--", "python3", "-c",
                             CONNECT + "\nsys.exit(1)", "192.0.2.1", "80")
    assert done.stdout.startswith("refused")
    assert "net" in {v["wall"] for v in result["violations"]}
    devices = bawn.run("--root", "base", "--", "cat", "/proc/net/dev").stdout
    assert {line.split(":")[0].strip() for line in devices.splitlines()[2:]} == {"lo"}


def test_a_server_on_localhost_works_inside(bawn, root):
    script = """
import socket, threading
a = socket.socket(); a.bind(("127.0.0.1", 0)); a.listen()
threading.Thread(target=lambda: a.accept()[0].sendall(b"hello"), daemon=True).start()
b = socket.create_connection(a.getsockname()); print(b.recv(5).decode())
"""
    assert bawn.run("--root", root, "--", "python3", "-c", script).stdout == "hello\n"


# ---- limits ------------------------------------------------------------------------------------

EAT = "import sys\nb = []\nfor i in range(int(sys.argv[1])): b.append(bytearray(1 << 20))\nprint('ate')"


def test_memory_is_bounded_and_the_kill_is_typed(bawn):
    done, result = bawn.json("--root", "base", "--memory", "64M", "--wall", "memory=preferred",
                             "--", "python3", "-c", EAT, "512")
    assert done.stdout.splitlines()[0] != "ate"
    assert done.returncode != 0
    assert "memory" in {v["wall"] for v in result["violations"]}
    assert any("--memory" in v["instead"] for v in result["violations"])


def test_within_the_memory_limit_nothing_happens(bawn):
    done, result = bawn.json("--root", "base", "--memory", "256M", "--wall", "memory=preferred",
                             "--", "python3", "-c", EAT, "32")
    assert done.stdout.splitlines()[0] == "ate"
    assert result["violations"] == []


BOMB = """
import os, signal
n = 0
try:
    while n < 200:
        if os.fork() == 0:
            signal.pause()
        n += 1
except OSError as e:
    print("stopped", n, e.errno, flush=True)
os._exit(1)
"""


def test_a_fork_bomb_is_bounded(bawn):
    done, result = bawn.json("--root", "base", "--pids", "32", "--wall", "pids=preferred",
                             "--", "python3", "-c", BOMB)
    word, count, number = done.stdout.splitlines()[0].split()
    assert word == "stopped" and int(count) < 32 and int(number) == errno.EAGAIN
    assert "pids" in {v["wall"] for v in result["violations"]}


def test_open_files_are_bounded(bawn):
    done = bawn.sh("ulimit -n; ulimit -Hn", "--root", "base", "--open-files", "256")
    assert done.stdout.split() == ["256", "256"]


def test_no_core_dump(bawn):
    assert bawn.sh("ulimit -Hc", "--root", "base").stdout == "0\n"


@pytest.mark.modes("root")
def test_a_cpu_quota_throttles(bawn):
    done, result = bawn.json("--root", "base", "--cpus", "0.2", "--", "timeout", "1", "sh", "-c",
                             "while :; do :; done")
    assert result["cpu_ms"] < 0.6 * result["wall_ms"]


# ---- the record --------------------------------------------------------------------------------

def test_the_result_has_its_promised_shape(bawn, root):
    done, r = bawn.json("--root", root, "--", "/bin/sh", "-c", "echo text; exit 3")
    assert done.returncode == 3
    assert done.stdout.splitlines()[0] == "text"
    assert r["exit"] == 3 and r["signal"] in (0, None) and r["timed_out"] is False
    for name in ("wall_ms", "cpu_ms", "memory_peak", "bytes_written"):
        assert isinstance(r[name], (int, float)) and r[name] >= 0
    assert r["violations"] == []
    for wall in r["walls"]:
        assert set(wall) >= {"name", "requested", "enforced", "detail"}
    assert len(r["walls"]) == 26


def test_a_violation_says_what_which_wall_and_what_instead(bawn):
    done, r = bawn.json("--root", "base", "--", "unshare", "-r", "true")
    assert done.returncode != 0
    v = [v for v in r["violations"] if v["wall"] == "seccomp"]
    assert v and v[0]["kind"] == "syscall" and "unshare" in v[0]["tried"]
    assert v[0]["instead"] and v[0]["count"] >= 1


def test_json_into_a_file(bawn):
    path = os.path.join(bawn.work, "result.json")
    done = bawn.run("--root", "base", "--json=" + path, "--", "echo", "x")
    assert done.stdout == "x\n"
    with open(path, encoding="utf-8") as f:
        assert json.load(f)["exit"] == 0


def test_hostile_bytes_do_not_break_the_result(bawn):
    script = r"""echo x > "$(printf '/usr/\377\033[31m"')"; exit 1"""
    _, r = bawn.json("--", "/bin/sh", "-c", script)
    assert r["exit"] == 1
    assert "\x1b" not in json.dumps(r, ensure_ascii=False)


@pytest.mark.modes("root")
def test_as_root_every_wall_is_enforced(bawn, root):
    _, r = bawn.json("--root", root, "--memory", "256M", "--cpus", "1", "--pids", "64", "--disk", "64M",
                     "--io", "100M", "--timeout", "60", "--", "true")
    not_there = {w["name"]: w for w in r["walls"] if w["enforced"] != "enforced"}
    if root == "base":
        not_there.pop("masks", None)  # the clean root has nothing to hide
    assert not_there == {}


@pytest.mark.modes("user", "userns")
def test_rootless_every_required_wall_is_there(bawn, root):
    _, r = bawn.json("--root", root, "--", "true")
    for wall in r["walls"]:
        if wall["requested"] == "required":
            assert wall["enforced"] in ("enforced", "fallback"), wall


@pytest.mark.parametrize("wall", ["seccomp", "landlock", "net", "uts", "ipc", "cgroupns"])
def test_a_wall_that_is_off_is_recorded_as_off(bawn, wall):
    _, r = bawn.json("--root", "base", "--wall", wall + "=off", "--", "true")
    record = {w["name"]: w for w in r["walls"]}[wall]
    assert record["requested"] == "off" and record["enforced"] == "off"


def test_plan_prints_and_does_not_run(bawn, root):
    done = bawn.run("--root", root, "--plan", "--", "touch", "made")
    assert done.returncode == 0
    assert "pivot" in done.stdout.lower()
    assert not os.path.exists(os.path.join(bawn.work, "made"))


def test_plan_as_json(bawn):
    done = bawn.run("--root", "base", "--plan", "--json", "--", "true")
    assert isinstance(json.loads(done.stdout), (dict, list))


# ---- many at once ------------------------------------------------------------------------------

def test_twenty_at_once(bawn):
    results = []

    def one(i):
        results.append((i, bawn.sh(f"echo {i}; exit {i}", "--root", "base")))

    threads = [threading.Thread(target=one, args=(i,)) for i in range(20)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(results) == 20
    for i, done in results:
        assert (done.returncode, done.stdout) == (i, f"{i}\n")
