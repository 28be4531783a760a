# SPDX-License-Identifier: Apache-2.0
"""What bad input gets: a typed error or a closed connection, bounded memory, no harm to others."""
import base64
import json
import os
import socket
import struct
import threading
import time

import pytest

from server import Server, frames

MB = 1 << 20
CONNECT = {"Content-Type": "application/connect+json", "Connect-Protocol-Version": "1"}


@pytest.fixture(scope="module")
def host():
    with Server(options=["--disk", "100M"]) as server:
        yield server


@pytest.fixture
def box(host):
    one = host.create()
    yield one
    host.request("DELETE", f"/sandboxes/{one['sandboxID']}")


@pytest.fixture(scope="module")
def bystander(host):
    """A sandbox that nobody attacks; it must answer whatever happens to the others."""
    return host.create(timeout=3600)


def still_well(host, bystander):
    assert host.run(bystander, "echo well")[:2] == (0, b"well\n")


def memory(host):
    """Resident bytes of the api role."""
    with open(f"/proc/{host.roles()['api']}/status", encoding="utf-8") as f:
        for line in f:
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def raw(host, data, seconds=10):
    """What the server says to these bytes until it closes or has answered."""
    with socket.create_connection(("127.0.0.1", host.port), timeout=seconds) as s:
        try:
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # it may have closed in the middle; what it said is still to be read
        said = b""
        try:
            while len(said) < MB:
                more = s.recv(65536)
                if not more:
                    break
                said += more
        except ConnectionResetError:
            pass
        return said


def http(host, *lines, body=b""):
    head = b"\r\n".join(line if isinstance(line, bytes) else line.encode() for line in lines)
    return raw(host, head + b"\r\n\r\n" + body)


KEYED = "GET /v2/sandboxes HTTP/1.1"
MALFORMED_HTTP = {
    "no request at all": b"\r\n\r\n\r\n\r\n",
    "noise": bytes(range(256)) * 8,
    "a TLS hello": bytes.fromhex("16030100050100000103"),
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": b"GET /health\r\n\r\n",
    "HTTP/3.7": b"GET /health HTTP/3.7\r\nHost: x\r\n\r\n",
    "no host": b"GET /health HTTP/1.1\r\n\r\n",
    "two hosts": b"GET /health HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "bare line feeds": b"GET /health HTTP/1.1\nHost: x\n\n",
    "a bare carriage return": b"GET /health HTTP/1.1\r\nHost: x\rX: y\r\n\r\n",
    "NUL in a header": b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n",
    "space before the colon": b"GET /health HTTP/1.1\r\nHost : x\r\n\r\n",
    "folded header": b"GET /health HTTP/1.1\r\nHost: x\r\nX: a\r\n b\r\n\r\n",
    "no colon": b"GET /health HTTP/1.1\r\nHost: x\r\nnonsense\r\n\r\n",
    "two lengths": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
    "negative length": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
    "length with a plus": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: +2\r\n\r\n{}",
    "length of 30 digits": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: " + b"9" * 30 + b"\r\n\r\n",
    "length and chunks": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n"
                         b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "coding that is not ours": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunked twice": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunk size of noise": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    "chunk size too big": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
                          + b"f" * 17 + b"\r\n",
    "chunk without its end": b"POST /sandboxes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}X",
    "a request line of 100 KB": b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    "a header of 1 MB": b"GET /health HTTP/1.1\r\nHost: x\r\nX: " + b"a" * MB + b"\r\n\r\n",
    "10,000 headers": b"GET /health HTTP/1.1\r\nHost: x\r\n" + b"".join(
        b"X-%d: y\r\n" % i for i in range(10_000)) + b"\r\n",
}


@pytest.mark.parametrize("name", MALFORMED_HTTP)
def test_malformed_http(host, bystander, name):
    said = raw(host, MALFORMED_HTTP[name])
    if said:
        status = int(said.split(b" ", 2)[1])
        assert 400 <= status < 600 and status not in (500, 502, 503, 504), said[:200]
        # One answer only: what followed must not have been taken for a request.
        assert said.count(b"HTTP/1.1 ") == 1, said
    still_well(host, bystander)


MALFORMED_JSON = [
    b"", b"{", b"[]", b"null", b'"base"', b"{}", b'{"templateID":1}', b'{"templateID":null}',
    b'{"templateID":"base","timeout":"x"}', b'{"templateID":"base","timeout":-1}',
    b'{"templateID":"base","timeout":0}', b'{"templateID":"base","timeout":1e400}',
    b'{"templateID":"base","timeout":99999999999999999999}',
    b'{"templateID":"base","metadata":[]}', b'{"templateID":"base","metadata":{"a":1}}',
    b'{"templateID":"base","envVars":{"a":{}}}', b'{"templateID":"base","envVars":{"a=b":"c"}}',
    b'{"templateID":"base","envVars":{"":"c"}}', b'{"templateID":"base","envVars":{"a":"b\\u0000c"}}',
    b'{"templateID":"base\\u0000"}', b'{"templateID":"../base"}', b'{"templateID":"' + b"a" * 70_000 + b'"}',
    b'{"templateID":"base"} {}', b"\xff\xfe{}", b'{"templateID":"\xff"}', b"[" * 100_000,
    b'{"a":' * 50_000, b'{"templateID":"base","templateID":"other"}',
]


@pytest.mark.parametrize("number", range(len(MALFORMED_JSON)))
def test_malformed_json(host, number):
    before = {s["sandboxID"] for s in host.list()}
    answer = host.request("POST", "/v2/sandboxes", MALFORMED_JSON[number],
                          {"Content-Type": "application/json"})
    assert answer.status in (400, 404, 413), answer.body[:200]
    error = answer.json()
    assert error["code"] == answer.status and error["message"]
    assert {s["sandboxID"] for s in host.list()} == before


def test_a_body_larger_than_any_request(host):
    answer = host.request("POST", "/v2/sandboxes", b" " * (8 * MB), {"Content-Type": "application/json"})
    assert answer.status == 413


# ---- Connect -------------------------------------------------------------------------------------

START = json.dumps({"process": {"cmd": "/bin/true", "args": []}, "stdin": False}).encode()


def frame(payload, flags=0, size=None):
    return bytes([flags]) + struct.pack(">I", len(payload) if size is None else size) + payload


MALFORMED_FRAMES = {
    "nothing": b"",
    "half a header": b"\0\0",
    "shorter than it says": frame(START, size=len(START) + 10),
    "longer than anything": frame(START, size=0xFFFFFFFF),
    "compressed": frame(START, flags=1),
    "an end first": frame(b"{}", flags=2),
    "unknown flags": frame(START, flags=0xF0),
    "two messages": frame(START) + frame(START),
    "no JSON": frame(b"\0\1\2\3"),
    "an array": frame(b"[]"),
    "no process": frame(b"{}"),
    "a process of the wrong type": frame(b'{"process":[]}'),
    "a command of the wrong type": frame(b'{"process":{"cmd":7}}'),
    "arguments of the wrong type": frame(b'{"process":{"cmd":"/bin/true","args":{"a":1}}}'),
    "an environment of the wrong type": frame(b'{"process":{"cmd":"/bin/true","envs":["a"]}}'),
    "NUL in the command": frame(b'{"process":{"cmd":"/bin/true\\u0000x"}}'),
    "a size of no terminal": frame(b'{"process":{"cmd":"/bin/true"},"pty":{"size":{"cols":-1,"rows":1e9}}}'),
    "a command that is missing": frame(b'{"process":{"cmd":"/no/such/file"}}'),
    "4 MB of arguments": frame(json.dumps({"process": {"cmd": "/bin/true", "args": ["x" * 4096] * 1024}}).encode()),
    "100,000 arguments": frame(json.dumps({"process": {"cmd": "/bin/true", "args": ["x"] * 100_000}}).encode()),
}


@pytest.mark.parametrize("name", MALFORMED_FRAMES)
def test_malformed_connect_frames(host, box, bystander, name):
    answer = host.request("POST", "/process.Process/Start", MALFORMED_FRAMES[name],
                          {**host.inside(box), **CONNECT}, key=None)
    if answer.status == 200:
        flags, last = list(frames(answer.body))[-1]
        assert flags == 2 and last["error"]["code"] in (
            "invalid_argument", "not_found", "unimplemented", "resource_exhausted", "internal",
            "out_of_range", "failed_precondition", "permission_denied", "unknown"), last
        assert last["error"]["code"] not in ("internal", "unknown"), last
    else:
        assert 400 <= answer.status < 500, (answer.status, answer.body[:200])
    still_well(host, bystander)


@pytest.mark.parametrize("message", [b"", b"{", b"[]", b'{"path":7}', b'{"path":"\\u0000"}', b'{"depth":-1}',
                                     b'{"path":"/","depth":1e300}', b'{"watcherId":7}', b'{"process":{"pid":-1}}'])
@pytest.mark.parametrize("method", ["filesystem.Filesystem/Stat", "filesystem.Filesystem/ListDir",
                                    "filesystem.Filesystem/RemoveWatcher", "process.Process/SendSignal",
                                    "process.Process/NoSuch", "no.Such/Service"])
def test_malformed_unary(host, box, method, message):
    answer = host.request("POST", f"/{method}", message,
                          host.inside(box, **{"Content-Type": "application/json"}), key=None)
    assert 200 <= answer.status < 502 and answer.status != 500, (answer.status, answer.body[:200])
    if answer.status >= 400:
        assert answer.json()["code"], answer.body


# ---- files ---------------------------------------------------------------------------------------

def post_files(host, box, body, kind, query="", **headers):
    return host.request("POST", f"/files{query}", body,
                        host.inside(box, **{"Content-Type": kind, **headers}), key=None, timeout=120)


PART = b'--x\r\nContent-Disposition: form-data; name="file"; filename="%s"\r\n\r\ndata\r\n'
MALFORMED_MULTIPART = {
    "no boundary": ("multipart/form-data", PART % b"a" + b"--x--\r\n"),
    "an empty boundary": ("multipart/form-data; boundary=", PART % b"a" + b"--x--\r\n"),
    "a boundary of 10 KB": ("multipart/form-data; boundary=" + "x" * 10_000, b""),
    "nothing": ("multipart/form-data; boundary=x", b""),
    "no part": ("multipart/form-data; boundary=x", b"--x--\r\n"),
    "no end": ("multipart/form-data; boundary=x", PART % b"/tmp/noend"),
    "no blank line": ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data"),
    "another name": ("multipart/form-data; boundary=x",
                     b'--x\r\nContent-Disposition: form-data; name="other"\r\n\r\nz\r\n--x--\r\n'),
    "no disposition": ("multipart/form-data; boundary=x", b"--x\r\nX: y\r\n\r\nz\r\n--x--\r\n"),
    "a header of 1 MB": ("multipart/form-data; boundary=x", b"--x\r\nX: " + b"a" * MB + b"\r\n\r\nz\r\n--x--\r\n"),
    "an empty file name": ("multipart/form-data; boundary=x", PART % b"" + b"--x--\r\n"),
    "NUL in the file name": ("multipart/form-data; boundary=x", PART % b"/tmp/a\0b" + b"--x--\r\n"),
    "another kind of body": ("text/plain", b"hello"),
    "gzip that is none": ("application/octet-stream;gzip", b"this is not gzip"),
}


@pytest.mark.parametrize("name", MALFORMED_MULTIPART)
def test_malformed_uploads(host, box, bystander, name):
    kind, body = MALFORMED_MULTIPART[name]
    headers = {"Content-Encoding": "gzip"} if kind.endswith(";gzip") else {}
    query = "?path=/tmp/gz" if headers else ""
    answer = post_files(host, box, body, kind.removesuffix(";gzip"), query, **headers)
    if answer.status == 200:
        assert answer.json() == []  # well-formed, but nothing in it was a file
    else:
        assert 400 <= answer.status < 500, (answer.status, answer.body[:200])
        assert answer.json()["code"] == answer.status
    assert host.run(box, "ls -A /tmp /home/user | grep -v '^\\.bash\\|^\\.profile\\|^\\.config' || true")[1].count(
        b"noend") == 0
    still_well(host, bystander)


LONG = "/".join(["a"] * 10_000)


@pytest.mark.parametrize("path", ["%00", "a%00b", "", "a" * 5000, LONG, "/" + LONG, "%ff%fe",
                                  "/dev/full/x", "..%2f" * 3000])
def test_odd_paths_to_read(host, box, path):
    answer = host.request("GET", f"/files?path={path}", headers=host.inside(box), key=None)
    assert 400 <= answer.status < 500, (answer.status, answer.body[:200])


def test_a_file_that_cannot_be_read_to_its_end(host, box, bystander):
    try:
        answer = host.request("GET", "/files?path=/proc/self/mem", headers=host.inside(box), key=None)
        assert answer.status >= 400, (answer.status, answer.body[:200])
    except OSError:
        pass  # the head was out already: the connection is cut, so nobody takes it for whole
    still_well(host, bystander)


def test_dots_stay_inside(host, box):
    """`..` from the top of the box is the top of the box, never the machine's."""
    marker = os.path.join(host.top, "outside-secret")
    with open(marker, "w", encoding="ascii") as f:
        f.write("secret")
    up = "../" * 40
    for path in (up + marker.lstrip("/"), "/" + up + marker.lstrip("/"), "/proc/1/root" + marker,
                 "/proc/self/root/../../.." + marker):
        answer = host.request("GET", f"/files?path={path}", headers=host.inside(box), key=None)
        assert answer.status in (400, 403, 404), (path, answer.status, answer.body[:100])
    host.run(box, f"ln -s {up}{marker.lstrip('/')} /tmp/link; ln -s / /tmp/top")
    for path in ("/tmp/link", f"/tmp/top{marker}"):
        answer = host.request("GET", f"/files?path={path}", headers=host.inside(box), key=None)
        assert answer.status == 404, (path, answer.status)


@pytest.mark.parametrize("path", [LONG, "a" * 5000, "a\0b", "x/" * 5000])
def test_odd_paths_to_make(host, box, bystander, path):
    for method in ("MakeDir", "Stat", "ListDir", "Remove"):
        answer = host.rpc(box, f"filesystem.Filesystem/{method}", {"path": path})
        assert answer.status in (200, 400, 404, 429), (method, answer.status, answer.body[:200])
        if answer.status != 200:
            assert answer.json()["code"] in ("invalid_argument", "not_found", "resource_exhausted")
    still_well(host, bystander)


def test_unknown_users(host, box):
    for user in ("nobody-here", "root\0", "a" * 5000, "../root", "-1", "4294967296"):
        basic = base64.b64encode(user.encode() + b":").decode()
        headers = host.inside(box, **{"Authorization": f"Basic {basic}", "Content-Type": "application/json"})
        answer = host.request("POST", "/filesystem.Filesystem/Stat", {"path": "/"}, headers, key=None)
        assert answer.status == 401 and answer.json()["code"] == "unauthenticated", (user, answer.body[:200])
    answer = host.request("GET", "/files?path=/etc/passwd&username=nobody-here", headers=host.inside(box), key=None)
    assert answer.status == 401 and answer.json()["code"] == 401


def test_a_gigabyte_into_a_small_disk(host, box, bystander):
    """507, and what had been written is gone."""
    sent = [0]

    def body():
        chunk = bytes(MB)
        for _ in range(1024):
            sent[0] += len(chunk)
            yield b"%x\r\n%s\r\n" % (len(chunk), chunk)
        yield b"0\r\n\r\n"
    before = memory(host)
    host.run(box, "echo old > /home/user/big.bin")
    head = ["POST /files?path=/home/user/big.bin HTTP/1.1", "Host: x", "Transfer-Encoding: chunked",
            "Content-Type: application/octet-stream"]
    head += [f"{k}: {v}" for k, v in host.inside(box).items()]
    with socket.create_connection(("127.0.0.1", host.port), timeout=120) as s:
        said = []
        reader = threading.Thread(target=lambda: said.append(s.recv(65536)))
        reader.start()
        s.sendall("\r\n".join(head).encode() + b"\r\n\r\n")
        try:
            for piece in body():
                s.sendall(piece)
                if said:
                    break  # it has answered; a client may stop here
        except OSError:
            pass
        reader.join(120)
    assert said and said[0].startswith(b"HTTP/1.1 507 "), said[:1]
    assert b'"code":507' in said[0].replace(b" ", b"")
    assert host.run(box, "cat /home/user/big.bin")[1] == b"old\n"
    code, out, _ = host.run(box, "df --output=used -BM /home/user | tail -1; find / -xdev -size +1M -newer /etc/hostname 2>/dev/null | head")
    assert int(out.split()[0].rstrip(b"M")) < 50, out
    assert memory(host) - before < 64 * MB
    still_well(host, bystander)


@pytest.mark.modes("root")  # the memory of a box is a cgroup's
def test_a_full_disk_is_no_lack_of_memory(fresh):
    """More disk than memory, all of it used: the writer hears of it, and nobody is killed."""
    host = fresh("--memory", "64M", "--disk", "300M")
    box = host.create()
    out = host.run(box, "sleep 600 >/dev/null 2>&1 & dd if=/dev/zero of=/home/user/a bs=1M count=200 2>&1 | tail -1;"
                        "dd if=/dev/zero of=/home/user/b bs=1M count=200 2>&1 | grep -c 'No space left'; pgrep -c -x sleep")
    assert out[1].split()[-2:] == [b"1", b"1"], out
    host.run(box, "rm /home/user/b")
    answer = post_files(host, box, bytes(150 * MB), "application/octet-stream", "?path=/home/user/c")
    assert answer.status == 507, answer.body[:200]
    assert host.run(box, "pgrep -c -x sleep; ls /home/user")[1].split() == [b"1", b"a"]


# ---- too much ----------------------------------------------------------------------------------

def test_ten_thousand_watchers(host, box, bystander):
    """They are refused past a limit, and cost the others nothing."""
    before, refused, made = memory(host), 0, []
    import http.client
    connection = http.client.HTTPConnection("127.0.0.1", host.port, timeout=30)
    headers = host.inside(box, **{"Content-Type": "application/json", "Connect-Protocol-Version": "1"})
    for _ in range(10_000):
        connection.request("POST", "/filesystem.Filesystem/CreateWatcher", b'{"path":"/tmp"}', headers)
        response = connection.getresponse()
        said = json.loads(response.read())
        if response.status == 200:
            made.append(said["watcherId"])
        else:
            assert said["code"] == "resource_exhausted", said
            refused += 1
    assert refused > 0 and made
    assert memory(host) - before < 128 * MB
    assert host.run(box, "touch /tmp/seen; echo ok")[1] == b"ok\n"
    for watcher in made:
        connection.request("POST", "/filesystem.Filesystem/RemoveWatcher",
                           json.dumps({"watcherId": watcher}), headers)
        assert connection.getresponse().read() == b"{}"
    connection.request("POST", "/filesystem.Filesystem/CreateWatcher", b'{"path":"/tmp"}', headers)
    assert connection.getresponse().status == 200
    connection.close()
    still_well(host, bystander)


def test_a_client_that_never_reads(host, box, bystander):
    """The writer inside is slowed down; the memory of the server is not the buffer."""
    before = memory(host)
    message = json.dumps({"process": {"cmd": "/bin/bash", "args": ["-c", "cat /dev/zero"]}, "stdin": False}).encode()
    sockets = []
    for _ in range(20):
        s = socket.create_connection(("127.0.0.1", host.port), timeout=30)
        head = ["POST /process.Process/Start HTTP/1.1", "Host: x", "Content-Type: application/connect+json",
                f"Content-Length: {len(message) + 5}"]
        head += [f"{k}: {v}" for k, v in host.inside(box).items()]
        s.sendall("\r\n".join(head).encode() + b"\r\n\r\n" + frame(message))
        sockets.append(s)
    time.sleep(2)  # let them fill whatever there is to fill
    assert memory(host) - before < 64 * MB
    still_well(host, bystander)
    assert host.run(box, "echo here")[1] == b"here\n"
    for s in sockets:
        s.close()


def test_a_client_that_sends_one_byte_at_a_time(host, bystander):
    with socket.create_connection(("127.0.0.1", host.port), timeout=30) as s:
        for byte in b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n":
            s.send(bytes([byte]))
        assert s.recv(100).startswith(b"HTTP/1.1 20")
    still_well(host, bystander)


def test_a_thousand_connections_that_say_nothing(host, bystander):
    sockets = [socket.create_connection(("127.0.0.1", host.port), timeout=30) for _ in range(1000)]
    still_well(host, bystander)
    for s in sockets:
        s.close()
    still_well(host, bystander)
