# SPDX-License-Identifier: Apache-2.0
"""Ports inside a sandbox, reached through the server: by header and by host, streams and sockets."""
import hashlib
import http.client
import socket
import time

import pytest

INSIDE = r'''
import http.server, json, socketserver, sys, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *_): pass
    def answer(self, body, status=200, **fields):
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
    def do_HEAD(self): self.do_GET()
    def do_GET(self):
        if self.path == "/events":
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Connection", "close")
            self.end_headers()
            for i in range(1000):
                self.wfile.write(b"data: %d\n\n" % i)
                time.sleep(0.1)
        elif self.path.startswith("/big/"):
            left = int(self.path[5:])
            self.send_response(200)
            self.send_header("Content-Length", str(left))
            self.end_headers()
            while left > 0:
                n = min(left, 1 << 20)
                self.wfile.write(b"b" * n)
                left -= n
        elif self.path == "/bad":
            self.wfile.write(b"HTTP/1.1 200 OK\nContent-Length: 2\n\nhi")
            self.close_connection = True
        elif self.path == "/half":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhi")
            self.close_connection = True
        elif self.path == "/echo" and self.headers.get("Upgrade"):
            self.wfile.write(b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
            while data := self.connection.recv(65536):
                self.connection.sendall(data.upper())
            self.close_connection = True
        else:
            self.answer(json.dumps({"path": self.path, "fields": list(self.headers.items())}).encode(),
                        Content_Type="application/json", X_Inside="yes")
    def do_POST(self):
        import hashlib
        digest, n = hashlib.sha256(), 0
        if self.headers.get("Transfer-Encoding") == "chunked":
            while size := int(self.rfile.readline(), 16):
                data = self.rfile.read(size)
                digest.update(data); n += size
                self.rfile.readline()
            self.rfile.readline()
        else:
            left = int(self.headers.get("Content-Length", 0))
            while left > 0 and (data := self.rfile.read(min(left, 1 << 20))):
                digest.update(data); n += len(data); left -= len(data)
        self.answer(json.dumps({"n": n, "sha256": digest.hexdigest()}).encode(), 201)

class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True

Server(("127.0.0.1", 8080), Handler).serve_forever()
'''


@pytest.fixture(scope="module")
def box(server):
    """A sandbox with the server above on its port 8080."""
    made = server.create()
    write = server.request("POST", "/files?path=/tmp/inside.py", INSIDE, server.inside(
        made, **{"Content-Type": "application/octet-stream"}), key=None)
    assert write.status == 200, write.body
    code, _, said = server.run(
        made, "setsid python3 /tmp/inside.py </dev/null >/tmp/inside.log 2>&1 & sleep 0.1")
    assert code == 0, said
    for _ in range(100):
        if at(server, made, "GET", "/").status == 200:
            break
        time.sleep(0.1)
    yield made
    server.request("DELETE", f"/sandboxes/{made['sandboxID']}")


def to(sandbox, port=8080, **more):
    return {"E2b-Sandbox-Id": sandbox["sandboxID"], "E2b-Sandbox-Port": str(port), **more}


def at(server, sandbox, method, path, body=None, port=8080, **fields):
    return server.request(method, path, body, to(sandbox, port, **fields), key=None)


def raw(server, sandbox, text):
    """A connection on which this request was sent."""
    s = socket.create_connection(("127.0.0.1", server.port), timeout=20)
    s.sendall(text.replace("ID", sandbox["sandboxID"]).encode())
    return s


def read_until(s, end):
    got = b""
    while not got.endswith(end) if isinstance(end, bytes) else not end(got):
        part = s.recv(65536)
        if not part:
            break
        got += part
    return got


def test_a_port_is_reached_by_header_and_by_host(server, box):
    by_header = at(server, box, "GET", "/a?b=c")
    assert by_header.status == 200 and by_header.json()["path"] == "/a?b=c"
    assert by_header.headers["X-Inside"] == "yes"
    host = f"8080-{box['sandboxID']}.example.test"
    by_host = server.request("GET", "/x", headers={"Host": host}, key=None)
    fields = {name.lower(): value for name, value in by_host.json()["fields"]}
    assert fields["host"] == host and fields["x-forwarded-host"] == host
    assert fields["x-forwarded-for"] == "127.0.0.1" and fields["x-forwarded-proto"] == "http"


def test_our_secrets_do_not_go_in(server, box):
    answer = server.request("GET", "/", headers=to(
        box, **{"X-Access-Token": "s3cret", "E2b-Traffic-Access-Token": "s3cret",
                "Authorization": "Bearer app"}))
    assert "s3cret" not in answer.body.decode() and server.key not in answer.body.decode()
    assert "Bearer app" in answer.body.decode()


def test_head_has_no_body(server, box):
    answer = at(server, box, "HEAD", "/")
    assert answer.status == 200 and answer.body == b"" and int(answer.headers["Content-Length"]) > 0


def test_bodies_go_in_by_length_and_in_chunks(server, box):
    data = bytes(range(256)) * 40000
    want = {"n": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    answer = at(server, box, "POST", "/", data)
    assert answer.status == 201 and answer.json() == want, answer.body
    answer = at(server, box, "POST", "/", iter([data[:5], data[5:100000], data[100000:]]))
    assert answer.status == 201 and answer.json() == want, answer.body
    assert at(server, box, "POST", "/", b"").json()["n"] == 0


def test_large_answers_come_whole(server, box):
    answer = at(server, box, "GET", "/big/50000000")
    assert len(answer.body) == 50000000 and answer.body.count(b"b") == 50000000


def test_events_come_one_by_one_and_stop_with_the_client(server, box):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/events", headers=to(box))
    response = connection.getresponse()
    assert response.headers["Content-Type"] == "text/event-stream"
    started = time.monotonic()
    assert response.readline() == b"data: 0\n" and response.readline() == b"\n"
    assert response.readline() == b"data: 1\n"
    assert time.monotonic() - started < 10  # the whole stream takes a hundred seconds
    connection.close()


def test_upgrades_become_raw_both_ways(server, box):
    s = raw(server, box, "GET /echo HTTP/1.1\r\nHost: a\r\nE2b-Sandbox-Id: ID\r\n"
            "E2b-Sandbox-Port: 8080\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\nearly ")
    got = read_until(s, b"EARLY ")
    assert got.startswith(b"HTTP/1.1 101 ") and b"\r\nUpgrade: echo\r\n" in got
    data = b"abc\0" * 500000
    s.settimeout(30)
    sent, back = 0, b""
    s.setblocking(False)
    until = time.monotonic() + 30
    while len(back) < len(data) and time.monotonic() < until:
        try:
            sent += s.send(data[sent:sent + 65536]) if sent < len(data) else 0
        except BlockingIOError:
            pass
        try:
            back += s.recv(65536)
        except BlockingIOError:
            time.sleep(0.001)
    assert back == data.upper()
    s.setblocking(True)
    s.shutdown(socket.SHUT_WR)
    assert s.recv(10) == b""
    s.close()


def test_every_request_is_routed_by_itself(server, box):
    """A connection that led into a sandbox does not stay there."""
    s = raw(server, box, "GET / HTTP/1.1\r\nHost: a\r\nE2b-Sandbox-Id: ID\r\nE2b-Sandbox-Port: 8080"
            "\r\n\r\nGET /sandboxes HTTP/1.1\r\nHost: a\r\nX-API-KEY: e2b_00\r\n\r\n")
    got = read_until(s, lambda g: g.count(b"HTTP/1.1 ") == 2 and g.endswith(b"}"))
    assert b"X-Inside: yes" in got and b"HTTP/1.1 401 " in got and b"e2b_00" not in got
    s.close()


def test_a_closed_port_is_502(server, box):
    answer = at(server, box, "GET", "/", port=8081)
    assert answer.status == 502
    assert answer.json() == {"sandboxId": box["sandboxID"], "port": 8081, "code": 502,
                             "message": "The sandbox is running but port is not open"}


def test_an_unknown_sandbox_is_502(server):
    answer = at(server, {"sandboxID": "i" + "0" * 19}, "GET", "/")
    assert answer.status == 502 and answer.json()["message"] == "The sandbox was not found"


def test_a_malformed_answer_is_502_and_a_short_one_breaks_off(server, box):
    assert at(server, box, "GET", "/bad").status == 502
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        at(server, box, "GET", "/half")
    assert at(server, box, "GET", "/").status == 200


def test_private_ports_want_the_traffic_token(server):
    made = server.create(network={"allowPublicTraffic": False})
    try:
        token = made["trafficAccessToken"]
        assert at(server, made, "GET", "/", port=8081).status == 403
        wrong = {"E2b-Traffic-Access-Token": token[:-1] + ("0" if token[-1] != "0" else "1")}
        assert at(server, made, "GET", "/", port=8081, **wrong).status == 403
        right = {"E2b-Traffic-Access-Token": token}
        assert at(server, made, "GET", "/", port=8081, **right).status == 502
    finally:
        server.request("DELETE", f"/sandboxes/{made['sandboxID']}")


def test_a_kill_cuts_what_streams(server):
    made = server.create()
    server.request("POST", "/files?path=/tmp/inside.py", INSIDE, server.inside(
        made, **{"Content-Type": "application/octet-stream"}), key=None)
    server.run(made, "setsid python3 /tmp/inside.py </dev/null >/dev/null 2>&1 & sleep 0.1")
    for _ in range(100):
        if at(server, made, "GET", "/").status == 200:
            break
        time.sleep(0.1)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    connection.request("GET", "/events", headers=to(made))
    response = connection.getresponse()
    assert response.readline() == b"data: 0\n"
    assert server.request("DELETE", f"/sandboxes/{made['sandboxID']}").status == 204
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        response.read()
    assert at(server, made, "GET", "/").status == 502
