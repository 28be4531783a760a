# SPDX-License-Identifier: Apache-2.0
"""One tenant against another: ids, tokens, signed URLs, hosts, lists, keys, and the time it takes."""
import base64
import hashlib
import re
import statistics
import time
import urllib.parse

import pytest


@pytest.fixture(scope="module")
def mallory(server):
    return server.make_key("mallory")


@pytest.fixture(scope="module")
def victim(server):
    box = server.create(metadata={"secret": "name"})
    yield box
    server.request("DELETE", f"/sandboxes/{box['sandboxID']}")


UNKNOWN = "i" + "0" * 20

ROUTES = [("GET", "", None), ("DELETE", "", None), ("POST", "/connect", {}), ("GET", "/metrics", None),
          ("POST", "/timeout", {"timeout": 1}), ("PUT", "/network", {}), ("GET", "/logs", None),
          ("POST", "/pause", {}), ("POST", "/refreshes", {}), ("POST", "/fork", {}),
          ("POST", "/snapshots", {})]


@pytest.mark.parametrize("method,tail,body", ROUTES)
def test_foreign_is_as_unknown(server, mallory, victim, method, tail, body):
    answers = []
    for one in (victim["sandboxID"], UNKNOWN):
        answer = server.request(method, f"/sandboxes/{one}{tail}", body, key=mallory)
        answers.append((answer.status, answer.body.replace(one.encode(), b"ID"),
                        sorted(k for k in answer.headers if k != "Date")))
    assert answers[0] == answers[1]
    assert answers[0][0] == 404
    assert server.request("GET", f"/sandboxes/{victim['sandboxID']}").status == 200


def test_lists_show_only_ones_own(server, mallory, victim):
    for path in ("/sandboxes", "/v2/sandboxes"):
        answer = server.request("GET", path, key=mallory)
        assert victim["sandboxID"].encode() not in answer.body
        assert answer.headers["X-Total-Running"] == "0"
    ids = server.request("GET", f"/sandboxes/metrics?sandbox_ids={victim['sandboxID']}", key=mallory)
    assert ids.json() == {"sandboxes": {}}


def test_a_page_token_is_no_key(server, mallory, victim):
    other = server.create()
    token = server.request("GET", "/v2/sandboxes?limit=1").headers["X-Next-Token"]
    assert server.request("GET", f"/v2/sandboxes?nextToken={token}", key=mallory).json() == []
    server.request("DELETE", f"/sandboxes/{other['sandboxID']}")


def test_an_idempotency_key_is_the_tenants_own(server, mallory):
    headers = {"Idempotency-Key": "shared-word"}
    body = {"templateID": "base", "timeout": 30}
    ours = server.request("POST", "/v2/sandboxes", body, headers).json()
    theirs = server.request("POST", "/v2/sandboxes", body, headers, key=mallory).json()
    assert ours["sandboxID"] != theirs["sandboxID"]
    assert server.request("DELETE", f"/sandboxes/{ours['sandboxID']}").status == 204
    assert server.request("DELETE", f"/sandboxes/{theirs['sandboxID']}", key=mallory).status == 204


def test_the_data_plane_wants_the_sandboxs_own_token(server, mallory, victim):
    mine = server.request("POST", "/v2/sandboxes", {"templateID": "base"}, key=mallory).json()
    path = "/filesystem.Filesystem/Stat"
    for token in (None, "", "x", mine["envdAccessToken"], victim["envdAccessToken"][:-1],
                  victim["envdAccessToken"] + "0", victim["envdAccessToken"].upper(), mallory):
        headers = {"E2b-Sandbox-Id": victim["sandboxID"], "Content-Type": "application/json"}
        if token is not None:
            headers["X-Access-Token"] = token
        assert server.request("POST", path, {"path": "/"}, headers, key=mallory).status == 401, token
    headers = {"E2b-Sandbox-Id": UNKNOWN, "X-Access-Token": victim["envdAccessToken"],
               "Content-Type": "application/json"}
    assert server.request("POST", path, {"path": "/"}, headers, key=None).status == 502
    assert server.rpc(victim, "filesystem.Filesystem/Stat", {"path": "/"}).status == 200
    server.request("DELETE", f"/sandboxes/{mine['sandboxID']}", key=mallory)


def test_a_host_is_no_way_round_the_token(server, victim):
    for host in (f"49983-{victim['sandboxID']}.localhost", f"49983-{victim['sandboxID'].upper()}.X"):
        answer = server.request("POST", "/filesystem.Filesystem/Stat", {"path": "/"},
                                {"Host": host, "Content-Type": "application/json"}, key=None)
        assert answer.status == 401
        assert server.request("GET", "/health", headers={"Host": host}, key=None).status == 204
    assert server.request("GET", "/health", headers={"Host": f"49983-{UNKNOWN}.x"},
                          key=None).status == 502


def signed(path, operation, token, user="", expiration=None):
    text = f"{path}:{operation}:{user}:{token}" + (f":{expiration}" if expiration else "")
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def test_signed_urls_open_one_path_of_one_sandbox(server, mallory, victim):
    assert server.run(victim, "echo treasure > /home/user/file")[0] == 0
    mine = server.request("POST", "/v2/sandboxes", {"templateID": "base"}, key=mallory).json()
    good = signed("file", "read", victim["envdAccessToken"])

    def get(path, signature, **more):
        query = urllib.parse.urlencode({"path": path, "signature": signature, **more})
        return server.request("GET", f"/files?{query}", key=None)

    answer = get("file", good)
    assert (answer.status, answer.body) == (200, b"treasure\n")
    for path, signature in (("other", good), ("/home/user/file", good), ("file", good[:-1]),
                            ("file", "v1_"), ("file", ""),
                            ("file", signed("file", "write", victim["envdAccessToken"])),
                            ("file", signed("file", "read", ""))):
        answer = get(path, signature)
        assert answer.status in (401, 429), (path, signature)
        assert b"treasure" not in answer.body
    # Mallory's own token signs her own sandbox, where there is no such file.
    assert get("file", signed("file", "read", mine["envdAccessToken"])).status == 404
    past = int(time.time()) - 10
    late = get("file", signed("file", "read", victim["envdAccessToken"], expiration=past),
               signature_expiration=past)
    assert late.status == 401 and late.json()["message"] == "signature is already expired"
    server.request("DELETE", f"/sandboxes/{mine['sandboxID']}", key=mallory)


def test_ids_and_tokens_are_random(server):
    boxes = [server.create() for _ in range(8)]
    ids = [one["sandboxID"] for one in boxes]
    tokens = [one["envdAccessToken"] for one in boxes]
    assert len(set(ids)) == len(set(tokens)) == 8
    assert all(re.fullmatch("i[a-z0-9]{20}", one) for one in ids)
    assert all(re.fullmatch("[0-9a-f]{64}", one) for one in tokens)
    # No two share more of a beginning than chance gives.
    assert all(len({one[:k] for one in ids}) == 8 for k in (8, 12))
    for one in ids:
        server.request("DELETE", f"/sandboxes/{one}")


def test_no_key_no_word(fresh):
    server = fresh()
    box = server.create()
    for key in (None, "x", "e2b_" + "0" * 40, server.key[:-1], server.key + "0", server.key.upper()):
        answer = server.request("GET", f"/sandboxes/{box['sandboxID']}", key=key)
        assert answer.status == 401 and answer.json()["code"] == 401
    bearer = server.request("GET", "/v2/sandboxes", key=None,
                            headers={"Authorization": f"Bearer {server.key}"})
    assert bearer.status == 200


def test_a_revoked_key_is_as_unknown_at_once(fresh):
    server = fresh()
    key = server.make_key("short")
    assert server.request("GET", "/v2/sandboxes", key=key).status == 200
    assert server.bawn("key", "revoke", key[:12], "--state", server.state).returncode == 0
    gone = server.request("GET", "/v2/sandboxes", key=key)
    never = server.request("GET", "/v2/sandboxes", key="e2b_" + "1" * 40)
    assert gone.status == never.status == 401 and gone.body == never.body


def test_guessing_is_slowed_and_harms_nobody_else(fresh):
    server = fresh()
    answers = [server.request("GET", "/v2/sandboxes", key=f"e2b_{i:040x}") for i in range(60)]
    limited = [one for one in answers if one.status == 429]
    assert answers[0].status == 401 and limited
    assert int(limited[0].headers["Retry-After"]) >= 1
    assert limited[0].json()["code"] == 429
    # The same address with a good key is served.
    assert server.request("GET", "/v2/sandboxes").status == 200


def test_time_tells_nothing_about_ids(server, mallory, victim):
    """Foreign and unknown ids take the same time, as far as this noisy a clock can tell."""
    took = {victim["sandboxID"]: [], UNKNOWN: []}
    for _ in range(150):
        for one, times in took.items():
            start = time.perf_counter()
            server.request("GET", f"/sandboxes/{one}", key=mallory)
            times.append(time.perf_counter() - start)
    foreign, unknown = (statistics.median(times) for times in took.values())
    assert abs(foreign - unknown) < max(foreign, unknown) / 2
