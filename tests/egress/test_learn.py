# SPDX-License-Identifier: Apache-2.0
"""`bawn learn`: what a run wanted becomes the smallest profile, and the run passes on it."""
from conftest import BAWN

FETCH = "curl -sS -o /dev/null -w '%{http_code} ' "
COMMAND = FETCH + "https://api.test/echo/a && " + FETCH + "-X POST -d x https://api.test/echo/b"


def test_a_learnt_profile_allows_the_run_and_nothing_else(caller, work):
    done = caller(BAWN, "learn", "--", "sh", "-c", COMMAND, cwd=work)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["200", "200", "200", "200"] and "2 rules" in done.stderr
    shown = caller(BAWN, "profile", "show", "./learnt.yaml", cwd=work)
    assert "GET /echo/a" in shown.stdout and "POST /echo/b" in shown.stdout
    other = caller(BAWN, "run", "--profile", "learnt.yaml", "--", "curl", "-sS", "https://api.test/other", cwd=work)
    assert "egress_denied" in other.stdout and "allows only GET only at /echo/a" in other.stdout
