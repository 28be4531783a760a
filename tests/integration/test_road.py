# SPDX-License-Identifier: Apache-2.0
"""The road out of a run: everything leads to one place, which is outside and decides.

The upstream and its name server are on this machine's loopback. What the road lets through is the
subject of tests/egress; here: that there is no way around it, and that nothing of it is left.
"""
import http.server
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import threading
import time

import pytest

NAME = "up.test"


class Names(threading.Thread):
    """Answers every A question with 127.0.0.1, and remembers what was asked."""

    def __init__(self):
        super().__init__(daemon=True)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self.asked = []

    def run(self):
        while True:
            query, peer = self.sock.recvfrom(2000)
            end, labels = 12, []
            while query[end]:
                labels.append(query[end + 1:end + 1 + query[end]].decode())
                end += query[end] + 1
            kind, = struct.unpack("!H", query[end + 1:end + 3])
            self.asked.append(".".join(labels))
            answer = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04\x7f\x00\x00\x01"
            self.sock.sendto(
                query[:2] + b"\x81\x80\x00\x01" + struct.pack("!H", kind == 1) + b"\0\0\0\0" +
                query[12:end + 5] + (answer if kind == 1 else b""), peer)


class Pages(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"the page of " + self.path.encode())

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def names():
    one = Names()
    one.start()
    return one


@pytest.fixture(scope="module")
def port():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Pages)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server.server_address[1]


@pytest.fixture
def options(names, port):
    """Names may lead to the loopback only because a rule names it."""
    return ["--resolver", f"127.0.0.1:{names.port}", "--allow", f"{NAME}:{port}",
            "--allow", f"127.0.0.1:{port}"]


GET = """
import sys, urllib.request, urllib.error
if sys.argv[1] == "direct":
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
else:
    opener = urllib.request.build_opener()
try:
    print(opener.open(sys.argv[2], timeout=20).read().decode())
except urllib.error.HTTPError as e:
    print(e.code, e.read().decode())
    sys.exit(4)
except OSError as e:
    print(e)
    sys.exit(5)
"""


def get(bawn, how, url, *options):
    done, result = bawn.json(*options, "--", "/usr/bin/python3", "-c", GET, how, url)
    return result["status"], done.stdout.rpartition("\n{")[0], result["violations"], done.stderr


@pytest.mark.parametrize("how", ["direct", "by proxy variables"])
def test_what_is_allowed_is_reached(bawn, root, options, port, how):
    status, out, violations, err = get(bawn, how.split()[0], f"http://{NAME}:{port}/x", "--root",
                                       root, *options)
    assert (status, out, violations) == (0, "the page of /x", []), err


def test_what_is_not_is_refused_explained_and_never_looked_up(bawn, root, options, names, port):
    status, out, violations, err = get(bawn, "direct", f"http://no.test:{port}/x", "--root", root,
                                       *options)
    assert status == 4 and out.startswith("403 ")
    assert json.loads(out[4:])["error"]["host"] == "no.test"
    assert [(v["kind"], v["wall"], v["count"]) for v in violations] == [("network", "net", 1)]
    assert violations[0]["tried"] == f"GET http://no.test:{port}/x"
    assert f"--allow no.test:{port}" in violations[0]["instead"]
    assert "wall 'net' refused GET http://no.test" in err
    assert "no.test" not in names.asked


def test_deny_wins(bawn, options, port):
    status, out, violations, _ = get(bawn, "direct", f"http://{NAME}:{port}/x", *options, "--deny",
                                     NAME + f":{port}")
    assert status == 4 and "run/deny-1" in out and len(violations) == 1


def test_the_record_says_that_there_is_a_road(bawn, options):
    _, result = bawn.json(*options, "--", "/bin/true")
    net, = [w for w in result["walls"] if w["name"] == "net"]
    assert net["enforced"] == "enforced" and net["detail"].endswith(", lo only, road")
    _, result = bawn.json("--", "/bin/true")
    net, = [w for w in result["walls"] if w["name"] == "net"]
    assert net["detail"].endswith(", lo only")


WAYS = """
import errno, json, os, socket, struct
said = {}
def way(name, f):
    try:
        said[name] = f() or "ok"
    except OSError as e:
        said[name] = errno.errorcode[e.errno]
def udp(family, address, port):
    s = socket.socket(family, socket.SOCK_DGRAM)
    s.settimeout(5)
    s.connect((address, port))
    s.send(b"x")
    return s.recv(9)
way("quic", lambda: udp(socket.AF_INET, "192.0.2.1", 443))
way("udp6", lambda: udp(socket.AF_INET6, "2001:db8::1", 443))
way("raw", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
way("packet", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3))
way("ping", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1).sendto(
    b"\\x08\\0\\0\\0\\0\\0\\0\\0", ("192.0.2.1", 0)))
def transparent():
    socket.socket().setsockopt(socket.SOL_IP, 19, 1)
way("transparent", transparent)
def steal(port, kind):
    s = socket.socket(socket.AF_INET6, kind)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    s.bind(("::", port))
way("steal tcp", lambda: steal(979, socket.SOCK_STREAM))
way("steal dns", lambda: steal(53, socket.SOCK_DGRAM))
def netlink(protocol, kind, head):
    s = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, protocol)
    body = struct.pack("=IHHII", 16 + len(head), kind, 5, 1, 0) + head
    s.send(body)
    code, = struct.unpack("=i", s.recv(4096)[16:20])
    if code:
        raise OSError(-code, "")
way("route", lambda: netlink(0, 25, struct.pack("=BBBBBBBBI", 2, 0, 0, 0, 255, 4, 254, 2, 0)))
way("filter", lambda: netlink(12, 10 << 8 | 2, struct.pack("=BBH", 1, 0, 0)))
print(json.dumps(said))
"""


@pytest.mark.parametrize("user", [[], ["--user", "root"]])
def test_there_is_no_other_way(bawn, options, user):
    if user and bawn.mode != "root":
        user = []  # a box of one id has no root
    done = bawn.run("--root", "base", *user, *options, "--", "/usr/bin/python3", "-c", WAYS)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[0])
    assert said.pop("quic") == said.pop("udp6") == "ECONNREFUSED"
    assert said.pop("steal tcp") in ("EADDRINUSE", "EACCES")
    assert said.pop("steal dns") in ("EADDRINUSE", "EACCES")
    assert set(said.values()) <= {"EPERM", "EACCES", "EAFNOSUPPORT"}, said


def test_the_authority_s_key_is_not_to_be_had(bawn, root, options, caller):
    state = os.path.join(caller.home, ".local/state/bawn")
    done = bawn.sh(f"cat {state}/run-ca/ca.key /var/lib/bawn/run-ca/ca.key /var/lib/bawn/ca/ca.key; ls /run/bawn-ca; env", "--root",
                   root, *options)
    assert "PRIVATE KEY" not in done.stdout
    assert "ca.pem" in done.stdout and "SSL_CERT_FILE=/run/bawn-ca/bundle.pem" in done.stdout
    assert "HTTPS_PROXY=http://127.0.0.1:979" in done.stdout


def test_a_variable_of_the_caller_wins(bawn, options):
    done = bawn.sh("echo $SSL_CERT_FILE,$HTTP_PROXY", *options, "--env", "SSL_CERT_FILE=/x")
    assert done.stdout == "/x,http://127.0.0.1:979\n"


def servers(mark):
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                words = f.read().split(b"\0")
        except OSError:
            continue
        if b"role-egress" in words and mark.encode() in words:
            found.append(int(pid))
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_who_serves_it_ends_with_bawn(bawn, options, names, number):
    mark = f"127.0.0.1:{names.port}"
    run = subprocess.Popen([*bawn.argv("run", *options, "--", "/bin/sh", "-c",
                                       "echo up; exec sleep 60")],
                           env=bawn.caller.environment(), cwd=bawn.work, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "up\n"
    end = time.monotonic() + 20
    while not servers(mark):
        assert time.monotonic() < end
        time.sleep(0.01)  # it is started beside the command
    run.send_signal(number)
    run.wait(20)
    while servers(mark):
        assert time.monotonic() < end
        time.sleep(0.01)  # the kernel ends it, and tells nobody of us


def test_who_serves_it_killed_ends_the_network_and_not_the_run(bawn, options, names, port):
    mark = f"127.0.0.1:{names.port}"
    run = subprocess.Popen(
        [*bawn.argv("run", "--json", *options, "--", "/bin/sh", "-c",
                    f"echo up; read x; /usr/bin/python3 -c '{GET}' direct http://192.0.2.1:{port}/")],
        env=bawn.caller.environment(), cwd=bawn.work, stdin=subprocess.PIPE,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert run.stdout.readline() == "up\n"
    end = time.monotonic() + 20
    while not servers(mark):
        assert time.monotonic() < end
        time.sleep(0.01)  # it is started beside the command
    for pid in servers(mark):
        os.kill(pid, signal.SIGKILL)
    while servers(mark):
        assert time.monotonic() < end
        time.sleep(0.01)  # it is killed, not yet gone
    out, _ = run.communicate("go\n", timeout=30)
    assert "refused" in out.splitlines()[0].lower()
    result = json.loads(out.splitlines()[-1])
    assert result["status"] == 5
    assert "has ended" in result["violations"][0]["tried"]


def test_without_the_other_program_nothing_is_run(bawn, options, tmp_path):
    alone = tmp_path / "bawn"
    shutil.copy(bawn.path, alone)
    os.chmod(tmp_path, 0o755)
    done = subprocess.run([*bawn.caller.prefix, str(alone), "run", *options, "--", "/bin/echo", "ran"],
                          env=bawn.caller.environment(), cwd=bawn.work, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 125 and done.stdout == ""
    assert "no road out" in done.stderr and "bawnd" in done.stderr
