# SPDX-License-Identifier: Apache-2.0
"""The data plane, byte by byte: Connect frames, /files, tokens, watchers, what breaks off and when."""
import base64
import gzip
import hashlib
import http.client
import json
import os
import socket
import struct
import threading
import time
import urllib.parse

import pytest
from server import frames

FS, PROC = "filesystem.Filesystem/", "process.Process/"


def b64(data):
    return base64.b64encode(data).decode()


def frame(message):
    payload = json.dumps(message).encode()
    return b"\0" + struct.pack(">I", len(payload)) + payload


class Stream:
    """A streaming call that is read frame by frame."""

    def __init__(self, server, sandbox, method, message, **headers):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        self.connection.request("POST", "/" + method, frame(message), server.inside(
            sandbox, **{"Content-Type": "application/connect+json", **headers}))
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def next(self):
        head = self.response.read(5)
        if len(head) < 5:
            return None
        size = struct.unpack(">I", head[1:])[0]
        body = b""
        while len(body) < size:
            body += self.response.read(size - len(body))
        return head[0], json.loads(body)

    def until(self, wanted, tries=200):
        """Messages up to and with the first for which wanted(message) holds."""
        seen = []
        for _ in range(tries):
            got = self.next()
            assert got is not None, f"ended after {seen}"
            seen.append(got)
            if wanted(got[1]):
                return seen
        raise AssertionError(f"not among {seen}")

    def rest(self):
        found = []
        while (got := self.next()) is not None:
            found.append(got)
        return found

    def close(self):
        self.response.close()
        self.connection.close()


def start(server, sandbox, command, stdin=False, headers=None, **more):
    message = {"process": {"cmd": "/bin/bash", "args": ["-c", command]}, "stdin": stdin, **more}
    return Stream(server, sandbox, PROC + "Start", message, **(headers or {}))


def output(messages, stream="stdout"):
    return b"".join(base64.b64decode(m["event"]["data"][stream]) for _, m in messages
                    if stream in m.get("event", {}).get("data", {}))


def files(server, sandbox, method, path=None, body=None, headers=None, token=True, **query):
    if path is not None:
        query["path"] = path
    wanted = server.inside(sandbox)
    if not token:
        wanted.pop("X-Access-Token", None)
    return server.request(method, "/files?" + urllib.parse.urlencode(query), body,
                          {**wanted, **(headers or {})}, key=None, timeout=60)


def put(server, sandbox, path, data, **headers):
    answer = files(server, sandbox, "POST", path, data,
                   {"Content-Type": "application/octet-stream", **headers})
    assert answer.status == 200, answer.body
    return answer.json()


def form(*parts):
    body = b""
    for name, filename, data in parts:
        body += b"--XyZ\r\nContent-Disposition: form-data; name=\"" + name.encode() + b"\""
        if filename is not None:
            body += b"; filename=\"" + filename.encode() + b"\""
        body += b"\r\nContent-Type: application/octet-stream\r\n\r\n" + data + b"\r\n"
    return body + b"--XyZ--\r\n"


FORM = {"Content-Type": "multipart/form-data; boundary=XyZ"}


# ---- who may ----------------------------------------------------------------------------------


def test_health_is_public_and_the_rest_is_not(server, sandbox):
    plain = {"E2b-Sandbox-Id": sandbox["sandboxID"]}
    assert server.request("GET", "/health", headers=plain, key=None).status == 204
    for method, path in (("GET", "/metrics"), ("GET", "/envs"), ("POST", "/" + FS + "Stat"),
                         ("POST", "/" + PROC + "Start"), ("GET", "/nothing")):
        answer = server.request(method, path, headers=plain, key=None)
        assert answer.status == 401, path
        assert answer.json()["code"] == 401 and "access token" in answer.json()["message"]
        wrong = dict(plain, **{"X-Access-Token": "0" * 64})
        assert server.request(method, path, headers=wrong, key=None).status == 401


def test_the_dead_and_the_unknown_are_502(server):
    for made in ({"sandboxID": "i" + "0" * 20}, server.create()):
        if "envdAccessToken" in made:
            server.request("DELETE", f"/sandboxes/{made['sandboxID']}")
        for method, path in (("GET", "/health"), ("GET", "/files?path=x"), ("POST", "/" + FS + "Stat")):
            answer = server.request(method, path, headers=server.inside(made), key=None)
            assert answer.status == 502
            assert answer.json() == {"sandboxId": made["sandboxID"], "code": 502,
                                     "message": "The sandbox was not found"}


def test_unknown_paths_and_methods(server, sandbox):
    inside = server.inside(sandbox)
    assert server.request("GET", "/nothing", headers=inside, key=None).status == 404
    assert server.request("POST", "/" + PROC + "Nothing", {}, inside, key=None).status == 404
    answer = server.request("GET", "/" + FS + "Stat", headers=inside, key=None)
    assert answer.status == 405 and answer.headers["Allow"] == "POST"
    answer = server.request("POST", "/" + FS + "Stat", b"x",
                            dict(inside, **{"Content-Type": "application/proto"}), key=None)
    assert answer.status == 415
    assert server.request("POST", "/init", {}, inside, key=None).status == 204


def test_users(server, sandbox):
    def whoami(user):
        basic = {"Authorization": "Basic " + b64(f"{user}:".encode())}
        return start(server, sandbox, "id -un; pwd", headers=basic).rest()
    assert output(whoami("root")) == b"root\n/root\n"
    assert output(whoami("user")) == b"user\n/home/user\n"
    flags, last = whoami("nobody-here")[-1]
    assert flags == 2 and last["error"] == {"code": "unauthenticated",
                                            "message": "invalid username: 'nobody-here'"}
    answer = files(server, sandbox, "GET", "/etc/hostname", username="nobody-here")
    assert answer.status == 401 and "nobody-here" in answer.json()["message"]
    answer = server.request("POST", "/" + FS + "Stat", {"path": "/"}, server.inside(
        sandbox, Authorization="Basic " + b64(b"nobody-here:")), key=None)
    assert answer.status == 401 and answer.json()["code"] == "unauthenticated"


def sign(sandbox, path, operation, user="", expiration=None):
    text = f"{path}:{operation}:{user}:{sandbox['envdAccessToken']}"
    if expiration is not None:
        text += f":{expiration}"
    return "v1_" + b64(hashlib.sha256(text.encode()).digest()).rstrip("=")


def test_signed_urls(server, sandbox):
    put(server, sandbox, "signed.txt", b"content")

    def get(**query):
        return files(server, sandbox, "GET", "signed.txt", token=False, **query)

    def error(answer):
        assert answer.status == 401 and answer.json()["code"] == 401
        return answer.json()["message"]

    assert get(signature=sign(sandbox, "signed.txt", "read")).body == b"content"
    later, before = int(time.time()) + 60, int(time.time()) - 60
    assert get(signature=sign(sandbox, "signed.txt", "read", "user", later), username="user",
               signature_expiration=later).body == b"content"
    assert error(get()) == "missing signature query parameter"
    assert error(get(signature=sign(sandbox, "other", "read"))) == "invalid signature"
    assert error(get(signature=sign(sandbox, "signed.txt", "write"))) == "invalid signature"
    assert error(get(signature=sign(sandbox, "signed.txt", "read", "", before),
                     signature_expiration=before)) == "signature is already expired"
    assert error(get(signature="v1_x", signature_expiration=before)) == "invalid signature"
    wrong = files(server, sandbox, "GET", "signed.txt", headers={"X-Access-Token": "x"})
    assert error(wrong) == "access token present in header but does not match"
    # Without a sandbox's name the signature finds it.
    query = urllib.parse.urlencode({"path": "signed.txt",
                                    "signature": sign(sandbox, "signed.txt", "read")})
    assert server.request("GET", "/files?" + query, key=None).body == b"content"
    answer = files(server, sandbox, "POST", "signed.txt", form(("file", None, b"new")), FORM,
                   token=False, signature=sign(sandbox, "signed.txt", "write"))
    assert answer.status == 200
    assert files(server, sandbox, "GET", "signed.txt").body == b"new"


# ---- processes --------------------------------------------------------------------------------


def test_the_bytes_of_a_stream(server, sandbox):
    stream = start(server, sandbox, "printf 'hi\\n'")
    assert stream.status == 200
    assert stream.response.headers["Content-Type"] == "application/connect+json"
    assert stream.response.headers["Transfer-Encoding"] == "chunked"
    (f0, first), (f1, data), (f2, end), (f3, last) = stream.rest()
    assert (f0, f1, f2, f3) == (0, 0, 0, 2)
    assert list(first["event"]["start"]) == ["pid"] and first["event"]["start"]["pid"] > 1
    assert data == {"event": {"data": {"stdout": "aGkK"}}}
    assert end == {"event": {"end": {"exitCode": 0, "exited": True, "status": "exit status 0"}}}
    assert last == {}


@pytest.mark.parametrize("command, want", [
    ("exit 3", {"exitCode": 3, "exited": True, "status": "exit status 3", "error": "exit status 3"}),
    ("kill -9 $$", {"exitCode": -1, "exited": False, "status": "signal: killed",
                    "error": "signal: killed"}),
    ("kill -15 $$", {"exitCode": -1, "exited": False, "status": "signal: terminated",
                     "error": "signal: terminated"}),
])
def test_how_a_process_ends(server, sandbox, command, want):
    assert start(server, sandbox, command).rest()[-2][1]["event"]["end"] == want


def test_environment_directory_and_streams(server, sandbox):
    stream = Stream(server, sandbox, PROC + "Start", {"process": {
        "cmd": "/bin/bash", "args": ["-c", "echo $A$E2B_SANDBOX; pwd; echo err >&2"],
        "envs": {"A": "1 ="}, "cwd": "/tmp"}})
    got = stream.rest()
    assert output(got) == b"1 =true\n/tmp\n" and output(got, "stderr") == b"err\n"


@pytest.mark.parametrize("message, code, text", [
    ({"process": {"cmd": "/bin/true", "cwd": "/not/here"}}, "invalid_argument",
     "cwd '/not/here' does not exist"),
    ({"process": {"cmd": "/not/here"}}, "invalid_argument", "/not/here"),
    ({"process": {"cmd": ""}}, "invalid_argument", "process.cmd"),
    ({"process": {"cmd": "x", "args": [1]}}, "invalid_argument", "process.args"),
    ({"process": {"cmd": "x", "envs": {"a=b": "c"}}}, "invalid_argument", "process.envs"),
    ({"process": {"cmd": "x", "envs": {"a": 1}}}, "invalid_argument", "process.envs"),
    ({"process": []}, "invalid_argument", "process"),
    ({}, "invalid_argument", "process"),
    ({"process": {"cmd": "x"}, "pty": {"size": {"cols": 70000, "rows": 1}}}, "invalid_argument", "pty"),
    ({"process": {"cmd": "/bin/true", "args": ["x" * 90000] * 3}}, "resource_exhausted", "too large"),
])
def test_bad_starts_end_the_stream_with_a_code(server, sandbox, message, code, text):
    stream = Stream(server, sandbox, PROC + "Start", message)
    assert stream.status == 200
    [(flags, last)] = stream.rest()
    assert flags == 2 and last["error"]["code"] == code and text in last["error"]["message"]


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\0\0\5{}", b"\1\0\0\0\2{}", b"\0\0\0\0\2{}x",
                                  b"\0\0\0\0\2[]", b"\0\0\0\0\3{\"a", b"\0\xff\xff\xff\xff{}",
                                  frame({}) + frame({}), b"\0\0\0\0\x0d{\"a\":1,\"a\":2}"])
def test_malformed_frames_end_the_stream_with_a_code(server, sandbox, body):
    answer = server.request("POST", "/" + PROC + "Start", body, server.inside(
        sandbox, **{"Content-Type": "application/connect+json"}), key=None)
    assert answer.status == 200
    [(flags, last)] = frames(answer.body)
    assert flags == 2 and last["error"]["code"] == "invalid_argument"


def test_a_deadline_kills_the_process(server, sandbox):
    began = time.monotonic()
    stream = start(server, sandbox, "echo a; exec sleep 60", headers={"Connect-Timeout-Ms": "500"})
    got = stream.rest()
    assert time.monotonic() - began < 5
    assert output(got) == b"a\n"
    assert got[-1] == (2, {"error": {"code": "deadline_exceeded",
                                     "message": "context deadline exceeded"}})
    assert server.rpc(sandbox, PROC + "List", {}).json()["processes"] == []
    stream = start(server, sandbox, "true", headers={"Connect-Timeout-Ms": "soon"})
    assert stream.rest()[-1][1]["error"]["code"] == "invalid_argument"


def test_a_client_that_leaves_does_not_end_the_process(server, sandbox):
    stream = start(server, sandbox, "sleep 0.3; echo done > /tmp/left; sleep 60", tag="left")
    pid = stream.next()[1]["event"]["start"]["pid"]
    stream.close()
    [one] = server.rpc(sandbox, PROC + "List", {}).json()["processes"]
    assert one["pid"] == pid and one["tag"] == "left"
    assert one["config"]["cmd"] == "/bin/bash" and one["config"]["args"][0] == "-c"
    deadline = time.monotonic() + 10
    while files(server, sandbox, "GET", "/tmp/left").status != 200 and time.monotonic() < deadline:
        time.sleep(0.05)  # a file appears: nothing tells us
    assert files(server, sandbox, "GET", "/tmp/left").body == b"done\n"
    # Found again, by pid and by tag; ended by signal; remembered for who asks late.
    again = Stream(server, sandbox, PROC + "Connect", {"process": {"tag": "left"}})
    assert again.next()[1]["event"]["start"]["pid"] == pid
    answer = server.rpc(sandbox, PROC + "SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
    assert (answer.status, answer.json()) == (200, {})
    assert again.rest()[-2][1]["event"]["end"]["status"] == "signal: killed"
    late = Stream(server, sandbox, PROC + "Connect", {"process": {"pid": pid}}).rest()
    assert late[0][1]["event"]["start"]["pid"] == pid and "end" in late[1][1]["event"]
    assert server.rpc(sandbox, PROC + "List", {}).json() == {"processes": []}


@pytest.mark.parametrize("method, more", [
    ("SendSignal", {"signal": "SIGNAL_SIGTERM"}), ("CloseStdin", {}),
    ("Update", {"pty": {"size": {"cols": 1, "rows": 1}}}), ("SendInput", {"input": {"stdin": "YQ=="}})])
def test_nobody_is_not_found(server, sandbox, method, more):
    answer = server.rpc(sandbox, PROC + method, {"process": {"pid": 99999}, **more})
    assert answer.status == 404
    assert answer.json() == {"code": "not_found", "message": "process with pid 99999 not found"}


def test_nobody_is_not_found_on_a_stream(server, sandbox):
    got = Stream(server, sandbox, PROC + "Connect", {"process": {"pid": 99999}}).rest()
    assert got == [(2, {"error": {"code": "not_found", "message": "process with pid 99999 not found"}})]
    answer = server.rpc(sandbox, PROC + "SendSignal", {"process": {"pid": 1}, "signal": 1})
    assert answer.status == 501 and answer.json()["code"] == "unimplemented"


def test_input_and_its_end(server, sandbox):
    stream = start(server, sandbox, "cat", stdin=True)
    pid = stream.next()[1]["event"]["start"]["pid"]
    which = {"process": {"pid": pid}}
    data = os.urandom(300000)
    for at in range(0, len(data), 100000):
        answer = server.rpc(sandbox, PROC + "SendInput", {**which, "input": {"stdin": b64(data[at:at + 100000])}})
        assert (answer.status, answer.json()) == (200, {}), answer.body
    assert server.rpc(sandbox, PROC + "CloseStdin", which).json() == {}
    got = stream.rest()
    assert output(got) == data and got[-2][1]["event"]["end"]["exitCode"] == 0
    bad = server.rpc(sandbox, PROC + "SendInput", {**which, "input": {"stdin": "***"}})
    assert bad.status == 400 and bad.json()["code"] == "invalid_argument"


def test_streamed_input(server, sandbox):
    stream = start(server, sandbox, "cat", stdin=True)
    pid = stream.next()[1]["event"]["start"]["pid"]
    data = os.urandom(3000000)
    pieces = [frame({"start": {"process": {"pid": pid}}}), frame({"keepalive": {}})]
    pieces += [frame({"data": {"input": {"stdin": b64(data[at:at + 70000])}}})
               for at in range(0, len(data), 70000)]
    got = []
    reader = threading.Thread(target=lambda: got.extend(stream.rest()))
    reader.start()
    answer = server.request("POST", "/" + PROC + "StreamInput", b"".join(pieces), server.inside(
        sandbox, **{"Content-Type": "application/connect+json"}), key=None)
    assert list(frames(answer.body)) == [(0, {}), (2, {})]
    assert server.rpc(sandbox, PROC + "CloseStdin", {"process": {"pid": pid}}).status == 200
    reader.join(20)
    assert output(got) == data
    for body, code in ((frame({"start": {"process": {"pid": 99999}}}), "not_found"),
                       (frame({"data": {"input": {"stdin": ""}}}), "invalid_argument"),
                       (b"", "invalid_argument"), (frame({"other": {}}), "unimplemented")):
        answer = server.request("POST", "/" + PROC + "StreamInput", body, server.inside(
            sandbox, **{"Content-Type": "application/connect+json"}), key=None)
        [(flags, last)] = frames(answer.body)
        assert flags == 2 and last["error"]["code"] == code


def test_a_terminal(server, sandbox):
    stream = Stream(server, sandbox, PROC + "Start", {
        "process": {"cmd": "/bin/bash", "args": ["-i"], "envs": {"TERM": "xterm"}},
        "pty": {"size": {"cols": 80, "rows": 24}}})
    which = {"process": {"pid": stream.next()[1]["event"]["start"]["pid"]}}
    assert server.rpc(sandbox, PROC + "Update", {**which, "pty": {"size": {"cols": 101, "rows": 33}}}).json() == {}
    for text in (b"stty size\n", b"exit 7\n"):
        assert server.rpc(sandbox, PROC + "SendInput", {**which, "input": {"pty": b64(text)}}).status == 200
    got = stream.rest()
    assert b"33 101" in output(got, "pty")
    assert got[-2][1]["event"]["end"]["exitCode"] == 7


def test_keepalives(server, sandbox):
    stream = start(server, sandbox, "sleep 3", headers={"Keepalive-Ping-Interval": "1"})
    got = stream.rest()
    assert {"event": {"keepalive": {}}} in [m for _, m in got]


def test_a_slow_reader_slows_the_process_and_loses_nothing(server, sandbox):
    stream = start(server, sandbox, "head -c 30000000 /dev/zero | tr '\\0' a; echo over > /tmp/over")
    stream.next()
    time.sleep(1)
    assert files(server, sandbox, "GET", "/tmp/over").status == 404
    assert len(output(stream.rest())) == 30000000


def test_a_kill_breaks_streams_off(server):
    made = server.create()
    stream = start(server, made, "echo a; sleep 60")
    stream.until(lambda m: "data" in m.get("event", {}))
    assert server.request("DELETE", f"/sandboxes/{made['sandboxID']}").status == 204
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        while stream.response.read1(100):
            pass
    assert server.request("GET", "/health", headers=server.inside(made), key=None).status == 502


# ---- the filesystem ---------------------------------------------------------------------------


def test_entries(server, sandbox):
    put(server, sandbox, "/home/user/d/f.txt", b"12345")
    entry = server.rpc(sandbox, FS + "Stat", {"path": "d/f.txt"}).json()["entry"]
    modified = entry.pop("modifiedTime")
    assert modified.endswith("Z") and modified.startswith("20")
    assert entry == {"name": "f.txt", "type": "FILE_TYPE_FILE", "path": "/home/user/d/f.txt",
                     "size": "5", "mode": 0o644, "permissions": "-rw-r--r--", "owner": "user",
                     "group": "user"}
    assert server.run(sandbox, "ln -s f.txt d/link; ln -s nowhere d/dangling")[0] == 0
    entries = server.rpc(sandbox, FS + "ListDir", {"path": "/home/user/d"}).json()["entries"]
    assert [e["name"] for e in entries] == ["dangling", "f.txt", "link"]
    link = entries[2]
    assert link["permissions"] == "Lrwxrwxrwx" and link["symlinkTarget"] == "/home/user/d/f.txt"
    assert link["type"] == "FILE_TYPE_FILE"
    assert entries[0]["type"] == "FILE_TYPE_UNSPECIFIED"
    top = server.rpc(sandbox, FS + "Stat", {"path": "/tmp"}).json()["entry"]
    assert top["type"] == "FILE_TYPE_DIRECTORY" and top["permissions"] == "dtrwxrwxrwx"


def test_directories(server, sandbox):
    made = server.rpc(sandbox, FS + "MakeDir", {"path": "a/b/c"})
    assert made.status == 200 and made.json()["entry"]["path"] == "/home/user/a/b/c"
    assert made.json()["entry"]["permissions"] == "drwxr-xr-x"
    again = server.rpc(sandbox, FS + "MakeDir", {"path": "/home/user/a/b/c"})
    assert again.status == 409
    assert again.json() == {"code": "already_exists",
                            "message": "directory already exists: /home/user/a/b/c"}
    put(server, sandbox, "a/file", b"x")
    onto = server.rpc(sandbox, FS + "MakeDir", {"path": "a/file"})
    assert onto.status == 400 and onto.json()["code"] == "invalid_argument"
    deep = server.rpc(sandbox, FS + "ListDir", {"path": "a", "depth": 3}).json()["entries"]
    assert [e["path"] for e in deep] == ["/home/user/a/b", "/home/user/a/b/c", "/home/user/a/file"]
    flat = server.rpc(sandbox, FS + "ListDir", {"path": "a"}).json()["entries"]
    assert [e["name"] for e in flat] == ["b", "file"]
    moved = server.rpc(sandbox, FS + "Move", {"source": "a/file", "destination": "new/dir/file"})
    assert moved.json()["entry"]["path"] == "/home/user/new/dir/file"
    for _ in range(2):
        assert server.rpc(sandbox, FS + "Remove", {"path": "new"}).json() == {}
    assert server.rpc(sandbox, FS + "ListDir", {"path": "/home/user/a/b/c"}).json() == {"entries": []}


@pytest.mark.parametrize("method, message, status, code", [
    ("Stat", {"path": "/nothing"}, 404, "not_found"),
    ("ListDir", {"path": "/nothing"}, 404, "not_found"),
    ("ListDir", {"path": "/etc/passwd"}, 400, "invalid_argument"),
    ("Move", {"source": "/nothing", "destination": "/tmp/x"}, 404, "not_found"),
    ("Stat", {"path": 7}, 400, "invalid_argument"),
    ("Stat", {"path": "/" + "a" * 5000}, 400, "invalid_argument"),
    ("Stat", {"path": "/a" * 2040}, 404, "not_found"),
    ("Stat", {"path": "a\0b"}, 400, "invalid_argument"),
    ("ListDir", {"path": "/", "depth": -1}, 400, "invalid_argument"),
    ("CreateWatcher", {"path": "/nothing"}, 404, "not_found"),
    ("CreateWatcher", {"path": "/etc/passwd"}, 400, "invalid_argument"),
    ("GetWatcherEvents", {"watcherId": "w1"}, 404, "not_found"),
    ("RemoveWatcher", {"watcherId": "w1"}, 404, "not_found"),
])
def test_refusals(server, sandbox, method, message, status, code):
    answer = server.rpc(sandbox, FS + method, message)
    assert (answer.status, answer.json()["code"]) == (status, code), answer.body
    assert answer.headers["Content-Type"] == "application/json"


def test_names_that_are_no_utf8(server, sandbox):
    assert server.run(sandbox, "mkdir n; touch $'n/a\\xff' $'n/b\"\\n'")[0] == 0
    names = [e["name"] for e in server.rpc(sandbox, FS + "ListDir", {"path": "n"}).json()["entries"]]
    assert names == ["a\ufffd", "b\"\n"]


def test_watching(server, sandbox):
    assert server.run(sandbox, "mkdir -p w/sub")[0] == 0
    stream = Stream(server, sandbox, FS + "WatchDir",
                    {"path": "w", "recursive": True, "includeEntry": True})
    assert stream.next() == (0, {"start": {}})
    assert server.run(sandbox, "echo x > w/sub/f; mkdir w/new; echo y > w/new/g; rm w/sub/f")[0] == 0
    seen = stream.until(lambda m: m.get("filesystem", {}).get("type") == "EVENT_TYPE_REMOVE")
    events = [m["filesystem"] for _, m in seen]
    kinds = {(e["name"], e["type"]) for e in events}
    assert {("sub/f", "EVENT_TYPE_CREATE"), ("sub/f", "EVENT_TYPE_WRITE"), ("new", "EVENT_TYPE_CREATE"),
            ("sub/f", "EVENT_TYPE_REMOVE")} <= kinds
    new = next(e for e in events if e["name"] == "new")
    assert new["entry"]["type"] == "FILE_TYPE_DIRECTORY" and new["entry"]["path"] == "/home/user/w/new"
    assert all("entry" not in e for e in events if e["type"] == "EVENT_TYPE_REMOVE")
    stream.close()
    late = Stream(server, sandbox, FS + "WatchDir", {"path": "w"}, **{"Connect-Timeout-Ms": "300"}).rest()
    assert late[0] == (0, {"start": {}}) and late[-1][1]["error"]["code"] == "deadline_exceeded"
    [(flags, last)] = Stream(server, sandbox, FS + "WatchDir", {"path": "nothing"}).rest()
    assert flags == 2 and last["error"]["code"] == "not_found"


def test_polling_watchers(server, sandbox):
    assert server.run(sandbox, "mkdir p")[0] == 0
    made = server.rpc(sandbox, FS + "CreateWatcher", {"path": "p"}).json()
    assert list(made) == ["watcherId"] and made["watcherId"].startswith("w")
    assert server.rpc(sandbox, FS + "GetWatcherEvents", made).json() == {"events": []}
    put(server, sandbox, "p/file", b"x")
    seen, end = [], time.monotonic() + 10
    while not any(e["name"] == "file" for e in seen) and time.monotonic() < end:
        seen += server.rpc(sandbox, FS + "GetWatcherEvents", made).json()["events"]
        time.sleep(0.05)  # polling is what this is
    assert ("file", "EVENT_TYPE_CREATE") in {(e["name"], e["type"]) for e in seen}
    other = server.create()
    assert server.rpc(other, FS + "GetWatcherEvents", made).status == 404
    server.request("DELETE", f"/sandboxes/{other['sandboxID']}")
    assert server.rpc(sandbox, FS + "RemoveWatcher", made).json() == {}
    assert server.rpc(sandbox, FS + "GetWatcherEvents", made).status == 404


def test_watchers_are_counted(server, sandbox):
    codes = [server.rpc(sandbox, FS + "CreateWatcher", {"path": "/tmp"}).status for _ in range(140)]
    assert codes[:128] == [200] * 128 and set(codes[128:]) == {429}
    assert server.run(sandbox, "echo alive")[1] == b"alive\n"


# ---- /files -----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, 65536, 5000001])
def test_there_and_back(server, sandbox, size):
    data = os.urandom(size)
    made = put(server, sandbox, f"dir/of/{size}", data)
    assert made == [{"path": f"/home/user/dir/of/{size}", "name": str(size), "type": "file"}]
    answer = files(server, sandbox, "GET", f"/home/user/dir/of/{size}")
    assert answer.status == 200 and answer.body == data
    assert answer.headers["Content-Length"] == str(size)
    assert server.run(sandbox, f"stat -c '%U %a' dir/of/{size} dir/of")[1] == b"user 644\nuser 755\n"


def test_forms(server, sandbox):
    body = form(("file", "/tmp/one", b"1" * 100000), ("other", None, b"ignored"),
                ("file", "two \u00e9", b""), ("file", "/tmp/three", b"\r\n--Xy\r\n"))
    answer = files(server, sandbox, "POST", None, body, FORM)
    assert answer.status == 200, answer.body
    assert [e["path"] for e in answer.json()] == ["/tmp/one", "/home/user/two \u00e9", "/tmp/three"]
    assert all(set(e) == {"path", "name", "type"} for e in answer.json())
    assert files(server, sandbox, "GET", "/tmp/one").body == b"1" * 100000
    assert files(server, sandbox, "GET", "two \u00e9").body == b""
    assert files(server, sandbox, "GET", "/tmp/three").body == b"\r\n--Xy\r\n"
    assert files(server, sandbox, "POST", "/tmp/won", form(("file", "elsewhere", b"x")), FORM).status == 200
    assert files(server, sandbox, "GET", "/tmp/won").body == b"x"
    assert files(server, sandbox, "POST", None, form(("a", None, b"")), FORM).json() == []


@pytest.mark.parametrize("query, body, headers, status, text", [
    ({"path": "/tmp"}, form(("file", None, b"x")), FORM, 400, "path is a directory: /tmp"),
    ({}, form(("file", None, b"x")), FORM, 400, "filename not found"),
    ({}, form(("file", "a", b"x"), ("file", "a", b"y")), FORM, 400, "multiple files to the same path 'a'"),
    ({}, form(("file", "a", b"x"))[:-4], FORM, 400, "unexpected EOF"),
    ({}, b"--XyZ!", FORM, 400, "malformed"),
    ({"path": "x"}, b"x", {"Content-Type": "text/plain"}, 400, "unsupported content type: text/plain"),
    ({"path": "x"}, b"x", {}, 400, "unsupported content type"),
    ({}, b"x", {"Content-Type": "application/octet-stream"}, 400, "path query parameter is required"),
    ({"path": "x"}, b"x", {"Content-Type": "application/octet-stream", "Content-Encoding": "br"}, 400,
     "unsupported Content-Encoding: br"),
    ({"path": "x"}, b"no gzip", {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"},
     400, "gzip"),
    ({"path": "x"}, gzip.compress(b"x" * 1000)[:-9],
     {"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"}, 400, "unexpected EOF"),
    ({"path": "/etc/passwd/x"}, b"x", {"Content-Type": "application/octet-stream"}, 400, ""),
    ({"path": "x", "username": "nobody-here"}, b"x", {"Content-Type": "application/octet-stream"}, 401,
     "error looking up user 'nobody-here'"),
    ({"path": "x"}, b"x", {"Content-Type": "application/octet-stream", "X-Metadata-K": "v" * 5000}, 400,
     "metadata"),
])
def test_uploads_that_fail(server, sandbox, query, body, headers, status, text):
    answer = files(server, sandbox, "POST", body=body, headers=headers, **query)
    assert answer.status == status, answer.body
    assert answer.json()["code"] == status and text in answer.json()["message"]
    assert files(server, sandbox, "GET", "/home/user/x").status == 404


def test_gzip(server, sandbox):
    data = b"some text\n" * 300000
    put(server, sandbox, "z", gzip.compress(data), **{"Content-Encoding": "gzip"})
    assert files(server, sandbox, "GET", "z").body == data
    answer = files(server, sandbox, "POST", None, gzip.compress(form(("file", "y", data), ("file", "q", b"q"))),
                   {**FORM, "Content-Encoding": "gzip"})
    assert answer.status == 200 and len(answer.json()) == 2
    assert files(server, sandbox, "GET", "y").body == data
    # Two members are one stream.
    put(server, sandbox, "m", gzip.compress(b"a") + gzip.compress(b"b"), **{"Content-Encoding": "gzip"})
    assert files(server, sandbox, "GET", "m").body == b"ab"


def test_metadata(server, sandbox):
    [made] = put(server, sandbox, "m", b"x", **{"X-Metadata-Author": "me", "X-Metadata-Two-Words": "a b"})
    if "metadata" not in made:
        pytest.fail("the sandbox's filesystem keeps no user xattrs")
    assert made["metadata"] == {"author": "me", "two-words": "a b"}
    entry = server.rpc(sandbox, FS + "Stat", {"path": "m"}).json()["entry"]
    assert entry["metadata"] == {"author": "me", "two-words": "a b"}
    assert put(server, sandbox, "m", b"y") == [{"path": "/home/user/m", "name": "m", "type": "file"}]


def test_ranges(server, sandbox):
    data = bytes(range(256)) * 40
    put(server, sandbox, "r", data)

    def part(text):
        return files(server, sandbox, "GET", "r", headers={"Range": text})

    for text, want in (("bytes=0-9", data[:10]), ("bytes=10000-", data[10000:]), ("bytes=-5", data[-5:]),
                       ("bytes=10239-99999", data[-1:]), ("bytes=-99999", data)):
        answer = part(text)
        assert answer.status == 206 and answer.body == want, text
        at = len(data) - len(want) if "bytes=-" in text else int(text[6:].split("-")[0])
        assert answer.headers["Content-Range"] == f"bytes {at}-{at + len(want) - 1}/{len(data)}"
    for text in ("bytes=10240-", "bytes=99999-100000", "bytes=-0"):
        answer = part(text)
        assert answer.status == 416 and answer.headers["Content-Range"] == f"bytes */{len(data)}"
    for text in ("bytes=5-1", "bytes=0-1,3-4", "lines=1-2"):
        assert part(text).status == 200 and part(text).body == data


@pytest.mark.parametrize("path, status, text", [
    ("/nothing", 404, "path '/nothing' does not exist"), ("/tmp", 400, "path '/tmp' is a directory"),
    ("/etc/passwd/x", 404, ""), ("/" + "a" * 4000, 400, ""), ("/dev/null", 400, "")])
def test_downloads_that_fail(server, sandbox, path, status, text):
    answer = files(server, sandbox, "GET", path)
    assert (answer.status, answer.json()["code"]) == (status, status)
    assert text in answer.json()["message"]


def test_paths_with_nul_and_bad_escapes(server, sandbox):
    inside = server.inside(sandbox)
    for query in ("path=a%00b", "path=%zz", "path=" + "a" * 5000, "path=a&signature_expiration=x"):
        answer = server.request("GET", "/files?" + query, headers=inside, key=None)
        assert answer.status == 400 and answer.json()["code"] == 400


def test_a_file_name_cannot_forge_a_header(server, sandbox):
    assert server.run(sandbox, "echo x > $'/tmp/a\"\\r\\nX-Evil: 1'")[0] == 0
    answer = files(server, sandbox, "GET", "/tmp/a\"\r\nX-Evil: 1")
    assert answer.status == 200 and "X-Evil" not in answer.headers
    assert answer.headers["Content-Disposition"] == "inline; filename*=utf-8''a%22%0D%0AX-Evil%3A%201"


def test_an_upload_that_breaks_off_leaves_the_old_file(server, sandbox):
    put(server, sandbox, "keep", b"old")
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        head = "".join(f"{k}: {v}\r\n" for k, v in server.inside(sandbox).items())
        raw.sendall(f"POST /files?path=keep HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n{head}"
                    "Content-Type: application/octet-stream\r\n\r\n".encode() + b"n" * 500000)
    time.sleep(0.2)  # the server notices by itself
    assert files(server, sandbox, "GET", "keep").body == b"old"
    listed = server.rpc(sandbox, FS + "ListDir", {"path": "."}).json()["entries"]
    assert sorted(e["name"] for e in listed if not e["name"].startswith(".b")) == ["keep"] or \
        not any("keep" in e["name"] and e["name"] != "keep" for e in listed)


def test_a_download_that_nobody_reads_holds_nobody_up(server, sandbox):
    assert server.run(sandbox, "truncate -s 200M big")[0] == 0
    with socket.create_connection(("127.0.0.1", server.port)) as raw:
        head = "".join(f"{k}: {v}\r\n" for k, v in server.inside(sandbox).items())
        raw.sendall(f"GET /files?path=big HTTP/1.1\r\nHost: x\r\n{head}\r\n".encode())
        time.sleep(0.3)  # its queues fill
        began = time.monotonic()
        assert server.run(sandbox, "echo alive")[1] == b"alive\n"
        assert time.monotonic() - began < 5
    answer = files(server, sandbox, "GET", "big")
    assert len(answer.body) == 200 << 20


def test_metrics_and_envs(server):
    made = server.create(envVars={"MINE": "yes"})
    inside = server.inside(made)
    got = server.request("GET", "/metrics", headers=inside, key=None).json()
    assert {"ts", "cpu_count", "cpu_used_pct", "mem_total", "mem_used", "disk_used", "disk_total"} <= set(got)
    assert got["cpu_count"] >= 1 and got["mem_used"] > 0
    answer = server.request("GET", "/envs", headers=inside, key=None)
    assert answer.headers["Cache-Control"] == "no-store" and answer.json()["MINE"] == "yes"
    server.request("DELETE", f"/sandboxes/{made['sandboxID']}")
