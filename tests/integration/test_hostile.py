# SPDX-License-Identifier: Apache-2.0
"""A command that means harm, and a host that goes on working beside it. Each was an attack that worked once."""
import os
import pty
import select
import subprocess
import time

import pytest


def put(caller, path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write(text)
    at = path
    while at != caller.top and at != "/":
        caller.own(at)
        at = os.path.dirname(at)
    return path


def replace(caller, path, text):
    """As an editor or `git config` saves: a new file renamed over the old one."""
    put(caller, path + ".new", text)
    os.rename(path + ".new", path)


def wait_for(path, seconds=30):
    end = time.monotonic() + seconds
    while not os.path.exists(path):
        assert time.monotonic() < end, f"{path} did not appear"
        select.select([], [], [], 0.01)


def test_a_mask_that_the_host_takes_away_is_put_back(bawn, caller, work):
    secret = put(caller, f"{work}/.env", "SECRET=old\n")
    config = put(caller, f"{work}/.git/config", "[core]\n")
    put(caller, f"{work}/.git/HEAD", "ref: refs/heads/main\n")
    script = ("touch ready; while [ ! -e go ]; do sleep 0.05; done; cat .env;"
              " echo evil >> .git/config && echo wrote; exit 3")
    box = subprocess.Popen(bawn.argv("run", "--", "/bin/sh", "-c", script), cwd=work, text=True,
                           env=caller.environment(), stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_for(f"{work}/ready")
    replace(caller, secret, "SECRET=new\n")
    replace(caller, config, "[core]\n\tbare = false\n")
    # Pid 1 of the box has been told by the kernel already; give it the time of a few turns.
    select.select([], [], [], 0.5)
    put(caller, f"{work}/go", "")
    out, err = box.communicate(timeout=60)
    assert box.returncode == 3, err
    assert "SECRET" not in out and "wrote" not in out
    assert "evil" not in open(config).read()
    assert "was replaced on the host" in err


def test_names_planted_before_a_kill_of_bawn_are_held_back(bawn, caller, work):
    box = subprocess.Popen(
        bawn.argv("run", "--", "/bin/sh", "-c", "mkdir .vscode; echo x > .vscode/tasks.json; touch ready; sleep 60"),
        cwd=work, env=caller.environment(), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_for(f"{work}/ready")
    box.kill()
    box.wait()
    end = time.monotonic() + 30
    while os.path.exists(f"{work}/.vscode"):
        assert time.monotonic() < end, ".vscode was left in the user's tree"
        select.select([], [], [], 0.01)


def test_a_command_that_stops_itself_meets_its_timeout(bawn):
    done = bawn.sh("kill -STOP $$; echo went on", "--timeout", "1s", "--kill-after", "1s", timeout=30)
    assert done.returncode == 124


def test_a_terminal_that_nobody_reads_meets_its_timeout(bawn, caller, work):
    master, slave = pty.openpty()
    box = subprocess.Popen(
        bawn.argv("run", "--timeout", "2s", "--kill-after", "1s", "--", "/bin/sh", "-c",
                  "stty raw -echo; touch ready; sleep 60"),
        cwd=work, env=caller.environment(), stdin=slave, stdout=slave, stderr=slave, start_new_session=True)
    wait_for(f"{work}/ready")
    os.set_blocking(master, False)
    for _ in range(64):  # more than a terminal holds
        try:
            os.write(master, b"x" * 4096)
        except BlockingIOError:
            break
    assert box.wait(30) == 124
    os.close(master)
    os.close(slave)


def test_a_directory_as_a_stream_is_refused(bawn, work):
    fd = os.open(work, os.O_RDONLY)
    try:
        done = bawn.run("--", "true", stdin=fd)
    finally:
        os.close(fd)
    assert done.returncode == 125 and "standard input is a directory" in done.stderr


def test_the_arguments_of_bawn_are_not_seen_inside(bawn, work):
    done = bawn.sh("cat /proc/1/cmdline", "--env", "SOME=thing")
    assert done.returncode == 0 and work not in done.stdout and "SOME" not in done.stdout


@pytest.mark.modes("root")
def test_file_capabilities_cannot_be_left_in_a_shared_directory(bawn, work):
    # VFS_CAP_REVISION_2, effective, cap_setuid
    script = ("import os, struct; open('f', 'w').close();"
              "os.setxattr('f', 'security.capability', struct.pack('<IIIII', 0x02000001, 1 << 7, 0, 0, 0))")
    done = bawn.run("--", "python3", "-c", script)
    assert done.returncode != 0
    assert "security.capability" not in os.listxattr(os.path.join(work, "f"))


def test_a_lease_on_a_shared_file_is_refused(bawn):
    done = bawn.run("--", "python3", "-c",
                    "import fcntl; fcntl.fcntl(open('f', 'w'), fcntl.F_SETLEASE, fcntl.F_WRLCK)")
    assert done.returncode != 0 and "Operation not permitted" in done.stderr


def test_a_socket_of_the_host_is_not_reached(bawn, caller, work):
    import socket
    path = os.path.join(caller.top, "service")
    with socket.socket(socket.AF_UNIX) as s:
        s.bind(path)
        os.chmod(path, 0o777)
        s.listen(1)
        done = bawn.run("--", "python3", "-c",
                        f"import socket; socket.socket(socket.AF_UNIX).connect({path!r}); print('connected')")
    os.unlink(path)
    assert done.returncode != 0 and "connected" not in done.stdout


def test_a_flood_of_refused_calls_ends_with_its_timeout(bawn):
    done, result = bawn.json(
        "--timeout", "2s", "--kill-after", "0", "--root", "base", "--", "python3", "-c",
        "import ctypes, signal; c = ctypes.CDLL(None)\nwhile True: c.mount(None, None, None, 0, None)", timeout=40)
    assert done.returncode == 124
    assert len(result["violations"]) <= 64 and result["violations_total"] > 64


def test_the_result_file_holds_nothing_of_the_command(bawn, work):
    path = os.path.join(work, "result.json")
    done = bawn.run(f"--json={path}", "--", "/bin/sh", "-c", "yes forged | head -c 100000 > result.json")
    assert done.returncode == 0, done.stderr
    text = open(path).read()
    assert "forged" not in text.split('"violations"')[-1] and text.count("\n") == 1
