# SPDX-License-Identifier: Apache-2.0
"""The E2B control plane, request by request, as the SDKs and the specification have it."""
import datetime
import http.client
import json
import os
import signal
import socket
import struct
import threading
import time
import urllib.parse

import pytest

LISTED = {"templateID", "sandboxID", "clientID", "startedAt", "endAt", "cpuCount", "memoryMB",
          "diskSizeMB", "state", "envdVersion", "metadata"}


def post(server, path, body, **more):
    return server.request("POST", path, body, **more)


def end_at(server, box):
    info = server.request("GET", f"/sandboxes/{box['sandboxID']}").json()
    return datetime.datetime.fromisoformat(info["endAt"].replace("Z", "+00:00")).timestamp()


def wait_until(condition, seconds=10):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def check_error(answer, status):
    body = answer.json()
    assert answer.status == status, body
    assert body["code"] == status and isinstance(body["message"], str) and body["message"]
    return body["message"]


@pytest.mark.parametrize("path", ["/sandboxes", "/v2/sandboxes"])
def test_create_answers_201_with_every_key(server, path):
    answer = post(server, path, {"templateID": "base", "timeout": 30})
    body = answer.json()
    assert answer.status == 201
    assert {"templateID", "sandboxID", "clientID", "envdVersion", "domain"} <= set(body)
    assert body["envdVersion"] == "0.6.13"
    assert body["sandboxID"].isalnum() and body["sandboxID"].islower()
    # The newer path is always secure, the older one if asked.
    assert ("envdAccessToken" in body) == (path == "/v2/sandboxes")
    assert "trafficAccessToken" not in body
    assert server.request("DELETE", f"/sandboxes/{body['sandboxID']}").status == 204


def test_older_create_is_secure_when_asked(server):
    body = post(server, "/sandboxes", {"templateID": "base", "secure": True}).json()
    assert len(body["envdAccessToken"]) == 64
    server.request("DELETE", f"/sandboxes/{body['sandboxID']}")


def test_private_ports_come_with_a_traffic_token(server):
    body = server.create(network={"allowPublicTraffic": False})
    assert len(body["trafficAccessToken"]) == 64
    server.request("DELETE", f"/sandboxes/{body['sandboxID']}")


def test_default_lives_differ_by_path(server):
    for path, seconds in (("/sandboxes", 15), ("/v2/sandboxes", 300)):
        body = post(server, path, {"templateID": "base"}).json()
        left = end_at(server, body) - time.time()
        assert seconds - 3 < left <= seconds + 1
        server.request("DELETE", f"/sandboxes/{body['sandboxID']}")


@pytest.mark.parametrize("body,word", [
    ({}, "templateID"),
    ({"templateID": 5}, "templateID"),
    ({"templateID": "base", "timeout": 0}, "timeout"),
    ({"templateID": "base", "timeout": -1}, "timeout"),
    ({"templateID": "base", "timeout": "60"}, "timeout"),
    ({"templateID": "base", "timeout": 1.5}, "timeout"),
    ({"templateID": "base", "timeout": 10 ** 9}, "timeout"),
    ({"templateID": "base", "metadata": []}, "metadata"),
    ({"templateID": "base", "metadata": {"a": 1}}, "metadata"),
    ({"templateID": "base", "envVars": "x"}, "envVars"),
    ({"templateID": "base", "envVars": {"a=b": "x"}}, "envVars"),
    ({"templateID": "base", "envVars": {"": "x"}}, "envVars"),
    ({"templateID": "base", "network": []}, "network"),
    ({"templateID": "base", "network": {"denyOut": ["example.com"]}}, "denyOut"),
    ({"templateID": "base", "metadata": {"a": "x" * 70000}}, "metadata"),
])
def test_bad_fields_are_named(server, body, word):
    assert word in check_error(post(server, "/v2/sandboxes", body), 400)


@pytest.mark.parametrize("text", [b"{", b"[]", b"null", b"\xff\xfe", b'{"a":1,"a":2}', b'"x"'])
def test_bodies_that_are_no_object_are_refused(server, text):
    check_error(server.request("POST", "/v2/sandboxes", text), 400)


def test_body_past_the_cap_is_413(server):
    answer = server.request("POST", "/v2/sandboxes", b"{" + b" " * (1 << 20) + b"}")
    assert answer.status == 413


def test_unknown_template_is_404(server):
    check_error(post(server, "/v2/sandboxes", {"templateID": "nope"}), 404)


@pytest.mark.parametrize("more", [{"autoPause": True}, {"volumeMounts": [{"name": "a", "path": "/a"}]},
                                  {"iam": {"tokens": {"a": {}}}}])
def test_what_cannot_be_kept_yet_is_refused(server, more):
    check_error(post(server, "/v2/sandboxes", {"templateID": "base", **more}), 501)


def test_chunked_body_without_length(server):
    """As the JavaScript SDK sends every body."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    c.putrequest("POST", "/v2/sandboxes")
    c.putheader("X-API-KEY", server.key)
    c.putheader("Transfer-Encoding", "chunked")
    c.endheaders()
    for part in (b'{"templateID":', b'"base"}'):
        c.send(b"%x\r\n%s\r\n" % (len(part), part))
    c.send(b"0\r\n\r\n")
    answer = c.getresponse()
    body = json.loads(answer.read())
    assert answer.status == 201
    server.request("DELETE", f"/sandboxes/{body['sandboxID']}")


def test_info_has_every_key(server):
    box = server.create(metadata={"a": "b"}, allow_internet_access=False,
                        network={"denyOut": ["0.0.0.0/0"]})
    body = server.request("GET", f"/sandboxes/{box['sandboxID']}").json()
    assert LISTED <= set(body)
    assert body["state"] == "running" and body["metadata"] == {"a": "b"}
    assert body["envdAccessToken"] == box["envdAccessToken"]
    assert body["allowInternetAccess"] is False
    assert body["network"] == {"denyOut": ["0.0.0.0/0"]}
    assert body["lifecycle"] == {"autoResume": False, "onTimeout": "kill"}
    assert all(isinstance(body[k], int) for k in ("cpuCount", "memoryMB", "diskSizeMB"))
    server.request("DELETE", f"/sandboxes/{box['sandboxID']}")


def test_timeout_sets_and_connect_only_extends(server, sandbox):
    path = f"/sandboxes/{sandbox['sandboxID']}"
    assert post(server, path + "/timeout", {"timeout": 60}).status == 204
    assert 55 < end_at(server, sandbox) - time.time() <= 61
    answer = post(server, path + "/connect", {"timeout": 20})
    assert answer.status == 200 and answer.json()["sandboxID"] == sandbox["sandboxID"]
    assert answer.json()["envdAccessToken"] == sandbox["envdAccessToken"]
    assert end_at(server, sandbox) - time.time() > 50
    assert post(server, "/v2" + path + "/connect", {}).status == 200
    assert end_at(server, sandbox) - time.time() > 290
    assert post(server, path + "/timeout", {"timeout": 30}).status == 204
    assert end_at(server, sandbox) - time.time() <= 31
    assert post(server, path + "/refreshes", {"duration": 100}).status == 204
    assert end_at(server, sandbox) - time.time() > 90
    check_error(post(server, path + "/timeout", {}), 400)
    check_error(post(server, path + "/timeout", {"timeout": 0}), 400)
    check_error(post(server, path + "/connect", {"timeout": -5}), 400)


def test_time_is_up(server):
    box = server.create(timeout=1)
    path = f"/sandboxes/{box['sandboxID']}"
    assert server.request("GET", path).status == 200
    wait_until(lambda: server.request("GET", path).status == 404)
    health = server.request("GET", "/health", headers=server.inside(box), key=None)
    assert health.status == 502


def test_kill_is_204_then_404(server):
    box = server.create()
    path = f"/sandboxes/{box['sandboxID']}"
    assert server.request("GET", "/health", headers=server.inside(box), key=None).status == 204
    answer = server.request("DELETE", path)
    assert answer.status == 204 and answer.body == b""
    for method, tail, body in (("DELETE", "", None), ("GET", "", None), ("GET", "/metrics", None),
                               ("POST", "/timeout", {"timeout": 5}), ("POST", "/connect", {}),
                               ("POST", "/pause", {}), ("PUT", "/network", {})):
        check_error(server.request(method, path + tail, body), 404)
    dead = server.request("GET", "/health", headers=server.inside(box), key=None)
    assert dead.status == 502
    assert dead.json() == {"sandboxId": box["sandboxID"], "code": 502,
                           "message": "The sandbox was not found"}


def test_kill_breaks_off_streams(server):
    box = server.create()
    message = {"process": {"cmd": "/bin/sleep", "args": ["60"]}, "stdin": False}
    payload = json.dumps(message).encode()
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    c.request("POST", "/process.Process/Start", b"\0" + struct.pack(">I", len(payload)) + payload,
              server.inside(box, **{"Content-Type": "application/connect+json",
                                    "Connect-Protocol-Version": "1"}))
    answer = c.getresponse()
    assert b"start" in answer.read1()
    assert server.request("DELETE", f"/sandboxes/{box['sandboxID']}").status == 204
    # No end of stream, no last chunk: a reset, or a body that is not whole.
    with pytest.raises((ConnectionResetError, http.client.IncompleteRead)):
        answer.read()


def quoted(metadata):
    """Each key and value, then the whole; the query encodes once more."""
    pairs = "&".join(f"{urllib.parse.quote(k, safe='')}={urllib.parse.quote(v, safe='')}"
                     for k, v in metadata.items())
    return urllib.parse.quote(urllib.parse.quote(pairs, safe="&="), safe="")


def test_list_filters_and_pages(server):
    mark = os.urandom(6).hex()
    boxes = []
    for i in range(5):
        boxes.append(server.create(metadata={"mark": mark, "k= &": f"{i % 2} %"})["sandboxID"])
        time.sleep(0.005)
    path = f"/v2/sandboxes?metadata={quoted({'mark': mark})}"

    def ids(answer):
        assert answer.status == 200
        assert all(LISTED <= set(one) for one in answer.json())
        return [one["sandboxID"] for one in answer.json()]

    assert ids(server.request("GET", path)) == boxes[::-1]
    assert ids(server.request("GET", path + "&order=asc")) == boxes
    assert ids(server.request("GET", path + "&state=running,paused")) == boxes[::-1]
    assert ids(server.request("GET", path + "&state=running%2Cpaused")) == boxes[::-1]
    assert ids(server.request("GET", path + "&state=paused")) == []
    assert ids(server.request("GET", path + "&template=base")) == boxes[::-1]
    assert ids(server.request("GET", path + "&template=other")) == []
    odd = f"/v2/sandboxes?metadata={quoted({'mark': mark, 'k= &': '1 %'})}"
    assert ids(server.request("GET", odd)) == [boxes[3], boxes[1]]
    assert set(boxes) <= set(ids(server.request("GET", "/sandboxes")))
    third = server.request("GET", f"/sandboxes/{boxes[2]}").json()["startedAt"]
    assert ids(server.request("GET", path + f"&startedAfter={third}")) == boxes[:1:-1]

    for order in ("desc", "asc"):
        found, token, pages = [], "", 0
        while token is not None:
            answer = server.request(
                "GET", path + f"&limit=2&order={order}" + (f"&nextToken={token}" if token else ""))
            found += ids(answer)
            token = answer.headers.get("X-Next-Token")
            pages += 1
        assert pages == 3
        assert found == (boxes if order == "asc" else boxes[::-1])

    # What goes between two pages neither repeats nor hides another.
    first = server.request("GET", path + "&limit=2")
    server.request("DELETE", f"/sandboxes/{boxes[4]}")
    rest = server.request("GET", path + f"&limit=10&nextToken={first.headers['X-Next-Token']}")
    assert ids(rest) == boxes[2::-1]
    for one in boxes[:4]:
        server.request("DELETE", f"/sandboxes/{one}")


@pytest.mark.parametrize("query", ["limit=0", "limit=101", "limit=x", "state=dead", "order=up",
                                   "nextToken=x", "startedAfter=x", "metadata=%25zz"])
def test_bad_list_parameters(server, query):
    check_error(server.request("GET", "/v2/sandboxes?" + query), 400)


def test_metrics_are_never_empty(server, sandbox):
    body = server.request("GET", f"/sandboxes/{sandbox['sandboxID']}/metrics").json()
    assert len(body) >= 1
    for one in body:
        assert set(one) == {"timestamp", "timestampUnix", "cpuCount", "cpuUsedPct", "memUsed",
                            "memTotal", "memCache", "diskUsed", "diskTotal"}
    assert body[-1]["memUsed"] > 0 and body[-1]["memTotal"] > 0
    assert abs(body[-1]["timestampUnix"] - time.time()) < 5
    path = f"/sandboxes/{sandbox['sandboxID']}/metrics"
    assert server.request("GET", path + "?end=1").json() == []
    check_error(server.request("GET", path + "?start=x"), 400)
    many = server.request("GET", f"/sandboxes/metrics?sandbox_ids={sandbox['sandboxID']},inobody")
    assert set(many.json()["sandboxes"]) == {sandbox["sandboxID"]}


def test_logs_tell_its_life(server, sandbox):
    path = f"/sandboxes/{sandbox['sandboxID']}/logs"
    old = server.request("GET", path).json()
    assert [line["line"].split()[0] for line in old["logs"]][:2] == ["sandbox.create", "sandbox.start"]
    assert {"timestamp", "level", "message", "fields"} == set(old["logEntries"][0])
    new = server.request("GET", "/v2" + path + "?direction=backward&limit=1").json()["logs"]
    assert len(new) == 1 and new[0]["message"] == old["logEntries"][-1]["message"]
    check_error(server.request("GET", "/sandboxes/inobody/logs"), 404)


def test_network_is_checked_and_replaced(server, sandbox):
    path = f"/sandboxes/{sandbox['sandboxID']}"
    assert server.request("PUT", path + "/network", {"allowOut": ["*.example.com"]}).status == 204
    assert server.request("GET", path).json()["network"] == {"allowOut": ["*.example.com"]}
    assert server.request("PUT", path + "/network", {}).status == 204
    assert server.request("GET", path).json().get("network") in (None, {})
    check_error(server.request("PUT", path + "/network", {"allowOut": "x"}), 400)


@pytest.mark.parametrize("method,path", [
    ("POST", "/v3/templates"), ("GET", "/templates"), ("GET", "/snapshots"), ("GET", "/volumes"),
    ("POST", "/volumes"), ("GET", "/secrets"), ("DELETE", "/templates/a%2Fb%3Ac"),
    ("POST", "/v2/templates/x/builds/y"), ("GET", "/templates/x/builds/y/status"),
])
def test_what_comes_later_says_so(server, method, path):
    assert "come" in check_error(server.request(method, path, {} if method == "POST" else None), 501)


def test_pause_and_fork_say_so(server, sandbox):
    for tail in ("pause", "resume", "fork", "snapshots"):
        check_error(post(server, f"/sandboxes/{sandbox['sandboxID']}/{tail}", {}), 501)


def test_idempotency_key_makes_one_sandbox(server):
    key = {"Idempotency-Key": "key-" + os.urandom(8).hex()}
    body = {"templateID": "base", "timeout": 30}
    first = post(server, "/v2/sandboxes", body, headers=key)
    again = post(server, "/v2/sandboxes", body, headers=key)
    assert first.status == again.status == 201 and first.json() == again.json()
    check_error(post(server, "/v2/sandboxes", {**body, "timeout": 40}, headers=key), 409)
    check_error(post(server, "/v2/sandboxes", body, headers={"Idempotency-Key": "a b"}), 400)
    server.request("DELETE", f"/sandboxes/{first.json()['sandboxID']}")


def test_paths_and_methods(server):
    check_error(server.request("GET", "/nope"), 404)
    answer = server.request("PATCH", "/sandboxes")
    check_error(answer, 405)
    assert set(answer.headers["Allow"].split(", ")) == {"GET", "POST"}
    assert server.request("GET", "/health", key=None).status == 204
    text = server.request("GET", "/metrics", key=None)
    assert text.status == 200 and b"bawn_sandboxes_running" in text.body
    assert b"bawn_create_seconds_bucket" in text.body


def test_client_that_leaves_during_create_leaves_no_sandbox(server):
    before = {one["sandboxID"] for one in server.list()}
    body = json.dumps({"templateID": "base", "timeout": 300}).encode()
    for _ in range(10):
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(b"POST /v2/sandboxes HTTP/1.1\r\nHost: x\r\nX-API-KEY: %s\r\nContent-Length: %d\r\n"
                  b"\r\n%s" % (server.key.encode(), len(body), body))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()

    def settled():
        return {one["sandboxID"] for one in server.list()} == before

    # One may have been answered into a connection that was just closing: it has its own TTL, but
    # all of them together would be a leak.
    end = time.monotonic() + 5
    while not settled() and time.monotonic() < end:
        time.sleep(0.1)
    left = {one["sandboxID"] for one in server.list()} - before
    for one in left:
        server.request("DELETE", f"/sandboxes/{one}")
    assert not left


@pytest.mark.parametrize("role", ["api", "warden"])
def test_sandboxes_survive_a_killed_role(server, role):
    box = server.create(metadata={"survives": role})
    assert server.run(box, "echo before > /tmp/file")[0] == 0
    old = server.roles()[role]
    deadline = end_at(server, box)
    os.kill(old, signal.SIGKILL)
    wait_until(lambda: server.roles().get(role) not in (None, old))

    def is_back():
        try:
            return server.request("GET", f"/sandboxes/{box['sandboxID']}").status == 200
        except OSError:
            return False

    wait_until(is_back)
    assert abs(end_at(server, box) - deadline) < 2
    assert server.run(box, "cat /tmp/file")[1] == b"before\n"
    another = []

    def can_create():
        answer = post(server, "/v2/sandboxes", {"templateID": "base"})
        if answer.status == 201:
            another.append(answer.json()["sandboxID"])
        return answer.status == 201

    wait_until(can_create)
    for one in [box["sandboxID"], *another]:
        assert server.request("DELETE", f"/sandboxes/{one}").status == 204


def test_kill_on_exit_ends_what_is_being_made_too(fresh):
    server = fresh("--kill-on-exit")
    server.create()
    stop = threading.Event()

    def keep_creating():
        while not stop.is_set():
            try:
                post(server, "/v2/sandboxes", {"templateID": "base", "timeout": 300})
            except (OSError, http.client.HTTPException):
                return

    threads = [threading.Thread(target=keep_creating) for _ in range(4)]
    for one in threads:
        one.start()
    time.sleep(0.3)
    server.stop(seconds=60)
    stop.set()
    for one in threads:
        one.join()
    assert os.listdir(os.path.join(server.state, "boxes")) == []
