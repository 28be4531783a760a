# SPDX-License-Identifier: Apache-2.0
"""Tricks to get something out, each refused by the wall it names, and nothing of it on the wire."""
import re
import secrets
import socket

import pytest

from capture import in_namespace
from tricks import RULES, TRICKS


@pytest.fixture(scope="module")
def machine(world):
    """What a machine has that a box must not reach: a listener, an abstract socket."""
    listener = in_namespace(world.network(world.machine), lambda: socket.create_server(("", 8000)))
    abstract = in_namespace(world.network(world.machine), lambda: socket.socket(socket.AF_UNIX))
    abstract.bind("\0bawn-world-abstract")  # a name of the namespace that the socket was made in
    abstract.listen()
    yield listener, abstract
    listener.close()
    abstract.close()


def carries(entry, token):
    return any(token in str(value).lower() for value in entry.values())


@pytest.mark.parametrize("trick", TRICKS, ids=lambda t: t.name)
def test_a_trick_is_refused(world, machine, box, trick):
    token = "x" + secrets.token_hex(8)
    for name, steps in trick.zone.items():
        world.zone(name, *steps)
    profile = box.profile(RULES)
    mark = world.mark()
    done, result = box.json("--profile", profile, "--", "/usr/bin/python3", f"{box.clients}/trick.py", token, trick.code)
    packets = mark.packets()
    assert "Traceback" not in done.err, done
    assert re.search(trick.says, done.out, re.M), (trick.wall, done)
    if trick.is_quiet:
        assert packets == [], (trick.wall, done)
    told = [e for e in mark.log() if carries(e, token)]
    assert not told, (trick.wall, told)
    assert not [p for p in packets if token.encode() in p.payload or p.to in trick.never], trick.wall
    if trick.kind:
        assert [v for v in result["violations"] if v["wall"] == "net"], (trick.wall, done)


SEEN = ("dns-labels", "dns-ipv6-question", "dns-txt", "dns-to-another-server", "direct-ipv4", "direct-ipv6", "metadata",
        "udp", "udp-ipv6", "quic-to-an-allowed-name", "nat64", "server-name-of-another", "host-field-of-another",
        "forbidden-method", "forbidden-path", "forbidden-port", "folded-field", "placeholder-in-a-field",
        "name-of-a-private-address", "alias-of-metadata")


@pytest.mark.parametrize("trick", [t for t in TRICKS if t.name in SEEN], ids=lambda t: t.name)
def test_without_a_box_it_is_seen(world, caller, clients, trick):
    """The same code in the machine itself gets the token out, and we notice: the test above can fail."""
    token = "x" + secrets.token_hex(8)
    for name, steps in trick.zone.items():
        world.zone(name, *steps)
    mark = world.mark()
    done = caller("/usr/bin/python3", f"{clients}/trick.py", token, trick.code)
    assert done.returncode == 0, done.stderr
    assert any(token.encode() in p.payload for p in mark.packets()) or \
        any(carries(e, token) for e in mark.log()), done.stdout


def test_there_are_forty():
    assert len({t.name for t in TRICKS}) == len(TRICKS) >= 40
    assert len([t for t in TRICKS if t.name in SEEN]) == len(SEEN)
