# SPDX-License-Identifier: Apache-2.0
"""`bawn serve`: start and stop, restarts, reload, sockets, config, what the api role may touch."""
import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time

import pytest

from server import BAWN, Server, free_port


def wait_for(what, seconds=15):
    """The first true value of what(); the roles have no other way to tell us."""
    end = time.monotonic() + seconds
    while True:
        value = what()
        if value:
            return value
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)


def answers(server):
    try:
        return server.request("GET", "/health", key=None, timeout=2).status == 204
    except OSError:
        return False


def run_soon(server, made, command):
    """As server.run(), but a server that is just coming back gives None."""
    try:
        return server.run(made, command)
    except (OSError, RuntimeError, http.client.HTTPException):
        return None


def start_stream(server, made, command):
    """A socket on which the events of a process come."""
    payload = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-c", command]}}).encode()
    frame = b"\0" + len(payload).to_bytes(4, "big") + payload
    fields = {"Host": "x", "Content-Type": "application/connect+json",
              "Content-Length": str(len(frame)), **server.inside(made)}
    s = socket.create_connection(("127.0.0.1", server.port), 10)
    s.sendall(b"POST /process.Process/Start HTTP/1.1\r\n" +
              "".join(f"{k}: {v}\r\n" for k, v in fields.items()).encode() + b"\r\n" + frame)
    return s


def boxes(server):
    """What the warden has, spares included."""
    return sorted(os.listdir(os.path.join(server.state, "boxes")))


def test_start_and_stop(fresh):
    server = fresh()
    assert answers(server)
    server.stop()
    assert server.process.returncode == 0
    assert "event=stopped" in server.log()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", server.port), 1)


def test_state_directory_has_its_owners(fresh, mode):
    server = fresh()
    api = os.stat(f"/proc/{server.roles()['api']}").st_uid
    egress = os.stat(f"/proc/{server.roles()['egress']}").st_uid
    owners = {"db": api, "ca": egress, "secrets": egress}
    for name, bits in (("run", 0o755), ("db", 0o700), ("boxes", 0o711), ("templates", 0o700),
                       ("ca", 0o700), ("secrets", 0o700)):
        found = os.stat(os.path.join(server.state, name))
        assert found.st_mode & 0o7777 == bits, name
        if mode == "root":
            assert found.st_uid == owners.get(name, 0), name
    # Who may open a file may lock it: a stranger's lock would keep us from starting.
    assert os.stat(os.path.join(server.state, "run", "lock")).st_mode & 0o777 == 0o600
    warden = os.stat(os.path.join(server.state, "run", "warden.sock"))
    assert warden.st_mode & 0o777 == (0o660 if mode == "root" else 0o600)
    assert mode != "root" or (warden.st_uid, warden.st_gid) == (api, egress)
    assert os.stat(os.path.join(server.state, "run", "egress.sock")).st_mode & 0o777 == 0o600
    assert os.stat(os.path.join(server.state, "run", "api.sock")).st_mode & 0o777 == 0o600
    if mode == "root":
        assert api != 0


@pytest.mark.modes("root")
def test_a_state_directory_of_somebody_else_is_refused(fresh):
    """Whoever owns it could write a record that names any process, for root to kill."""
    server = fresh()
    for uid, bits in ((54321, 0o755), (0, 0o775), (0, 0o1777)):
        other = os.path.join(server.top, f"of-{uid}-{bits:o}")
        os.mkdir(other)
        os.chmod(other, bits)
        os.chown(other, uid, 0)
        done = server.bawn("serve", "--state", other, "--listen", "127.0.0.1:0")
        assert done.returncode == 125 and "by others than root" in done.stderr, done
        assert os.listdir(other) == []


def test_a_second_server_on_the_same_state_is_refused(fresh):
    server = fresh()
    done = server.bawn("serve", "--state", server.state, "--listen", "127.0.0.1:0")
    assert done.returncode == 125
    assert f"process {server.process.pid} already serves" in done.stderr
    assert answers(server)


def test_an_address_in_use_is_refused(fresh):
    server = fresh()
    other = Server(mode=server.mode)
    try:
        done = other.bawn("serve", "--state", other.state, "--listen", f"127.0.0.1:{server.port}")
        assert done.returncode == 125 and "choose another with --listen" in done.stderr
    finally:
        other.destroy()


@pytest.mark.parametrize("role", ["api", "warden", "egress"])
def test_a_killed_role_is_restarted_and_the_sandbox_lives_on(fresh, role):
    server = fresh()
    made = server.create()
    assert server.run(made, "echo one > kept")[0] == 0
    for _ in range(3):
        old = server.roles()[role]
        os.kill(old, signal.SIGKILL)
        wait_for(lambda: server.roles().get(role, old) != old)
        wait_for(lambda: answers(server))
    wait_for(lambda: run_soon(server, made, "cat kept") == (0, b"one\n", b""))
    assert [s["sandboxID"] for s in server.list()] == [made["sandboxID"]]
    assert server.log().count("signal=9") == 3


def test_a_killed_supervisor_takes_its_roles_and_no_sandbox(fresh):
    server = fresh()
    made = server.create()
    roles = server.roles()
    server.process.kill()
    server.process.wait()
    for pid in roles.values():
        wait_for(lambda: not os.path.exists(f"/proc/{pid}"))
    server.start()
    assert server.run(made, "echo there")[1] == b"there\n"


def test_sigterm_keeps_sandboxes(fresh):
    server = fresh()
    made = server.create()
    assert server.run(made, "sleep 1000 > /dev/null 2>&1 & echo $! > pid")[0] == 0
    server.stop()
    assert server.process.returncode == 0 and boxes(server) == [made["sandboxID"]]
    server.start()
    assert server.run(made, "kill -0 $(cat pid) && echo alive")[1] == b"alive\n"


def test_kill_on_exit_leaves_nothing(fresh):
    server = fresh("--kill-on-exit")
    made = [server.create()["sandboxID"] for _ in range(3)]
    # Beside them only spares, which are nobody's.
    assert [b for b in boxes(server) if not b.startswith("spare")] == sorted(made)
    server.stop(seconds=60)
    assert server.process.returncode == 0 and boxes(server) == []
    server.start()
    assert server.list() == []


def test_streams_end_and_short_requests_finish_on_sigterm(fresh):
    server = fresh()
    made = server.create()
    stream = start_stream(server, made, "echo begun; sleep 1000")
    assert b"start" in stream.recv(65536)
    began = time.monotonic()
    server.stop()
    assert time.monotonic() - began < 8
    stream.settimeout(5)
    try:
        while stream.recv(65536):
            pass
    except ConnectionResetError:
        pass


def test_a_second_sigterm_is_heard_at_once(fresh):
    server = fresh()
    os.kill(server.roles()["api"], signal.SIGSTOP)
    server.process.send_signal(signal.SIGTERM)
    wait_for(lambda: "event=stopping" in server.log())
    server.process.send_signal(signal.SIGTERM)
    assert server.process.wait(5) == 0


def config(server, text):
    path = os.path.join(server.top, "config.yaml")
    with open(path, "w", encoding="ascii") as f:
        f.write(text)
    os.chmod(path, 0o644)
    return path


def test_reload_takes_the_new_config_and_refuses_nobody(fresh):
    server = fresh(start=False)
    path = config(server, "domain: one.example\n")
    server.options = ["--config", path]
    server.start()
    made = server.create()
    assert made["domain"] == "one.example"
    old = server.roles()["api"]
    config(server, "domain: two.example\nttl: 10m\n")
    server.process.send_signal(signal.SIGHUP)
    # Connections wait in the queue of a socket that never closes.
    end = time.monotonic() + 3
    while time.monotonic() < end and server.roles().get("api", old) == old:
        assert server.request("GET", "/health", key=None).status in (204, 503)
    wait_for(lambda: server.roles().get("api", old) != old)
    wait_for(lambda: answers(server))
    assert server.create()["domain"] == "two.example"
    assert server.run(made, "echo still")[1] == b"still\n"
    # A config that cannot be read changes nothing.
    old = server.roles()["api"]
    config(server, "domian: three.example\n")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "event=reload-refused" in server.log())
    assert "did you mean" in server.log()
    assert server.roles()["api"] == old and answers(server)


def test_reload_moves_to_another_address(fresh):
    server = fresh(start=False)
    other = free_port()
    path = config(server, f"listen: 127.0.0.1:{server.port}\n")
    server.options, server.is_listen_by_config = ["--config", path], True
    server.start()
    config(server, f"listen: [127.0.0.1:{other}]\n")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "event=ready-again" in server.log())
    before, server.port = server.port, other
    assert answers(server)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", before), 1)


@pytest.mark.parametrize("text,expected", [
    ("listne: 127.0.0.1:1\n", ":1: unknown field 'listne'; did you mean 'listen'?"),
    ("domain: a.example\nttl: soon\n", ":2: ttl: "),
    ("\n\nkill-on-exit: maybe\n", ":3: kill-on-exit: accepted: true, false"),
    ("memory: [1G]\n", ":1: a field takes one value"),
    ("domain: a\ndomain: b\n", ":2: this field is given twice"),
    ("domain: &x a\n", ":1: anchors"),
    ("- a\n", ":1: a config is a map"),
    ("domain: 'a\n", "not YAML"),
])
def test_config_errors_name_the_line(fresh, text, expected):
    server = fresh(start=False)
    done = server.bawn("serve", "--state", server.state, "--config", config(server, text))
    assert done.returncode == 125 and expected in done.stderr


@pytest.mark.parametrize("words,expected", [
    (["--listn", "x"], "did you mean '--listen'?"),
    (["--listen", "nowhere"], "ADDR:PORT"),
    (["--listen", "127.0.0.1:99999"], "the port"),
    (["--listen", "unix:relative"], "must be absolute"),
    (["--tls-cert", "/nonexistent"], "go together"),
    (["--config"], "needs a value"),
    (["word"], "unexpected 'word'"),
])
def test_wrong_options_say_what_is_accepted(fresh, words, expected):
    server = fresh(start=False)
    done = server.bawn("serve", "--state", server.state, *words)
    assert done.returncode == 125 and expected in done.stderr


def test_unix_socket_with_mode_and_leftover(fresh):
    server = fresh(start=False)
    path = os.path.join(server.top, "web.sock")
    server.options = ["--listen", f"unix:{path}"]
    server.start()
    assert os.stat(path).st_mode & 0o777 == 0o660
    server.process.kill()
    server.process.wait()
    assert os.path.exists(path)
    server.start()  # what a killed server left is taken away
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(path)
        s.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert s.recv(100).startswith(b"HTTP/1.1 204")
    server.stop()
    assert not os.path.exists(path)


def test_a_state_directory_with_a_long_name(fresh):
    server = fresh(start=False)
    server.state = os.path.join(server.top, "long-" * 30, "state")
    os.mkdir(os.path.dirname(server.state))
    if server.prefix:
        owner = os.stat(server.top)
        os.chown(os.path.dirname(server.state), owner.st_uid, owner.st_gid)
    server.start()
    assert server.run(server.create(), "echo fine")[1] == b"fine\n"
    done = server.bawn("exec", "--state", server.state, server.list()[0]["sandboxID"], "hostname")
    assert done.returncode == 0, done.stderr
    server.request("DELETE", f"/sandboxes/{server.list()[0]['sandboxID']}")


LAUNCHER = """
import os, socket, sys
s = socket.socket()
s.bind(("127.0.0.1", int(sys.argv[1])))
s.listen(16)
os.dup2(s.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_FDS="1", LISTEN_PID=str(os.getpid()), NOTIFY_SOCKET=sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])
"""


def test_socket_activation_and_notify(fresh):
    server = fresh(start=False)
    told = os.path.join(server.top, "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(told)
        os.chmod(told, 0o777)
        manager.settimeout(20)
        with open(server.log_path, "ab") as log:
            server.process = subprocess.Popen(
                [*server.prefix, sys.executable, "-c", LAUNCHER, str(server.port), told, BAWN,
                 "serve", "--state", server.state],
                env=server.environment(), cwd="/", stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        assert b"READY=1" in manager.recv(4096)
        assert answers(server)
        server.process.send_signal(signal.SIGHUP)
        reloading = manager.recv(4096)
        assert b"RELOADING=1" in reloading and b"MONOTONIC_USEC=" in reloading
        assert b"READY=1" in manager.recv(4096)
        server.process.send_signal(signal.SIGTERM)
        assert b"STOPPING=1" in manager.recv(4096)
        assert server.process.wait(15) == 0
        # No role may speak for us.
        assert "NOTIFY_SOCKET" not in server.log()


def make_certificate(server, name):
    """cert.pem and key.pem of a server with this common name; only its user can read the key."""
    cert, key = os.path.join(server.top, "cert.pem"), os.path.join(server.top, "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                    "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", f"/CN={name}", "-addext",
                    "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
    os.chmod(key, 0o600)
    if server.prefix:
        owner = os.stat(server.top)
        os.chown(key, owner.st_uid, owner.st_gid)
    return cert, key


def ask_by_tls(server, cert):
    """The first line of an answer, and whose certificate it came with."""
    context = ssl.create_default_context(cafile=cert)
    with socket.create_connection(("127.0.0.1", server.port), 5) as raw:
        with context.wrap_socket(raw, server_hostname="localhost") as s:
            s.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            return s.recv(100).split(b"\r\n")[0], dict(x[0] for x in s.getpeercert()["subject"])


def test_tls_and_its_renewal(fresh):
    server = fresh(start=False)
    cert, key = make_certificate(server, "first")
    server.options = ["--tls-cert", cert, "--tls-key", key]
    server.wait_ready = lambda: wait_for(lambda: "event=ready" in server.log())
    server.start()
    assert ask_by_tls(server, cert) == (b"HTTP/1.1 204 No Content", {"commonName": "first"})
    make_certificate(server, "second")
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: "event=ready-again" in server.log())
    assert ask_by_tls(server, cert) == (b"HTTP/1.1 204 No Content", {"commonName": "second"})


def test_json_log_is_json(fresh):
    server = fresh("--json-log")
    server.stop()
    lines = [json.loads(line) for line in server.log().splitlines()]
    assert {"supervisor", "api"} <= {one["role"] for one in lines}
    assert all({"time", "level", "event"} <= set(one) for one in lines)


def test_no_key_in_log_or_command_line(fresh):
    server = fresh()
    server.create()
    server.request("GET", "/v2/sandboxes", key="e2b_" + "0" * 40)
    assert server.key not in server.log()
    for pid in [server.process.pid, *server.roles().values()]:
        with open(f"/proc/{pid}/cmdline", "rb") as f:
            assert server.key.encode() not in f.read()


def status(pid, field):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as f:
        return next(line.split(":", 1)[1].split() for line in f if line.startswith(field + ":"))


def test_the_api_role_has_no_rights(fresh, mode):
    server = fresh()
    api = server.roles()["api"]
    for kind in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        assert int(status(api, kind)[0], 16) == 0, kind
    assert status(api, "NoNewPrivs") == ["1"]
    if mode == "root":
        assert int(status(api, "CapBnd")[0], 16) == 0
        assert 0 not in map(int, status(api, "Uid") + status(api, "Gid"))
        assert status(api, "Groups") == []


def test_the_local_socket_needs_no_key(fresh):
    server = fresh()
    done = server.bawn("ls", "--state", server.state, "--json")
    assert done.returncode == 0 and json.loads(done.stdout) == []


def test_spares_are_nobodys_and_used_once(fresh):
    server = fresh("--spares", "3")
    first = server.create()
    wait_for(lambda: sum(b.startswith("spare") for b in boxes(server)) == 3)
    before = set(boxes(server))
    # Nobody but the warden may connect to a spare's guest, the api role neither.
    for name in before:
        guest = os.stat(os.path.join(server.state, "boxes", name, "guest.sock"))
        owner = "warden" if name.startswith("spare") else "api"
        assert guest.st_mode & 0o777 == 0o600
        assert guest.st_uid == os.stat(f"/proc/{server.roles()[owner]}").st_uid
    assert [s["sandboxID"] for s in server.list()] == [first["sandboxID"]]
    made = [server.create() for _ in range(5)]
    names = {server.run(m, "hostname; cat /etc/hostname; grep -c $(hostname) /etc/hosts")[1] for m in made}
    assert names == {f"{m['sandboxID']}\n{m['sandboxID']}\n1\n".encode() for m in made}
    # Nothing of one owner is seen by the next: each is used once.
    assert server.run(made[0], "echo mine > /tmp/left; echo mine > ~/left")[0] == 0
    assert all(server.run(m, "ls /tmp ~")[1].find(b"left") < 0 for m in made[1:])
    wait_for(lambda: sum(b.startswith("spare") for b in boxes(server)) == 3)
    assert not before & set(boxes(server)) - {first["sandboxID"]}
    # A spare that died while it waited is not handed out.
    warden = server.roles()["warden"]
    mine = {f"bawn-box-{b}" for b in boxes(server) if b.startswith("spare")}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cgroup", encoding="utf-8") as f:
                text = f.read()
            if any(m in text for m in mine):
                os.kill(int(pid), signal.SIGKILL)
        except OSError:
            pass
    assert server.run(server.create(), "echo up")[1] == b"up\n"
    assert server.roles()["warden"] == warden
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(60)
    assert not [b for b in boxes(server) if b.startswith("spare")]


def test_no_spares_if_none_are_wanted(fresh):
    server = fresh("--spares", "0")
    made = server.create()
    assert server.run(made, "hostname")[1].decode() == made["sandboxID"] + "\n"
    time.sleep(0.2)
    assert boxes(server) == [made["sandboxID"]]


def test_runs_and_a_server_may_share_a_state_directory(fresh):
    one = fresh(start=False)
    env = {**one.environment(), "BAWN_STATE_DIR": one.state}

    def bawn(*words, given=None):
        done = subprocess.run([*one.prefix, BAWN, *words], env=env, cwd=one.top, input=given,
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    run = ("run", "--root", "base", "--allow", "a.test", "--", "cat", "/run/bawn-ca/ca.pem")
    mine = bawn(*run)
    bawn("secret", "set", "token", given="value of a run")
    one.start()
    made = one.create()
    theirs = one.request("GET", f"/v1/sandboxes/{made['sandboxID']}/network")
    assert theirs.status == 200
    # Both are there at once, and neither trusts what the other may write.
    assert bawn(*run) == mine != ""
    with open(os.path.join(one.state, "ca/public/ca.pem")) as f:
        assert f.read() not in mine
    owners = {name: os.stat(os.path.join(one.state, name)).st_uid for name in ("run-ca", "run-secrets", "run")}
    assert len(set(owners.values())) == 1, owners
