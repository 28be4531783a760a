# SPDX-License-Identifier: Apache-2.0
"""Secrets of tenants: sealed in the store, live in egress, nowhere in an answer."""
import glob
import json
import os

import pytest

VALUE = "sk-live-0123456789-sealed"


@pytest.fixture(scope="module")
def mallory(server):
    return server.make_key("mallory")


def put(server, name="KEY", value=VALUE, method="PUT", **more):
    return server.request(method, f"/v1/secrets/{name}", {"value": value}, **more)


def test_a_secret_is_set_rotated_and_removed(server):
    made = put(server)
    assert made.status == 201, made.body
    assert made.json()["version"] == 1 and made.json()["placeholder"].startswith("bawn-ph-")
    again = put(server, value="second", method="PATCH")
    assert again.status == 200 and again.json()["version"] == 2
    assert again.json()["placeholder"] == made.json()["placeholder"]
    assert [s["name"] for s in server.request("GET", "/v1/secrets").json()["secrets"]] == ["KEY"]
    assert server.request("GET", "/v1/secrets/KEY").json() == again.json()
    assert server.request("DELETE", "/v1/secrets/KEY").status == 204
    assert server.request("DELETE", "/v1/secrets/KEY").status == 404
    assert put(server, method="PATCH").status == 404


def test_no_answer_event_or_file_has_the_value(server):
    answers = [put(server, "HIDDEN"), server.request("GET", "/v1/secrets"), server.request("GET", "/v1/secrets/HIDDEN"),
               server.request("GET", "/v1/events")]
    assert b"secret.set" in answers[-1].body
    assert not any(VALUE.encode() in answer.body for answer in answers)
    for path in glob.glob(os.path.join(server.state, "**"), recursive=True):
        if os.path.isfile(path):
            with open(path, "rb") as f:
                data = f.read()
            assert VALUE.encode() not in data and VALUE.encode().hex().encode() not in data, path
    assert server.request("DELETE", "/v1/secrets/HIDDEN").status == 204


@pytest.mark.parametrize("name,body", [
    ("KEY", {}), ("KEY", {"value": ""}), ("KEY", {"value": "a\nb"}), ("KEY", {"value": 7}),
    ("KEY", {"value": "x" * 16385}), ("KEY", {"value": "x", "more": 1}), ("-KEY", {"value": "x"}),
    ("..%2Fx", {"value": "x"}), ("x" * 64, {"value": "x"}),
])
def test_bad_ones_are_refused(server, name, body):
    answer = server.request("PUT", f"/v1/secrets/{name}", body)
    assert answer.status == 400, answer.body
    assert server.request("GET", "/v1/secrets").json() == {"secrets": []}


def test_a_tenant_sees_its_own(server, mallory):
    mine = put(server, "SHARED").json()
    assert server.request("GET", "/v1/secrets", key=mallory).json() == {"secrets": []}
    for method in ("GET", "DELETE", "PATCH"):
        answer = server.request(method, "/v1/secrets/SHARED", {"value": "x"} if method == "PATCH" else None, key=mallory)
        assert answer.status == 404, answer.body
    theirs = put(server, "SHARED", key=mallory).json()
    assert theirs["version"] == 1 and theirs["placeholder"] != mine["placeholder"]
    assert server.request("DELETE", "/v1/secrets/SHARED", key=mallory).status == 204
    assert server.request("GET", "/v1/secrets/SHARED").json() == mine
    assert server.request("DELETE", "/v1/secrets/SHARED").status == 204


def test_a_box_finds_the_placeholder(server):
    placeholder = put(server, "BOUND").json()["placeholder"]
    policy = {"name": "bound", "version": 1, "network": {"rules": [
        {"name": "api", "hosts": ["api.test"], "credentials": [
            {"secret": "BOUND", "header": "Authorization", "format": "Bearer {}", "env": "API_KEY"},
            {"secret": "ABSENT", "header": "X-Key", "env": "ABSENT"}]}]}}
    saved = server.request("PUT", "/v1/profiles/bound", {"yaml": json.dumps(policy)})
    assert saved.status in (200, 201), saved.body
    box = server.request("POST", "/v1/sandboxes", {"profile": "bound"}).json()
    done = server.request("POST", f"/v1/sandboxes/{box['id']}/exec",
                          {"command": "echo $API_KEY/$ABSENT"})
    assert placeholder + "/" in done.body.decode(), done.body
    assert server.request("DELETE", f"/v1/sandboxes/{box['id']}").status in (200, 204)
    assert server.request("DELETE", "/v1/secrets/BOUND").status == 204
