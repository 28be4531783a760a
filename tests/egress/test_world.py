# SPDX-License-Identifier: Apache-2.0
"""The world by itself, without bawn: each client works in it, so that a refusal later means something."""
import json

import pytest

from fetchers import FETCHERS
from world import HOST4, METADATA

NODE = {"NODE_EXTRA_CA_CERTS": "/etc/ssl/certs/ca-certificates.crt"}  # node has roots of its own
BUNDLE = {"REQUESTS_CA_BUNDLE": "/etc/ssl/certs/ca-certificates.crt",
          "SSL_CERT_FILE": "/etc/ssl/certs/ca-certificates.crt"}


@pytest.mark.parametrize("name", FETCHERS)
def test_a_client_reaches_the_world(world, caller, clients, name):
    done = caller(*FETCHERS[name](clients, "https://api.test/hello?a=b"), env={**NODE, **BUNDLE})
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["host"] == "api.test" and said["target"] == "/hello?a=b" and said["sni"] == "api.test"


@pytest.mark.parametrize("url", ["https://expired.test/", "https://wrong.test/", "https://self.test/"])
def test_a_bad_certificate_is_bad(caller, url):
    assert caller("curl", "-sS", url).returncode == 60


def test_private_addresses_answer(caller):
    """A leak to them would get an answer, and so be seen."""
    for address in (METADATA, "10.1.2.3", "192.168.1.1", "[fd00:ec2::254]", "[64:ff9b::a01:203]"):
        done = caller("curl", "-sS", "--max-time", "5", f"http://{address}/")
        assert done.returncode == 0, (address, done.stderr)


def test_the_wire_is_silent_until_somebody_sends(world, caller):
    mark = world.mark()
    caller("sleep", "0.3")
    assert mark.packets() == []
    caller("curl", "-sS", "http://api.test/")
    kinds = {(p.protocol, p.port) for p in mark.packets()}
    assert kinds == {("udp", 53), ("tcp", 80)}
    assert {e["name"] for e in mark.log("dns")} == {"api.test"}


def test_names_do_as_they_are_told(world, caller):
    world.zone("rebind.test", [["A", "93.184.216.60"]], [["A", METADATA]])
    first = caller("getent", "ahostsv4", "rebind.test").stdout.split()[0]
    later = caller("getent", "ahostsv4", "rebind.test").stdout.split()[0]
    assert (first, later) == ("93.184.216.60", METADATA)
    world.zone("none.test", "nxdomain")
    assert caller("getent", "ahosts", "none.test").returncode == 2


def test_the_machine_has_its_own_address(caller):
    assert HOST4 in caller("/usr/sbin/ip", "-br", "addr").stdout
