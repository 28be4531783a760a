# SPDX-License-Identifier: Apache-2.0
"""`bawn profile` and `bawn explain --net`: what a profile says, without running anything."""
import glob
import json
import os
import subprocess

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BAWN = os.path.abspath(os.environ.get("BAWN", os.path.join(TOP, "build", "bawn")))
SHIPPED = sorted(glob.glob(os.path.join(TOP, "etc", "profiles", "*.yaml")))

# What each shipped profile promises: profile, verdict, [method], target.
PROMISES = [
    ("locked", "deny https://pypi.org/"),
    ("packages", "allow GET https://pypi.org/simple/requests/"),
    ("packages", "deny POST https://pypi.org/legacy/"),
    ("packages", "allow GET https://registry.npmjs.org/left-pad"),
    ("packages", "deny PUT https://registry.npmjs.org/left-pad"),
    ("packages", "allow POST https://registry.npmjs.org/-/npm/v1/security/advisories/bulk"),
    ("packages", "allow GET http://deb.debian.org/debian/dists/stable/InRelease"),
    ("packages", "deny GET http://pypi.org/simple/"),
    ("packages", "deny tcp://pypi.org:22"),
    ("git-read", "allow GET https://github.com/a/b.git/info/refs"),
    ("git-read", "allow POST https://github.com/a/b.git/git-upload-pack"),
    ("git-read", "deny POST https://github.com/a/b.git/git-receive-pack"),
    ("git-read", "deny POST https://github.com/login"),
    ("git-push", "allow POST https://github.com/example-org/example-repo.git/git-receive-pack"),
    ("git-push", "deny POST https://github.com/example-org/other.git/git-receive-pack"),
    ("git-push", "deny POST https://github.com/example-org/example-repo.git/../other.git/git-receive-pack"),
    ("llm", "allow POST https://api.anthropic.com/v1/messages"),
    ("llm", "deny POST http://api.anthropic.com/v1/messages"),
    ("llm", "deny https://example.com/"),
    ("open-web-read", "allow https://example.com/anything"),
    ("open-web-read", "deny POST https://example.com/anything"),
    ("open-web-read", "deny https://10.0.0.1/"),
    ("open-web-read", "deny http://169.254.169.254/latest/meta-data/"),
]


def bawn(*words, cwd=None):
    return subprocess.run([BAWN, *words], capture_output=True, text=True, timeout=30, cwd=cwd)


def test_every_shipped_profile_is_well_formed():
    done = bawn("profile", "check", "--json", *SHIPPED)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    assert {p["name"] for p in listed} == {os.path.basename(f)[:-5] for f in SHIPPED}
    assert all(len(p["digest"]) == 64 and p["version"] == 1 for p in listed)


@pytest.mark.parametrize("profile", sorted({p for p, _ in PROMISES}))
def test_a_shipped_profile_keeps_its_promises(profile, tmp_path):
    file = tmp_path / "expectations"
    file.write_text("# promises\n\n" + "".join(line + "\n" for p, line in PROMISES if p == profile))
    done = bawn("profile", "test", profile, str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_what_is_not_as_expected_fails(tmp_path):
    (tmp_path / "e").write_text("allow https://example.com/\n")
    done = bawn("profile", "test", "locked", "e", cwd=tmp_path)
    assert done.returncode == 1 and "FAIL" in done.stdout and "0 of 1" in done.stdout
    (tmp_path / "e").write_text("perhaps https://example.com/\n")
    done = bawn("profile", "test", "locked", "e", cwd=tmp_path)
    assert done.returncode == 125 and "line 1: action 'perhaps'" in done.stderr


def test_a_mistake_is_told_with_its_line(tmp_path):
    (tmp_path / "p.yaml").write_text("network:\n  rules:\n    - host: [a.b]\n")
    done = bawn("profile", "check", "p.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert "p.yaml:3: unknown field 'network.rules[0].host' (did you mean 'hosts'?)" in done.stderr


def test_diff_shows_what_only_one_has(tmp_path):
    (tmp_path / "a.yaml").write_text("network: {rules: [{hosts: [a.b]}, {hosts: [c.d]}]}\n")
    (tmp_path / "b.yaml").write_text("network: {rules: [{hosts: [a.b]}, {hosts: [e.f]}]}\n")
    done = bawn("profile", "diff", "a.yaml", "b.yaml", cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["- allow https,http,ws c.d", "+ allow https,http,ws e.f"]
    assert bawn("profile", "diff", "a.yaml", "a.yaml", cwd=tmp_path).returncode == 0


def test_explain_names_rule_and_reason():
    done = bawn("explain", "--net", "POST", "https://pypi.org/legacy/", "--profile", "packages", "--json")
    assert done.returncode == 1, done.stderr
    said = json.loads(done.stdout)
    assert said["verdict"] == "deny" and "packages/python allows only GET, HEAD" in said["message"]
    done = bawn("explain", "--net", "api.openai.com/v1/models", "--profile", "llm", "--json")
    said = json.loads(done.stdout)
    assert done.returncode == 0 and said["credentials"] == ["openai-api-key"] and said["intercepted"]


def test_a_floor_takes_away(tmp_path):
    (tmp_path / "floor.yaml").write_text("network: {rules: [{hosts: ['*.test']}]}\n")
    done = bawn("explain", "--net", "https://example.com/", "--profile", "open-web-read",
                "--floor", "floor.yaml", "--json", cwd=tmp_path)
    assert done.returncode == 1 and json.loads(done.stdout)["by_floor"] is True
