# SPDX-License-Identifier: Apache-2.0
"""WebSockets from a box: through TLS that is passed through or ended here, and in plain HTTP."""
import pytest

# RFC 6455 by hand: a masked text frame there, an unmasked one back.
CODE = """
s = connect('ws.test', {port})
s = tls(s, 'ws.test') if {port} == 443 else s
s.sendall(b'GET {path} HTTP/1.1\\r\\nHost: ws.test\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n'
          b'Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n')
status, body = answer(s)
print(status, body.decode())
for text in (b'hello', b'again') if status == 101 else ():
    mask = b'abcd'
    s.sendall(bytes([0x81, 0x80 | len(text)]) + mask + bytes(c ^ mask[i % 4] for i, c in enumerate(text)))
    print(s.recv(2)[1], s.recv(len(text)).decode())
"""
RULES = {
    "pass": [{"hosts": ["ws.test"]}],
    "intercept": [{"hosts": ["ws.test"], "paths": ["/echo"]}],
    "inside-tls": [{"hosts": ["ws.test"], "protocols": ["https", "ws"]}],
}


def run(box, kind, port, path):
    profile = box.profile([{"name": kind, **RULES[kind][0]}])
    return box("--profile", profile, "--", "/usr/bin/python3", f"{box.clients}/trick.py", "-",
               CODE.format(port=port, path=path))


@pytest.mark.parametrize("port", [80, 443])
@pytest.mark.parametrize("kind", ["pass", "intercept"])
def test_both_ways(world, box, kind, port):
    mark = world.mark()
    done = run(box, kind, port, "/echo")
    assert done.out.split() == ["101", "5", "hello", "5", "again"], done
    assert [e["text"] for e in mark.log("ws")][:2] == ["hello", "again"]


@pytest.mark.parametrize("kind, path, port", [("intercept", "/other", 80), ("intercept", "/other", 443),
                                              ("inside-tls", "/echo", 80)])
def test_refused(world, box, kind, path, port):
    mark = world.mark()
    done = run(box, kind, port, path)
    assert done.out.startswith("403 ") and "egress_denied" in done.out, done
    assert mark.packets() == []
