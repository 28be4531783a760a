# SPDX-License-Identifier: Apache-2.0
"""Out through a company's proxy: it is told names, the machine looks nothing up, refusals do not reach it."""
from urllib.parse import quote

import pytest

import proxy

ADDRESS = "93.184.216.40"
WHO = f"{proxy.USER}:{quote(proxy.PASSWORD, safe='')}"
URLS = {"http": f"http://{WHO}@{ADDRESS}:{proxy.HTTP_PORT}", "socks5": f"socks5://{WHO}@{ADDRESS}:{proxy.SOCKS_PORT}"}
CURL = ["curl", "-sS", "--noproxy", "*", "-o", "/dev/null", "-w", "%{http_code}", "--max-time", "20"]


@pytest.fixture(params=URLS)
def through(request):
    return ["--upstream-proxy", URLS[request.param]]


@pytest.mark.parametrize("rule", [{}, {"methods": ["GET"]}], ids=["pass", "intercept"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_it_is_asked_by_name(world, box, through, scheme, rule):
    profile = box.profile([{"name": "web", "hosts": ["web.test"], **rule}])
    mark = world.mark()
    done = box(*through, "--profile", profile, "--", *CURL, f"{scheme}://web.test/")
    assert done.out == "200", done
    assert [(e["host"], e["to_port"]) for e in mark.log("proxy")] == [("web.test", 443 if scheme == "https" else 80)]
    assert {p.to for p in mark.packets()} == {ADDRESS}


def test_what_is_refused_does_not_reach_it(world, box, through):
    mark = world.mark()
    done = box(*through, "--allow", "web.test", "--", *CURL, "http://denied.test/")
    assert done.out == "403" and mark.packets() == [], done


def test_some_hosts_are_dialled_directly(world, box, through):
    mark = world.mark()
    done = box(*through, "--no-proxy", "web.test", "--allow", "web.test", "--", *CURL, "https://web.test/")
    assert done.out == "200" and not mark.log("proxy"), done


@pytest.mark.parametrize("url", [f"http://corp:wrong@{ADDRESS}:{proxy.HTTP_PORT}",
                                 f"socks5://corp:wrong@{ADDRESS}:{proxy.SOCKS_PORT}",
                                 f"http://{ADDRESS}:3999"], ids=["http", "socks5", "nobody"])
def test_a_proxy_that_says_no(world, box, url):
    """Never directly instead."""
    mark = world.mark()
    done = box("--upstream-proxy", url, "--allow", "web.test", "--", *CURL, "http://web.test/")
    assert done.out == "502", done
    assert {p.to for p in mark.packets()} == {ADDRESS}
