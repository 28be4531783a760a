# SPDX-License-Identifier: Apache-2.0
"""Credentials from end to end: the box holds a placeholder, the server gets the value, nobody else does."""
import base64
import os
import secrets

import pytest

from conftest import BAWN, BARE

VALUE = "tok_" + secrets.token_hex(16)
# Hosts that do not give back what they were sent.
RULES = [
    {"name": "bearer", "hosts": ["pypi.test"], "credentials": [
        {"secret": "WEB", "header": "Authorization", "format": "Bearer {}", "env": "WEB_TOKEN"}]},
    {"name": "query", "hosts": ["npm.test"], "credentials": [{"secret": "WEB", "query": "key", "env": "WEB_KEY"}]},
    {"name": "basic", "hosts": ["git.test"], "credentials": [{"secret": "WEB", "basic": "agent", "env": "GIT_TOKEN"}]},
    {"name": "other", "hosts": ["files.test"], "methods": ["GET", "POST"]},
]


@pytest.fixture(scope="module", autouse=True)
def secret(caller):
    done = caller(BAWN, "secret", "set", "WEB", input=VALUE)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def run(world, box):
    profile = box.profile(RULES)

    def call(script, *before):
        mark = world.mark()
        done = box("--profile", profile, "--", *before, "/bin/sh", "-c", script)
        assert VALUE not in done.out + done.err, "the value was in the box"
        return done, mark.log("http")
    return call


@pytest.mark.parametrize("before", [[], BARE], ids=["variables", "bare"])
def test_a_header(run, before):
    done, log = run('env; curl -sS -H "Authorization: Bearer $WEB_TOKEN" https://pypi.test/x', *before)
    assert "WEB_TOKEN=bawn-ph-" in done.out, done
    assert dict(map(tuple, log[0]["fields"]))["Authorization"] == f"Bearer {VALUE}", done


def test_never_in_clear_unless_the_rule_says_so(run):
    done, log = run('curl -sS -H "Authorization: Bearer $WEB_TOKEN" http://pypi.test/x')
    assert "egress_denied" in done.out and not log, done


def test_a_query_parameter(run):
    done, log = run('curl -sS "https://npm.test/x?a=b&key=$WEB_KEY"')
    assert log and f"key={VALUE}" in log[0]["target"], done


def test_basic_credentials_of_git(run):
    done, log = run('git ls-remote "https://agent:$GIT_TOKEN@git.test/hello.git"')
    assert done.status == 0, done
    sent = [value for e in log for name, value in e["fields"] if name.lower() == "authorization"]
    assert base64.b64encode(f"agent:{VALUE}".encode()).decode() in "".join(sent), (done, sent)


@pytest.mark.parametrize("script", [
    'curl -sS "https://files.test/bytes?1" -H "Authorization: Bearer $WEB_TOKEN"',
    'curl -sS "https://files.test/bytes?1" -d "k=$WEB_TOKEN"',
    'curl -sS "https://files.test/$WEB_TOKEN"',
    'curl -sS "https://pypi.test/$WEB_TOKEN"',
    'curl -sS "https://pypi.test/x" -H "X-Other: $WEB_TOKEN"',
], ids=["other-host", "body", "url", "path-of-the-bound-host", "other-field"])
def test_anywhere_else_it_goes_nowhere(run, script):
    done, log = run(script)
    assert "placeholder" in done.out and not log, (done, log)


def test_the_value_is_in_no_file_of_the_user(caller):
    """Sealed at rest."""
    for top, _, names in os.walk(caller.home):
        for name in names:
            path = os.path.join(top, name)
            if os.path.isfile(path):
                with open(path, "rb") as f:
                    assert VALUE.encode() not in f.read(), path


def test_revoked_it_is_gone(caller, run):
    assert caller(BAWN, "secret", "rm", "WEB").returncode == 0
    done, log = run('curl -sS -H "Authorization: Bearer $WEB_TOKEN" https://pypi.test/x')
    assert not any(VALUE in str(e) for e in log), done
    assert caller(BAWN, "secret", "set", "WEB", input=VALUE).returncode == 0
