# SPDX-License-Identifier: Apache-2.0
"""Our own dialect from outside: sandboxes, exec with keys and offsets, files, events, keys."""
import base64
import hashlib
import hmac
import http.client
import json
import os
import signal
import socket
import threading
import time

import pytest


class V1:
    """Requests under /v1 with the key of one tenant."""

    def __init__(self, server, key=None):
        self.server, self.key = server, key or server.key

    def __call__(self, method, path, body=None, headers=None, status=None, raw=None, timeout=30):
        conn = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=timeout)
        head = {"X-API-KEY": self.key, **(headers or {})}
        if raw is not None:
            data = raw
        elif body is not None:
            data, head["Content-Type"] = json.dumps(body), "application/json"
        else:
            data = None
        conn.request(method, "/v1" + path, data, head)
        response = conn.getresponse()
        text = response.read()
        conn.close()
        response.text = text
        if status is not None:
            assert response.status == status, (response.status, text[:500])
        if response.headers.get("Content-Type", "").startswith("application/json") and text:
            return json.loads(text)
        return response

    def error(self, method, path, status, code, body=None, **more):
        answer = self(method, path, body, status=status, **more)
        assert answer["error"]["code"] == code, answer
        assert answer["error"]["message"] and answer["error"]["request_id"]
        return answer["error"]


@pytest.fixture
def v1(server):
    return V1(server)


@pytest.fixture
def other(server):
    return V1(server, server.make_key("other-tenant"))


@pytest.fixture
def box(v1):
    made = v1("POST", "/sandboxes", {"timeout_ms": 120000}, status=201)
    yield made["id"]
    v1("DELETE", f"/sandboxes/{made['id']}")


def lines(response):
    return [json.loads(line) for line in response.text.splitlines()]


# ---- the server -----------------------------------------------------------------------------------

def test_capabilities_and_whoami(v1, other):
    can = v1("GET", "/capabilities", status=200)
    assert can["server"] == "bawn" and "process" in can["tiers"] and "base" in can["templates"]
    assert {"net", "seccomp", "pid"} <= {w["name"] for w in can["walls"]}
    assert v1("GET", "/whoami")["tenant"] == "default"
    assert other("GET", "/whoami")["tenant"] == "other-tenant"


def test_no_key_no_answer(server):
    assert V1(server, "e2b_" + "0" * 40)("GET", "/whoami", status=401)["error"]["request_id"]


# ---- sandboxes ------------------------------------------------------------------------------------

def test_create_with_everything(v1):
    name = f"tour-{os.getpid()}"
    made = v1("POST", "/sandboxes", {
        "template": "base", "name": name, "labels": {"team": "a"}, "env": {"GREETING": "hello"},
        "timeout_ms": 60000, "idle_timeout_ms": 50000,
        "limits": {"cpus": 1, "memory_bytes": 268435456, "processes": 200}}, status=201)
    assert made["state"] == "running" and made["name"] == name and made["access_token"]
    assert made["limits"]["memory_bytes"] == 268435456 and made["limits"]["cpus"] == 1.0
    got = v1("GET", f"/sandboxes/{name}", status=200)
    assert got["id"] == made["id"] and got["labels"] == {"team": "a"}
    assert got["walls"]["net"]["enforced"] == "enforced"
    done = v1("POST", f"/sandboxes/{name}/exec", {"command": "echo $GREETING"}, status=200)
    assert done["stdout"] == "hello\n" and done["exit_code"] == 0
    v1.error("POST", "/sandboxes", 409, "conflict", {"name": name})
    listed = v1("GET", "/sandboxes?label=team%3Da", status=200)["sandboxes"]
    assert [s["id"] for s in listed] == [made["id"]] and "access_token" not in listed[0]
    v1("DELETE", f"/sandboxes/{made['id']}", status=204)
    gone = v1("GET", f"/sandboxes/{made['id']}", status=200)
    assert gone["state"] == "ended" and gone["reason"] == "killed" and gone["ended_at"]
    v1.error("DELETE", f"/sandboxes/{made['id']}", 404, "sandbox_not_found")


@pytest.mark.parametrize("body,word", [
    ({"tiemout_ms": 1}, "did you mean 'timeout_ms'"),
    ({"timeout_ms": "1"}, "whole number"),
    ({"timeout_ms": -1}, "whole number"),
    ({"labels": {"a": 1}}, "string"),
    ({"labels": []}, "object"),
    ({"limits": {"cpus": 0}}, "cpus"),
    ({"limits": {"ram": 1}}, "unknown field 'ram'"),
    ({"secure": 1}, "true or false"),
    ({"env": {"A=B": "c"}}, "="),
    ({"name": "Not A Name"}, "name"),
])
def test_a_bad_field_is_named(v1, body, word):
    assert word in v1.error("POST", "/sandboxes", 400, "invalid", body)["message"]


def test_unknown_template_and_bad_json(v1):
    v1.error("POST", "/sandboxes", 404, "not_found", {"template": "windows"})
    v1.error("POST", "/sandboxes", 400, "invalid_json", raw=b"{")
    v1.error("POST", "/sandboxes", 400, "invalid_json", raw=b"[]")
    v1.error("GET", "/nothing", 404, "not_found")
    assert v1("PUT", "/sandboxes", status=405)["error"]["code"] == "method_not_allowed"


def test_create_is_idempotent_under_a_key(v1):
    key = {"Idempotency-Key": f"make-{time.time_ns()}"}
    one = v1("POST", "/sandboxes", {}, key, status=201)
    two = v1("POST", "/sandboxes", {}, key, status=201)
    assert one["id"] == two["id"]
    v1("DELETE", f"/sandboxes/{one['id']}", status=204)


def test_pages_and_states(v1):
    made = [v1("POST", "/sandboxes", {"labels": {"page": "x"}}, status=201)["id"] for _ in range(3)]
    first = v1("GET", "/sandboxes?label=page%3Dx&limit=2", status=200)
    rest = v1("GET", f"/sandboxes?label=page%3Dx&limit=2&after={first['next']}", status=200)
    assert [s["id"] for s in first["sandboxes"] + rest["sandboxes"]] == made[::-1]
    assert rest["next"] is None
    for one in made:
        v1("DELETE", f"/sandboxes/{one}", status=204)
    ended = v1("GET", "/sandboxes?label=page%3Dx&state=ended", status=200)["sandboxes"]
    assert {s["id"] for s in ended} == set(made)
    v1.error("GET", "/sandboxes?state=happy", 400, "invalid")


def test_timeout_labels_walls_explain_metrics_logs(v1, box):
    at = f"/sandboxes/{box}"
    before = v1("GET", at)["expires_at"]
    assert v1("POST", at + "/timeout", {"timeout_ms": 600000}, status=200)["expires_at"] > before
    v1.error("POST", at + "/timeout", 400, "invalid", {})
    assert v1("PUT", at + "/labels", {"a": "b"}, status=200)["labels"] == {"a": "b"}
    v1.error("PUT", at + "/labels", 400, "invalid", {"a": 1})
    walls = {w["name"]: w for w in v1("GET", at + "/walls", status=200)["walls"]}
    assert walls["pid"]["requested"] == "required" and walls["pid"]["enforced"] == "enforced"
    assert walls["net"]["stops"]
    why = v1("GET", at + "/explain?network=example.org:443", status=200)["explanations"]
    assert why[0]["verdict"] == "denied" and "no rule allows it" in why[0]["because"]
    assert v1("GET", at + "/explain?wall=seccomp")["explanations"][0]["subject"] == "seccomp"
    v1.error("GET", at + "/explain?wall=sekkomp", 400, "invalid")
    assert v1("GET", at + "/metrics", status=200)["samples"]
    v1("POST", at + "/exec", {"argv": ["true"]}, status=200)
    actions = [e["action"] for e in v1("GET", at + "/logs", status=200)["events"]]
    assert actions[:2] == ["sandbox.create", "sandbox.start"]
    assert "sandbox.labels" in actions and actions[-2:] == ["exec.start", "exec.end"]


def test_recover_makes_a_new_one_like_the_old(v1):
    old = v1("POST", "/sandboxes", {"labels": {"a": "b"}, "env": {"X": "y"}}, status=201)["id"]
    v1.error("POST", f"/sandboxes/{old}/recover", 409, "conflict", {})
    v1("DELETE", f"/sandboxes/{old}", status=204)
    new = v1("POST", f"/sandboxes/{old}/recover", {}, status=201)
    assert new["id"] != old and new["labels"] == {"a": "b"}
    assert v1("POST", f"/sandboxes/{new['id']}/exec", {"command": "echo $X"})["stdout"] == "y\n"
    v1("DELETE", f"/sandboxes/{new['id']}", status=204)


def test_another_tenant_sees_nothing(v1, other, box):
    for method, path, body in [
            ("GET", "", None), ("DELETE", "", None), ("POST", "/timeout", {"timeout_ms": 1000}),
            ("PUT", "/labels", {}), ("GET", "/walls", None), ("GET", "/explain", None),
            ("POST", "/recover", {}), ("GET", "/metrics", None), ("GET", "/logs", None),
            ("POST", "/exec", {"argv": ["true"]}), ("GET", "/exec", None), ("GET", "/exec/x", None),
            ("GET", "/exec/x/output", None), ("POST", "/exec/x/signal", {"signal": 9}),
            ("GET", "/files?path=/etc/passwd", None), ("GET", "/files/list?path=/", None),
            ("POST", "/files/mkdir", {"path": "/tmp/x"}), ("GET", "/ports/80", None)]:
        assert other(method, f"/sandboxes/{box}{path}", body, status=404)["error"]
    assert other("PUT", f"/sandboxes/{box}/files?path=/tmp/x", raw=b"x", status=404)["error"]
    assert other("GET", "/sandboxes")["sandboxes"] == []
    assert all(e["sandbox_id"] != box for e in other("GET", "/events")["events"])
    assert v1("GET", f"/sandboxes/{box}")["state"] == "running"


# ---- exec -----------------------------------------------------------------------------------------

def test_exec_waits_and_tells_all(v1, box):
    done = v1("POST", f"/sandboxes/{box}/exec", {
        "argv": ["/bin/sh", "-c", "echo out; echo err >&2; pwd; id -un; exit 3"],
        "cwd": "/tmp", "user": "root"}, status=200)
    assert done["exit_code"] == 3 and done["state"] == "exited" and not done["timed_out"]
    assert done["stdout"] == "out\n/tmp\nroot\n" and done["stderr"] == "err\n"
    again = v1("GET", f"/sandboxes/{box}/exec/{done['id']}", status=200)
    assert again["exit_code"] == 3 and again["request"]["cwd"] == "/tmp"


def test_bytes_that_are_no_text_come_as_base64(v1, box):
    done = v1("POST", f"/sandboxes/{box}/exec", {"command": r"printf '\377\000\001'"})
    assert base64.b64decode(done["stdout_base64"]) == b"\xff\0\1"
    done = v1("POST", f"/sandboxes/{box}/exec", {"command": "printf 'grüße ☃'"})
    assert done["stdout"] == "grüße ☃"


@pytest.mark.parametrize("body,status", [
    ({}, 400), ({"argv": []}, 400), ({"argv": [1]}, 400), ({"argv": "ls"}, 400),
    ({"argv": ["a"], "command": "b"}, 400), ({"command": "x", "frob": 1}, 400),
    ({"argv": ["true"], "cwd": "/nowhere"}, None), ({"argv": ["true"], "user": "nobody-here"}, 401),
])
def test_bad_execs(v1, box, body, status):
    answer = v1("POST", f"/sandboxes/{box}/exec", body)
    assert "error" in answer, answer
    if status:
        assert v1("POST", f"/sandboxes/{box}/exec", body, status=status)


def test_a_timeout_kills(v1, box):
    done = v1("POST", f"/sandboxes/{box}/exec", {"command": "sleep 60", "timeout_ms": 300})
    assert done["timed_out"] and done["exit_code"] == -1 and done["signal"] == 9


def test_ndjson_and_sse(v1, box):
    body = {"command": "echo one; echo two >&2"}
    got = lines(v1("POST", f"/sandboxes/{box}/exec", body, {"Accept": "application/x-ndjson"}))
    assert got[0]["type"] == "started" and got[0]["pid"] > 0 and got[-1]["type"] == "exit"
    assert "".join(e["text"] for e in got if e["type"] == "stdout") == "one\n"
    assert "".join(e["text"] for e in got if e["type"] == "stderr") == "two\n"
    assert got[-1]["exit_code"] == 0 and got[-1]["stdout_end"] == 4
    text = v1("POST", f"/sandboxes/{box}/exec", body, {"Accept": "text/event-stream"}).text.decode()
    events = [e for e in text.split("\n\n") if e]
    assert events[0].startswith("event: started\nid: 0.0.0\n")
    assert "event: exit\nid: 4.4.0\n" in text


def test_background_then_output_from_an_offset(v1, box):
    at = f"/sandboxes/{box}/exec"
    started = v1("POST", at, {"command": "echo abc; read x; echo got $x", "stdin": True,
                              "background": True}, status=201)
    one = f"{at}/{started['id']}"
    assert started["state"] == "running" and started["pid"] > 0
    part = v1("GET", one + "/output?wait_ms=300", status=200)
    assert part["stdout"] == "abc\n" and part["state"] == "running" and part["stdout_next"] == 4
    assert v1("GET", one)["state"] == "running"
    assert started["pid"] in [p["pid"] for p in v1("GET", at)["processes"]]
    v1("POST", one + "/input", raw=b"hello\n", status=204)
    rest = v1("GET", one + f"/output?stdout={part['stdout_next']}", status=200)
    assert rest["stdout"] == "got hello\n" and rest["exit_code"] == 0
    got = lines(v1("GET", one + "/output?stdout=2", headers={"Accept": "application/x-ndjson"}))
    assert "".join(e["text"] for e in got if e["type"] == "stdout") == "c\ngot hello\n"


def test_input_can_be_closed(v1, box):
    at = f"/sandboxes/{box}/exec"
    one = v1("POST", at, {"argv": ["cat"], "stdin": True, "background": True}, status=201)["id"]
    v1("POST", f"{at}/{one}/input", raw=b"to ", status=204)
    v1("POST", f"{at}/{one}/input?close=true", raw=b"the end", status=204)
    assert v1("GET", f"{at}/{one}/output")["stdout"] == "to the end"


def test_signal_and_resize(v1, box):
    at = f"/sandboxes/{box}/exec"
    one = v1("POST", at, {"argv": ["sleep", "60"], "background": True}, status=201)["id"]
    v1.error("POST", f"{at}/{one}/signal", 400, "invalid", {"signal": "SIGWHAT"})
    v1("POST", f"{at}/{one}/signal", {"signal": "SIGTERM"}, status=204)
    done = v1("GET", f"{at}/{one}/output")
    assert done["exit_code"] == -1 and done["signal"] == 15
    v1.error("POST", f"{at}/xnone/signal", 404, "not_found", {"signal": 9})
    one = v1("POST", at, {"command": "sleep 0.5; stty size", "pty": {"cols": 80, "rows": 24},
                          "background": True}, status=201)["id"]
    v1("POST", f"{at}/{one}/resize", {"cols": 100, "rows": 30}, status=204)
    assert "30 100" in v1("GET", f"{at}/{one}/output")["pty"]


def test_a_key_runs_a_command_once(v1, box):
    at, key = f"/sandboxes/{box}/exec", {"Idempotency-Key": "once"}
    body = {"command": "echo x >> /tmp/count; wc -l < /tmp/count"}
    answers = []
    threads = [threading.Thread(target=lambda: answers.append(v1("POST", at, body, key)))
               for _ in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    answers.append(v1("POST", at, body, key))
    assert {a["id"] for a in answers} == {answers[0]["id"]}
    assert {a["stdout"] for a in answers} == {"1\n"} and {a["exit_code"] for a in answers} == {0}
    v1.error("POST", at, 409, "idempotency_conflict", {"command": "echo other"}, headers=key)
    assert v1("POST", at, {"command": "wc -l < /tmp/count"})["stdout"] == "1\n"


def test_a_failed_start_frees_its_key(v1, box):
    at, key = f"/sandboxes/{box}/exec", {"Idempotency-Key": "retry"}
    body = {"argv": ["true"], "cwd": "/later"}
    assert "error" in v1("POST", at, body, key)
    v1("POST", f"/sandboxes/{box}/files/mkdir", {"path": "/later", "user": "root"}, status=201)
    assert v1("POST", at, body, key)["exit_code"] == 0


def test_the_exit_status_outlives_the_client(v1, box, server):
    conn = http.client.HTTPConnection("127.0.0.1", server.port)
    conn.request("POST", f"/v1/sandboxes/{box}/exec",
                 json.dumps({"command": "sleep 0.5; yes | head -c 3000000; exit 7"}),
                 {"X-API-KEY": server.key, "Accept": "application/x-ndjson"})
    first = conn.getresponse()
    one = json.loads(first.readline())["id"]
    conn.sock.close()
    first.close()
    end = time.monotonic() + 10
    while v1("GET", f"/sandboxes/{box}/exec/{one}")["state"] != "exited":
        assert time.monotonic() < end
        time.sleep(0.05)
    assert v1("GET", f"/sandboxes/{box}/exec/{one}")["exit_code"] == 7


def test_a_slow_reader_gets_every_byte(v1, box, server):
    conn = http.client.HTTPConnection("127.0.0.1", server.port)
    conn.request("POST", f"/v1/sandboxes/{box}/exec",
                 json.dumps({"command": "seq 1 400000"}),
                 {"X-API-KEY": server.key, "Accept": "application/x-ndjson"})
    answer, text = conn.getresponse(), ""
    time.sleep(0.5)
    while True:
        line = json.loads(answer.readline())
        if line["type"] == "exit":
            break
        if line["type"] == "stdout":
            assert line["offset"] == len(text)
            text += line["text"]
        assert line["type"] != "lost", "the process is slowed down, nothing falls out"
    assert text == "".join(f"{i}\n" for i in range(1, 400001))


def test_large_output_of_a_wait_is_marked(v1, box):
    done = v1("POST", f"/sandboxes/{box}/exec", {"command": "yes | head -c 3000000"})
    assert done["exit_code"] == 0 and done["stdout_incomplete"] and len(done["stdout"]) <= 1 << 20


def test_killed_while_a_client_waits(v1, server):
    one = v1("POST", "/sandboxes", {}, status=201)["id"]
    answers = []
    waiting = threading.Thread(target=lambda: answers.append(
        v1("POST", f"/sandboxes/{one}/exec", {"command": "sleep 60"})))
    waiting.start()
    time.sleep(0.5)
    v1("DELETE", f"/sandboxes/{one}", status=204)
    waiting.join(10)
    assert answers[0]["error"]["code"] == "sandbox_ended"


@pytest.mark.modes("root")
def test_the_api_role_dies_and_nothing_is_lost(v1, fresh):
    server = fresh()
    mine = V1(server)
    box = mine("POST", "/sandboxes", {}, status=201)["id"]
    at = f"/sandboxes/{box}/exec"
    slow = mine("POST", at, {"command": "sleep 2; echo done; exit 5", "background": True},
                {"Idempotency-Key": "slow"}, status=201)["id"]
    os.kill(server.roles()["api"], signal.SIGKILL)
    server.wait_ready()
    end = time.monotonic() + 15
    while mine("GET", f"{at}/{slow}")["state"] != "exited":
        assert time.monotonic() < end, mine("GET", f"{at}/{slow}")
        time.sleep(0.1)
    assert mine("GET", f"{at}/{slow}")["exit_code"] == 5
    again = mine("POST", at, {"command": "sleep 2; echo done; exit 5"}, {"Idempotency-Key": "slow"})
    assert again["id"] == slow and again["stdout"] == "done\n"


# ---- files ----------------------------------------------------------------------------------------

def test_files_there_and_back(v1, box):
    at = f"/sandboxes/{box}/files"
    data = os.urandom(3_000_000)
    wrote = v1("PUT", at + "?path=/tmp/a/b.bin&mode=600", raw=data, status=200)
    assert wrote["size"] == len(data) and wrote["path"] == "/tmp/a/b.bin" and wrote["mode"] == 0o600
    got = v1("GET", at + "?path=/tmp/a/b.bin", status=200)
    assert hashlib.sha256(got.text).digest() == hashlib.sha256(data).digest()
    part = v1("GET", at + "?path=/tmp/a/b.bin", headers={"Range": "bytes=10-19"}, status=206)
    assert part.text == data[10:20] and part.headers["Content-Range"] == "bytes 10-19/3000000"
    v1.error("GET", at + "?path=/tmp/a/b.bin", 416, "range", headers={"Range": "bytes=3000000-"})
    v1("PUT", at + "?path=/tmp/a/empty", raw=b"", status=200)
    assert v1("GET", at + "?path=/tmp/a/empty", status=200).text == b""
    names = [e["name"] for e in v1("GET", at + "/list?path=/tmp/a", status=200)["entries"]]
    assert sorted(names) == ["b.bin", "empty"]
    assert v1("POST", at + "/move", {"from": "/tmp/a/b.bin", "to": "/tmp/c"})["path"] == "/tmp/c"
    assert v1("GET", at + "/stat?path=/tmp/c", status=200)["type"] == "file"
    v1("DELETE", at + "?path=/tmp/a", status=204)
    v1.error("GET", at + "/stat?path=/tmp/a", 404, "not_found")
    v1.error("GET", at + "?path=/tmp", 400, "is_a_directory")
    v1.error("GET", at, 400, "invalid")
    v1.error("GET", at + "?path=%00", 400, "invalid")
    assert b"model name" in v1("GET", at + "?path=/proc/cpuinfo").text or True
    assert v1("POST", at + "/mkdir", {"path": "/tmp/d/e"}, status=201)["type"] == "directory"
    v1.error("POST", at + "/mkdir", 409, "conflict", {"path": "/tmp/d/e"})


def test_a_list_has_a_cap(v1, box):
    v1("POST", f"/sandboxes/{box}/exec",
       {"command": "mkdir /tmp/many && cd /tmp/many && seq -f %g-xxxxxxxxxxxxxxxx 15000 | xargs touch"})
    v1.error("GET", f"/sandboxes/{box}/files/list?path=/tmp/many", 413, "too_large")


def test_an_upload_that_breaks_off_leaves_the_old_file(v1, box, server):
    at = f"/sandboxes/{box}/files?path=/tmp/kept"
    v1("PUT", at, raw=b"old", status=200)
    with socket.create_connection(("127.0.0.1", server.port)) as s:
        s.sendall((f"PUT /v1{at} HTTP/1.1\r\nHost: x\r\nX-API-KEY: {server.key}\r\n"
                   "Content-Length: 100000\r\n\r\n").encode() + b"n" * 5000)
        time.sleep(0.3)
    time.sleep(0.2)
    assert v1("GET", at).text == b"old"


def test_ports(v1, box):
    at = f"/sandboxes/{box}"
    assert v1("GET", at + "/ports/8123", status=200)["open"] is False
    v1("POST", at + "/exec", {"argv": ["python3", "-m", "http.server", "8123"],
                              "background": True}, status=201)
    end = time.monotonic() + 10
    while not v1("GET", at + "/ports/8123")["open"]:
        assert time.monotonic() < end
        time.sleep(0.1)
    v1.error("GET", at + "/ports/0", 400, "invalid")


# ---- events ---------------------------------------------------------------------------------------

def read_event(stream):
    event = {}
    while True:
        line = stream.readline().decode().rstrip("\n")
        if not line and event:
            return event
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            event[name] = value


def test_events_as_they_happen_and_from_where_it_broke(v1, server):
    def follow(headers):
        conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        conn.request("GET", "/v1/events?after=now", headers={
            "X-API-KEY": server.key, "Accept": "text/event-stream", **headers})
        return conn, conn.getresponse()

    conn, stream = follow({})
    box = v1("POST", "/sandboxes", {}, status=201)["id"]
    first = read_event(stream)
    assert first["event"] == "sandbox.create" and json.loads(first["data"])["sandbox_id"] == box
    conn.close()
    v1("DELETE", f"/sandboxes/{box}", status=204)
    conn, stream = follow({"Last-Event-ID": first["id"]})
    seen = [read_event(stream) for _ in range(3)]
    conn.close()
    assert [e["event"] for e in seen] == ["sandbox.start", "sandbox.kill", "sandbox.end"]
    assert [int(e["id"]) for e in seen] == sorted(int(e["id"]) for e in seen)
    page = v1("GET", f"/events?after={first['id']}&sandbox={box}&limit=2", status=200)["events"]
    assert [e["action"] for e in page] == ["sandbox.start", "sandbox.kill"]


def test_events_of_a_revoked_key_end_and_others_go_on(server):
    mine = V1(server, server.make_key("revoker"))
    other = mine("POST", "/keys", {"name": "other"}, status=201)

    def follow(method, key):
        conn = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
        conn.request(method, "/v1/events?after=now", headers={
            "X-API-KEY": key, "Accept": "text/event-stream"})
        return conn, conn.getresponse()

    cut, cut_stream = follow("GET", other["key"])
    kept, kept_stream = follow("GET", mine.key)
    mine("DELETE", f"/keys/{other['id']}", status=204)
    assert cut_stream.read().decode().endswith(": the key was revoked\n\n")
    mine("POST", "/keys", {"name": "third"}, status=201)
    seen = [read_event(kept_stream)["event"] for _ in range(2)]
    assert seen == ["key.revoke", "key.create"]
    kept.close()
    cut.close()
    head, answer = follow("HEAD", mine.key)
    assert answer.status == 200 and answer.read() == b""
    head.close()


# ---- keys -----------------------------------------------------------------------------------------

def test_keys_of_the_own_tenant(server):
    mine = V1(server, server.make_key("keymaker"))
    made = mine("POST", "/keys", {"name": "second"}, status=201)
    second = V1(server, made["key"])
    assert second("GET", "/whoami", status=200)["tenant"] == "keymaker"
    listed = mine("GET", "/keys", status=200)["keys"]
    assert len(listed) == 2 and all("key" not in k for k in listed)
    V1(server).error("DELETE", f"/keys/{made['id']}", 404, "not_found")
    mine("DELETE", f"/keys/{made['id']}", status=204)
    second("GET", "/whoami", status=401)


# ---- webhooks -------------------------------------------------------------------------------------

class Receiver:
    """What a tenant runs: takes deliveries, answers as told."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/hook?x=1"
        self.got, self.answers = [], []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        while True:
            try:
                conn, _ = self.socket.accept()
            except OSError:
                return
            with conn, conn.makefile("rb") as f:
                line = f.readline().decode()
                head = http.client.parse_headers(f)
                body = f.read(int(head["Content-Length"]))
                self.got.append((line, head, body))
                status = self.answers.pop(0) if self.answers else 200
                conn.sendall(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n".encode())

    def wait(self, n, seconds=15):
        end = time.monotonic() + seconds
        while len(self.got) < n:
            assert time.monotonic() < end, self.got
            time.sleep(0.02)
        return self.got


def test_webhooks_are_signed_ordered_and_retried(fresh):
    server = fresh("--webhooks-private")
    mine, receiver = V1(server), Receiver()
    receiver.answers = [500, 200]
    hook = mine("POST", "/webhooks", {"url": receiver.url, "actions": ["sandbox.*"]}, status=201)
    box = mine("POST", "/sandboxes", {}, status=201)["id"]
    mine("POST", f"/sandboxes/{box}/exec", {"argv": ["true"]}, status=200)
    mine("DELETE", f"/sandboxes/{box}", status=204)
    got = receiver.wait(5)
    assert got[0][0] == "POST /hook?x=1 HTTP/1.1\r\n"
    actions = [json.loads(body)["action"] for _, _, body in got]
    assert actions == ["sandbox.create", "sandbox.create", "sandbox.start", "sandbox.kill",
                       "sandbox.end"], "the first was refused once; exec.* was not asked for"
    for _, head, body in got:
        when, mac = head["Bawn-Signature"].split(",")
        text = when[2:].encode() + b"." + body
        want = hmac.new(hook["secret"].encode(), text, hashlib.sha256).hexdigest()
        assert mac == "v1=" + want and abs(int(when[2:]) - time.time()) < 60
        assert head["Bawn-Event"] == json.loads(body)["action"]
    seen = mine("GET", f"/webhooks/{hook['id']}", status=200)
    assert seen["failures"] == 0 and "secret" not in seen
    assert mine("PATCH", f"/webhooks/{hook['id']}", {"enabled": False})["enabled"] is False
    mine("POST", "/keys", {}, status=201)
    mine("DELETE", f"/webhooks/{hook['id']}", status=204)
    mine.error("GET", f"/webhooks/{hook['id']}", 404, "not_found")
    assert len(receiver.got) == 5


def test_webhooks_of_strangers_stay_outside(v1, other):
    for url in ("http://127.0.0.1/", "http://10.0.0.1/", "http://169.254.169.254/latest",
                "http://[::1]/", "http://[::ffff:127.0.0.1]/"):
        v1.error("POST", "/webhooks", 403, "denied", {"url": url})
    for body in ({}, {"url": "ftp://8.8.8.8/"}, {"url": "http://name..example/"},
                 {"url": "http://8.8.8.8/", "actions": "x"}, {"url": "http://8.8.8.8/", "x": 1},
                 {"url": "http://8.8.8.8/", "secret": "short"}):
        v1.error("POST", "/webhooks", 400, "invalid", body)
    made = v1("POST", "/webhooks", {"url": "https://8.8.8.8/", "enabled": False}, status=201)
    assert len(made["secret"]) == 64
    other.error("GET", f"/webhooks/{made['id']}", 404, "not_found")
    other.error("DELETE", f"/webhooks/{made['id']}", 404, "not_found")
    v1("DELETE", f"/webhooks/{made['id']}", status=204)


def test_a_name_leads_only_where_it_may(v1, fresh):
    receiver = Receiver()
    by_name = receiver.url.replace("127.0.0.1", "localhost")
    made = v1("POST", "/webhooks", {"url": by_name, "actions": ["key.*"]}, status=201)
    v1("POST", "/keys", {}, status=201)
    end = time.monotonic() + 15
    while v1("GET", f"/webhooks/{made['id']}")["failures"] == 0:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert not receiver.got, "a name of a private address is not dialled"
    v1("DELETE", f"/webhooks/{made['id']}", status=204)
    mine = V1(fresh("--webhooks-private"))
    mine("POST", "/webhooks", {"url": by_name, "actions": ["key.*"]}, status=201)
    mine("POST", "/keys", {}, status=201)
    assert receiver.wait(1)[0][1]["Host"].startswith("localhost:")


def test_the_document_is_served(server):
    answer = server.request("GET", "/openapi.json", key=None)
    document = answer.json()
    assert document["openapi"] == "3.1.0"
    assert "/v1/sandboxes/{id}/exec" in document["paths"] and "/v2/sandboxes" in document["paths"]
