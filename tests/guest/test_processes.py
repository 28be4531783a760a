# SPDX-License-Identifier: Apache-2.0
"""Processes of the guest: start, output, input, signals, timeouts, readers that come and go."""
import errno
import os
import signal
import time

import pytest

from guest_client import *

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="changes users: needs root")


def refused(fn, *args, **how):
    with pytest.raises(Refused) as e:
        fn(*args, **how)
    return e.value


def gone(pid):
    return not os.path.exists(f"/proc/{pid}")


def soon(condition, seconds=10):
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "did not happen in time"
        time.sleep(0.01)


def test_output_and_status_come_apart(client):
    out, err, end = client.sh("echo out; echo err >&2; exit 7")
    assert (out, err, end["exit_code"], end["signal"]) == (b"out\n", b"err\n", 7, 0)
    assert end["end"] == [0, 4, 4, 0]
    assert end["cpu_us"] > 0 and end["rss_peak"] > 0


def test_a_signal_is_told(client):
    _, _, end = client.sh("kill -TERM $$")
    assert (end["exit_code"], end["signal"], end["is_timed_out"]) == (-1, signal.SIGTERM, 0)


def test_environment_in_its_order(guest):
    c = guest.connect()
    c.bind(id="box1", env=["A=bound", "B=bound", "PATH=/bin:/usr/bin"])
    out, _, _ = c.run(["env"], env=["B=asked", "C=asked"])
    env = dict(line.split("=", 1) for line in out.decode().splitlines())
    assert (env["A"], env["B"], env["C"]) == ("bound", "asked", "asked")
    assert env["E2B_SANDBOX"] == "true" and env["E2B_SANDBOX_ID"] == "box1"
    assert env["PATH"] == "/bin:/usr/bin"
    for name in ("HOME", "USER", "LOGNAME", "SHELL"):
        assert env[name]
    assert "TERM" not in env
    assert c.ask(ENVS, b"", ENVS_MSG).texts() == ["A=bound", "B=bound", "PATH=/bin:/usr/bin"]


def test_working_directory(client, tmp_path):
    assert client.run(["pwd"], cwd=str(tmp_path))[0].decode().strip() == str(tmp_path)
    e = refused(client.run, ["pwd"], cwd="/no/such")
    assert (e.code, e.why) == (errno.EINVAL, "cwd '/no/such' does not exist")
    home = client.run(["sh", "-c", "echo $HOME"])[0].decode().strip()
    assert client.run(["pwd"], cwd="~")[0].decode().strip() == os.path.realpath(home)


def test_programs_that_cannot_run(client, tmp_path):
    assert refused(client.run, ["no-such-program"]).why == "'no-such-program': no such program"
    assert refused(client.run, ["/no/such"]).code == errno.ENOENT
    assert refused(client.run, [str(tmp_path)]).code == errno.EACCES
    assert refused(client.run, []).code == errno.EINVAL
    assert refused(client.run, [""]).code == errno.EINVAL
    assert client.processes() == []


def test_a_text_without_interpreter_runs_in_the_shell(client, tmp_path):
    script = tmp_path / "script"
    script.write_text("echo shell $1\n")
    script.chmod(0o755)
    assert client.run([str(script), "x"])[0] == b"shell x\n"


def test_path_of_the_request_is_searched(client, tmp_path):
    tool = tmp_path / "mytool"
    tool.write_text("#!/bin/sh\necho mine\n")
    tool.chmod(0o755)
    assert client.run(["mytool"], env=[f"PATH={tmp_path}"])[0] == b"mine\n"


def test_nothing_leaks_into_a_process(client):
    out, _, _ = client.sh("ls /proc/self/fd; grep -E '^Sig(Blk|Ign)' /proc/self/status; umask")
    lines = out.decode().split()
    assert lines[:4] == ["0", "1", "2", "3"], "3 is of ls itself"
    assert "SigBlk: 0000000000000000" in " ".join(lines)
    assert "SigIgn: 0000000000000000" in " ".join(lines)
    assert lines[-1] == "0022"


@AS_ROOT
def test_users(client):
    out, _, _ = client.run(["id", "-un"], user="nobody")
    assert out == b"nobody\n"
    assert client.run(["id", "-u"], user="65534")[0] == b"65534\n"
    assert client.sh("grep CapEff /proc/self/status", user="nobody")[0].split()[1] == b"0" * 16
    e = refused(client.run, ["id"], user="who-is-this")
    assert e.code == errno.EKEYREJECTED and "who-is-this" in e.why


def test_limits(client):
    assert client.run(["bash", "-c", "ulimit -n; ulimit -u; ulimit -v"], open_files=77, processes=5000,
                     memory_max=1 << 30)[0].split() == [b"77", b"5000", b"1048576"]


def test_a_timeout_kills_the_session(client, tmp_path):
    pids = tmp_path / "pids"
    ch = client.start(["sh", "-c", f"sleep 100 & echo $! $$ > {pids}; sleep 100"], timeout_ms=400)
    ch.started()
    out, _, end = ch.finish()
    assert (end["exit_code"], end["signal"], end["is_timed_out"]) == (-1, signal.SIGKILL, 1)
    for pid in pids.read_text().split():
        soon(lambda: gone(pid))


def test_a_background_child_keeps_the_stream_open(client):
    ch = client.start(["sh", "-c", "(sleep 0.3; echo late) & echo first"])
    ch.started()
    out, _, end = ch.finish()
    assert (out, end["exit_code"]) == (b"first\nlate\n", 0)


def test_after_a_kill_nobody_waits_for_children(client):
    ch = client.start(["sh", "-c", "setsid sleep 5 & echo up; sleep 100"])
    pid = ch.started()["pid"]
    ch.wait(lambda: ch.out() == b"up\n")
    began = time.monotonic()
    client.signal(pid, signal.SIGKILL)
    _, _, end = ch.finish()
    assert end["signal"] == signal.SIGKILL
    assert time.monotonic() - began < 3
    assert refused(client.signal, pid, signal.SIGKILL).code == errno.ESRCH


def test_killed_means_reaped(client):
    for how in (0, PTY):
        ch = client.start(["sleep", "100"], flags=how)
        pid = ch.started()["pid"]
        client.signal(pid, signal.SIGKILL)
        assert gone(pid), "the answer to a kill comes after the death"
        ch.until_end()


def test_orphans_are_reaped(client):
    out, _, _ = client.sh("(setsid sh -c 'echo $$' & ) ; sleep 0.1")
    soon(lambda: gone(int(out)))


def test_input(client):
    ch = client.start(["sh", "-c", "read a; echo got $a; cat; echo end"], flags=STDIN)
    pid = ch.started()["pid"]
    client.input(pid, b"one\n").until_end()
    ch.wait(lambda: ch.out() == b"got one\n")
    client.input(pid, b"two\n").until_end()
    client.ask(CLOSE_INPUT, which(pid), OK)
    assert ch.finish()[0] == b"got one\ntwo\nend\n"
    assert refused(client.input(pid, b"x").until_end).code == errno.ESRCH


def test_no_stdin_is_said(client):
    ch = client.start(["sleep", "100"])
    pid = ch.started()["pid"]
    assert refused(client.input(pid, b"x").until_end).code == errno.EPIPE
    client.signal(pid, signal.SIGKILL)


def test_a_closed_stdin_is_said(client):
    ch = client.start(["sh", "-c", "exec 0<&-; echo ready; sleep 100"], flags=STDIN)
    pid = ch.started()["pid"]
    ch.wait(lambda: ch.out() == b"ready\n")
    assert refused(client.input(pid, b"x").until_end).code == errno.EPIPE
    client.signal(pid, signal.SIGKILL)


def test_much_input_is_slowed_not_lost(client):
    data = os.urandom(5 << 20)
    ch = client.start(["sh", "-c", "sleep 0.2; sha256sum"], flags=STDIN)
    pid = ch.started()["pid"]
    client.input(pid, data).until_end()
    client.ask(CLOSE_INPUT, which(pid), OK)
    import hashlib
    assert ch.finish()[0].split()[0].decode() == hashlib.sha256(data).hexdigest()


def test_input_to_one_that_never_reads_has_a_bound(client):
    ch = client.start(["sleep", "100"], flags=STDIN)
    pid = ch.started()["pid"]
    inputs = [client.input(pid, b"x" * (1 << 20), end=False) for _ in range(40)]
    client.ping()
    refusals = [i.end[0] for i in inputs if i.end]
    assert refusals and set(refusals) == {errno.EAGAIN}
    client.signal(pid, signal.SIGKILL)
    ch.finish()
    client.ping()


def test_terminal(client):
    ch = client.start(["sh", "-c", "tty; stty size; read x; stty size; echo got $x"], flags=PTY,
                      cols=100, rows=30)
    pid = ch.started()["pid"]
    ch.wait(lambda: b"30 100" in ch.out(PTY_OUT))
    assert b"/dev/pts/" in ch.out(PTY_OUT)
    client.ask(RESIZE, which(pid) + u16(120) + u16(40), OK)
    client.input(pid, b"word\n").until_end()
    ch.until_end()
    assert b"40 120" in ch.out(PTY_OUT) and b"got word" in ch.out(PTY_OUT)
    assert refused(client.ask, RESIZE, which(pid) + u16(1) + u16(1), OK).code == errno.ESRCH


def test_end_of_input_on_a_terminal(client):
    ch = client.start(["sh", "-c", "cat; echo over"], flags=PTY, env=["TERM=dumb"])
    pid = ch.started()["pid"]
    client.ask(CLOSE_INPUT, which(pid), OK)
    ch.until_end()
    assert b"over" in ch.out(PTY_OUT)


def test_resize_without_terminal(client):
    ch = client.start(["sleep", "100"])
    pid = ch.started()["pid"]
    assert refused(client.ask, RESIZE, which(pid) + u16(1) + u16(1), OK).code == errno.EINVAL
    client.signal(pid, signal.SIGKILL)


def test_list_shows_what_was_asked_for(client):
    ch = client.start(["sleep", "100"], env=["K=v"], cwd="/tmp", tag="t1", key="k1")
    pid = ch.started()["pid"]
    [p] = client.processes()
    assert (p["pid"], p["argv"], p["env"], p["cwd"]) == (pid, ["sleep", "100"], ["K=v"], "/tmp")
    assert (p["tag"], p["key"], p["is_running"]) == ("t1", "k1", 1)
    assert abs(p["started_ms"] / 1000 - time.time()) < 60
    client.ask(SIGNAL, which(0, "", "t1") + u32(9) + u8(1), OK)
    ch.finish()
    [p] = client.processes()
    assert p["is_running"] == 0 and p["exit"]["signal"] == 9


def test_a_key_runs_once(guest, client, tmp_path):
    count = tmp_path / "count"
    how = dict(key="only-once")
    first = client.start(["sh", "-c", f"echo x >> {count}; echo hello; sleep 0.3; exit 4"], **how)
    assert first.started()["is_new"] == 1
    other = guest.connect()
    second = other.start(["sh", "-c", "echo something else"], **how)
    s = second.started()
    assert s["is_new"] == 0
    assert first.finish()[0::2][1]["exit_code"] == second.finish()[2]["exit_code"] == 4
    assert first.out() == second.out() == b"hello\n"
    third = client.start(["true"], **how)
    assert third.started()["is_new"] == 0
    assert third.finish()[0] == b"hello\n"
    assert count.read_text() == "x\n"


def test_a_lost_client_goes_on_by_offset(guest):
    a = guest.connect()
    ch = a.start(["sh", "-c", "echo 0123456789; sleep 0.4; echo abc; exit 5"])
    pid = ch.started()["pid"]
    ch.wait(lambda: ch.out() == b"0123456789\n")
    a.close()
    b = guest.connect()
    ch = b.attach(which(pid), 2, (0, 4, 0, 0))
    assert ch.started()["offset"] == [0, 4, 0, 0]
    out, _, end = ch.finish()
    assert (out, end["exit_code"]) == (b"456789\nabc\n", 5)
    again = b.attach(which(pid), 0)
    again.started()
    assert again.finish()[0] == b"0123456789\nabc\n"
    now = b.attach(which(pid), 1)
    assert now.started()["offset"][STDOUT] == 15
    assert now.finish()[0] == b""
    assert refused(b.attach(which(pid), 2, (0, 99, 0, 0)).started).code == errno.EINVAL
    assert refused(b.attach(which(999999)).started).code == errno.ESRCH


def test_what_fell_out_of_the_ring_is_said(client):
    ch = client.start(["sh", "-c", "head -c 3000000 /dev/zero; echo end"])
    pid = ch.started()["pid"]
    ch.finish(30)
    late = client.attach(which(pid), 0)
    late.started()
    late.until_end()
    kind, body = late.messages[0]
    assert kind == LOST
    r = Reader(body)
    stream, start, end = r.u8(), r.u64(), r.u64()
    assert (stream, start) == (STDOUT, 0)
    assert end + len(late.out()) == 3000004
    assert len(late.out()) >= 900_000 and late.out().endswith(b"end\n")


def test_a_reader_that_takes_nothing_stops_the_process(guest, client, tmp_path):
    size = 20 << 20
    ch = client.start(["sh", "-c", f"head -c {size} /dev/zero; touch {tmp_path}/done"])
    ch.give_credit = False
    ch.started()
    ch.wait(lambda: len(ch.out()) == GRANT)
    time.sleep(0.3)
    client.ping()
    assert len(ch.out()) == GRANT
    assert not (tmp_path / "done").exists()
    # Others are not held up, and when the reader goes, so does the process.
    other = guest.connect()
    assert other.sh("echo fine")[0] == b"fine\n"
    ch.send_end(errno.ECANCELED)
    soon(lambda: (tmp_path / "done").exists())
    ch.wait(lambda: ch.end)


def test_without_a_reader_a_process_runs_on(guest, tmp_path):
    c = guest.connect()
    ch = c.start(["sh", "-c", f"head -c 20000000 /dev/zero; touch {tmp_path}/done"])
    ch.started()
    c.close()
    soon(lambda: (tmp_path / "done").exists())


def test_all_bytes_arrive_in_order(client):
    ch = client.start(["sh", "-c", "i=0; while [ $i -lt 60000 ]; do echo line $i; i=$((i+1)); done"])
    ch.started()
    out = ch.finish(60)[0].decode().splitlines()
    assert out == [f"line {i}" for i in range(60000)]


def test_many_at_once(client):
    running = [client.start(["sh", "-c", f"sleep 0.2; echo {i}; exit {i % 100}"]) for i in range(200)]
    for i, ch in enumerate(running):
        ch.started()
        out, _, end = ch.finish(60)
        assert (out.decode().strip(), end["exit_code"]) == (str(i), i % 100)


def test_ended_processes_make_room(client):
    for i in range(530):
        client.run(["true"])
    assert len(client.processes()) <= 512
    running = [client.start(["sleep", "100"]) for _ in range(512)]
    for ch in running:
        ch.started()
    assert refused(client.start(["true"]).started).code == errno.EAGAIN
    for ch in running:
        ch.send_end(errno.ECANCELED)
    for p in client.processes():
        client.signal(p["pid"], signal.SIGKILL)
    soon(lambda: not any(p["is_running"] for p in client.processes()))
    assert client.sh("echo again")[0] == b"again\n"


def test_old_output_goes_before_a_new_process_is_refused(client):
    first = client.start(["sh", "-c", "head -c 1000000 /dev/zero; exit 9"])
    pid = first.started()["pid"]
    first.finish(60)
    for _ in range(80):
        client.sh("head -c 1000000 /dev/zero")
    late = client.attach(which(pid), 0)
    late.started()
    out, _, end = late.finish()
    assert (out, end["exit_code"], end["end"][STDOUT]) == (b"", 9, 1000000)


@AS_ROOT
def test_a_terminal_belongs_to_its_user(client):
    ch = client.start(["sh", "-c", "echo by name > $(tty); stat -c %U $(tty)"], flags=PTY,
                      user="nobody")
    ch.started()
    ch.until_end()
    assert ch.out(PTY_OUT) == b"by name\r\nnobody\r\n"


def test_the_guest_outlives_signals_meant_for_others(guest, client):
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1):
        guest.p.send_signal(s)
    assert client.sh("trap - TERM; kill -TERM $$")[2]["signal"] == signal.SIGTERM


def test_arguments_that_are_too_long(client):
    assert refused(client.start(["echo", "x" * 90000, "y" * 40000]).started).code == errno.E2BIG
    assert len(client.run(["echo", "x" * 90000])[0]) == 90001
