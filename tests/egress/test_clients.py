# SPDX-License-Identifier: Apache-2.0
"""Unmodified clients in a box: what is allowed works, what is not is refused, with and without proxy variables."""
import json
import os
import shlex

import pytest

from conftest import BARE
from fetchers import FETCHERS, PYTHON

RULES = [
    {"name": "pass", "hosts": ["api.test", "pypi.test", "npm.test"]},
    {"name": "read", "hosts": ["web.test"], "methods": ["GET", "HEAD"], "reason": "this host is for reading"},
    {"name": "repository", "hosts": ["git.test"], "paths": ["/hello.git/**"]},
    {"name": "database", "hosts": ["db.test"], "ports": [5432], "protocols": ["tcp"]},
    {"name": "shell", "hosts": ["ssh.test"], "ports": [22], "protocols": ["tcp"]},
]


@pytest.fixture(params=["variables", "bare"])
def before(request):
    """The words in front of a client: nothing, or what takes the proxy variables away."""
    return BARE if request.param == "bare" else []


@pytest.fixture
def run(box):
    profile = box.profile(RULES)

    def call(*words, **more):
        return box("--profile", profile, "--", *words, **more)
    return call


@pytest.mark.parametrize("name", FETCHERS)
@pytest.mark.parametrize("url", ["https://api.test/a?b=c", "http://api.test/a?b=c", "https://web.test/a?b=c",
                                 "http://web.test/a?b=c"],
                         ids=["pass-https", "http", "intercept-https", "intercept-http"])
def test_allowed(run, clients, before, name, url):
    done = run(*before, *FETCHERS[name](clients, url))
    assert done.status == 0, done
    said = json.loads(done.out)
    assert said["target"] == "/a?b=c" and said["host"] in url and said["tls"] == url.startswith("https")


@pytest.mark.parametrize("name", FETCHERS)
@pytest.mark.parametrize("scheme", ["https", "http"])
def test_refused(world, run, clients, before, name, scheme):
    mark = world.mark()
    done = run(*before, *FETCHERS[name](clients, f"{scheme}://denied.test/secret"))
    assert done.status != 0 and "egress_denied" in done.out and "denied.test" in done.out, done
    assert mark.packets() == []


def test_a_refusal_is_told_in_full(world, run, before):
    """The agent reads what was refused, why, and what it may do."""
    mark = world.mark()
    done = run(*before, "curl", "-sS", "http://denied.test/secret")
    error = json.loads(done.out)["error"]
    assert error["code"] == "egress_denied" and error["kind"] == "no_rule"
    assert error["host"] == "denied.test" and error["port"] == 80 and error["method"] == "GET"
    assert error["next_steps"]
    done = run(*before, "curl", "-sS", "-X", "DELETE", "https://web.test/x")
    error = json.loads(done.out)["error"]
    assert error["method"] == "DELETE" and error["path"] == "/x" and error["host"] == "web.test"
    assert mark.packets() == []


def test_pip(world, run, box, before):
    target = os.path.join(box.work, "python")
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "--no-cache-dir", "--retries", "0"]
    done = run(*before, *pip, "install", "-q", "--target", target, "--index-url", "https://pypi.test/simple/", "hello-bawn")
    assert done.status == 0, done
    assert os.path.exists(os.path.join(target, "hello_bawn.py"))
    mark = world.mark()
    done = run(*before, *pip, "download", "--index-url", "https://denied.test/simple/", "hello-bawn")
    assert done.status != 0 and mark.packets() == [], done


def test_npm(world, run, before):
    npm = ["npm", "--no-audit", "--no-fund", "--no-update-notifier", "--fetch-retries=0", "--cache=./cache", "install"]
    done = run(*before, *npm, "--registry=https://npm.test/", "hello-bawn")
    assert done.status == 0, done
    done = run("node", "-p", "require('./node_modules/hello-bawn')")
    assert done.out == "hello from the tarball\n", done
    mark = world.mark()
    done = run(*before, *npm, "--registry=https://denied.test/", "hello-other")
    assert done.status != 0 and "403" in done.out + done.err and mark.packets() == [], done


def test_git_clone_and_push(world, run, before):
    git = "git -c user.name=a -c user.email=a@test"
    script = (f"git clone -q https://git.test/hello.git there && cd there && cat README && echo more >> README && "
              f"{git} commit -qam more && git push -q origin HEAD:refs/heads/of-the-box-{os.urandom(4).hex()}")
    done = run(*before, "/bin/sh", "-c", script, env={"GIT_TERMINAL_PROMPT": "0"})
    assert done.status == 0 and "hello from the repository" in done.out, done
    mark = world.mark()
    done = run(*before, "/bin/sh", "-c", "cd there && git push https://git.test/private.git HEAD:refs/heads/leak")
    assert done.status != 0 and "403" in done.err, done
    done = run(*before, "git", "clone", "-q", "https://denied.test/hello.git", "other")
    assert done.status != 0 and "403" in done.err, done
    assert not mark.log("http") and mark.packets() == []


@pytest.mark.usefixtures("postgres")
def test_psql(world, run, before):
    psql = ["psql", "-X", "-A", "-t", "-U", "agent", "-d", "postgres", "-c", "select 6 * 7"]
    done = run(*before, *psql, "-h", "db.test")
    assert done.status == 0 and done.out.strip() == "42", done
    mark = world.mark()
    for host in ("denied.test", "api.test", world.resolver):
        done = run(*before, *psql, "-h", host)
        assert done.status == 2, done
    assert mark.packets() == []


def test_ssh(world, run, box, ssh_key, before):
    key = box.copy(ssh_key, "id")
    ssh = ["ssh", "-F", "none", "-i", key, "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null",
           "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "LogLevel=ERROR"]
    done = run(*before, *ssh, "root@ssh.test", "echo", "hello", "from", "afar")
    assert done.status == 0 and done.out == "hello from afar\n", done
    mark = world.mark()
    for host in ("denied.test", "api.test"):
        assert run(*before, *ssh, f"root@{host}", "true").status == 255
    assert mark.packets() == []


def test_a_server_that_speaks_first(world, box, before):
    profile = box.profile([{"name": "mail", "hosts": ["mail.test"], "ports": [2525], "protocols": ["tcp"]}])
    script = "import socket; s = socket.create_connection(('mail.test', 2525)); print(s.recv(99)); s.send(b'hi\\n'); print(s.recv(99))"
    done = box("--profile", profile, "--", *before, PYTHON, "-c", script)
    assert "220 mail.test ready" in done.out and "250 hi" in done.out, done


def test_options_of_the_command_line(world, box):
    """--allow for a name, a port, a suffix, raw TCP."""
    curl = ["curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}\n"]
    done = box("--allow", "api.test", "--allow", "web.test:8443", "--allow", "*.web.test", "--", "/bin/sh", "-c",
               "; ".join(shlex.join([*curl, url]) for url in (
                   "https://api.test/", "https://web.test:8443/", "https://a.web.test/", "http://denied.test/")))
    assert done.out.split() == ["200", "200", "200", "403"], done
    mark = world.mark()
    done = box("--allow", "api.test", "--deny", "api.test", "--", *curl, "http://api.test/")
    assert done.out.strip() == "403" and mark.packets() == [], done


@pytest.mark.parametrize("family", ["4", "6"])
def test_one_family_alone(run, family):
    """Look-ups that ask whether the machine has such addresses at all (AI_ADDRCONFIG) find names."""
    assert run("getent", f"ahostsv{family}", "api.test").status == 0
    done = run(*BARE, "curl", "-sS", f"-{family}", "-o", "/dev/null", "-w", "%{http_code}", "https://api.test/")
    assert done.out == "200", done


def test_nothing_of_the_road_without_a_rule(world, box):
    """A box without rules has no road, no variables, no name."""
    mark = world.mark()
    done = box("--", "/bin/sh", "-c", "env; curl -sS -m 5 http://api.test/; echo status $?")
    assert "proxy" not in done.out.lower() and "status 6" in done.out, done
    assert mark.packets() == []
