# SPDX-License-Identifier: Apache-2.0
"""Hostile or broken servers and name servers: a typed answer in bounded time, and the box goes on."""
import json

import pytest

from fetchers import PYTHON

HOSTS = [f"{word}.test" for word in ("api", "web", "expired", "wrong", "self", "headers", "drip", "reset", "smuggle",
                                     "trailer", "files", "none", "garbage", "broken", "empty", "circle", "dead")]
RULES = [{"name": "all", "hosts": HOSTS, "methods": ["GET", "HEAD", "POST", "PUT"]}]
CURL = ["curl", "-sS", "--noproxy", "*", "-w", "\n%{http_code}", "--max-time", "30"]


@pytest.fixture
def fetch(box):
    """(status, body) of one request from a box, and what bawn said."""
    profile = box.profile(RULES)

    def call(url, *options):
        done = box("--profile", profile, "--", *CURL, *options, url)
        body, _, status = done.out.rpartition("\n")
        return int(status or 0), body, done
    return call


@pytest.mark.parametrize("name", ["expired", "wrong", "self"])
def test_a_bad_certificate_is_not_accepted_for_the_box(world, fetch, name):
    mark = world.mark()
    status, body, done = fetch(f"https://{name}.test/secret")
    assert status == 502, done
    assert json.loads(body)["error"]["kind"] == "upstream", done
    assert not mark.log("http")


@pytest.mark.parametrize("steps", ["nxdomain", "servfail", "empty", "garbage", "loop"])
def test_a_name_that_cannot_be_looked_up(world, fetch, steps):
    world.zone("none.test", steps)
    status, body, done = fetch("http://none.test/")
    assert status in (502, 504), done
    assert json.loads(body)["error"]["kind"] == "upstream", done


def test_endless_headers(fetch):
    status, body, done = fetch("http://headers.test/")
    assert status == 502 and json.loads(body)["error"]["kind"] == "upstream", done


def test_an_answer_with_two_framings(fetch):
    status, body, done = fetch("http://smuggle.test/")
    assert status == 502 and "second" not in body, done


def test_a_reset_in_the_middle_is_seen_as_one(fetch):
    """The client must not take half an answer for a whole one."""
    status, body, done = fetch("http://reset.test/")
    assert done.status in (18, 56), done


def test_a_port_where_nobody_listens(world, box):
    done = box("--allow", "api.test:81", "--", *CURL, "http://api.test:81/")
    assert done.out.endswith("502"), done


def test_trailers_and_chunks_arrive(fetch):
    status, body, done = fetch("http://trailer.test/")
    assert (status, body) == (200, "hello"), done


def test_a_slow_server_holds_up_nobody_else(box):
    profile = box.profile(RULES)
    script = ("curl -sS --noproxy '*' -m 5 http://drip.test/ >/dev/null & "
              "for n in 1 2 3 4 5; do curl -sS --noproxy '*' -o /dev/null -w '%{http_code} ' https://web.test/; done; wait")
    done = box("--profile", profile, "--", "/bin/sh", "-c", script)
    assert done.out.split() == ["200"] * 5, done


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_large_body_arrives_whole(fetch, scheme):
    _, _, done = fetch(f"{scheme}://files.test/bytes?30000000", "-o", "/dev/null", "-w", "%{size_download}\n%{http_code}")
    assert done.out.split() == ["30000000", "200"], done


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_large_upload_arrives_whole(world, box, scheme):
    profile = box.profile(RULES)
    mark = world.mark()
    script = f"head -c 5000000 /dev/zero | curl -sS --noproxy '*' -o /dev/null -w '%{{http_code}}' -T - {scheme}://web.test/up"
    done = box("--profile", profile, "--", "/bin/sh", "-c", script)
    assert done.out == "200", done
    assert [e["method"] for e in mark.log("http")] == ["PUT"]


def test_many_connections_at_the_same_time(world, box):
    profile = box.profile(RULES)
    script = ("import concurrent.futures as f, urllib.request as u\n"
              "with f.ThreadPoolExecutor(40) as p:\n"
              "    print(sum(p.map(lambda n: u.urlopen(f'http://web.test/{n}').status == 200, range(200))))")
    done = box("--profile", profile, "--", PYTHON, "-c", script)
    assert done.out == "200\n", done


def test_a_box_may_ask_what_it_may_do(box):
    """bawn.internal: no packet, an answer for people and for programs."""
    profile = box.profile(RULES)
    done = box("--profile", profile, "--", "curl", "-sS", "-H", "Accept: application/json", "http://bawn.internal/allowed")
    assert "web.test" in json.dumps(json.loads(done.out)), done
    done = box("--profile", profile, "--", "curl", "-sS", "-H", "Accept: text/plain", "http://bawn.internal/")
    assert done.status == 0 and "web.test" in done.out, done
