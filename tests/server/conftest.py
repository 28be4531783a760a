# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the tests that drive a server from outside.

Environment: BAWN (else build/bawn), BUILD (its directory), BAWN_MODE: as whom the server runs,
  root    as root (the default when we are root)
  user    as the unprivileged user BAWN_USER (bawn-test), or as ourselves if not root
A test that means something in one mode only says so: @pytest.mark.modes("root"). It is then left
out of the other, not skipped: a skip is a failure in CI.

  server      one server for the whole session; its sandboxes are killed at the end
  sandbox     a fresh sandbox on it, killed after the test: the answer of the create
  fresh       a function that makes servers of the test's own: fresh("--kill-on-exit")
"""
import os
import sys

import pytest

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests", "tools"))
from server import Server  # noqa: E402

MODE = os.environ.get("BAWN_MODE", "root" if os.geteuid() == 0 else "user")


def pytest_configure(config):
    config.addinivalue_line("markers", "modes(*names): run in these modes only")


def pytest_collection_modifyitems(config, items):
    kept, dropped = [], []
    for item in items:
        marks = [m.args for m in item.iter_markers("modes")]
        (kept if all(MODE in names for names in marks) else dropped).append(item)
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = kept


@pytest.fixture(scope="session")
def mode():
    return MODE


@pytest.fixture(scope="session")
def server():
    with Server(mode=MODE) as running:
        yield running
        assert not running.crashes()


@pytest.fixture
def sandbox(server):
    made = server.create()
    yield made
    server.request("DELETE", f"/sandboxes/{made['sandboxID']}")


@pytest.fixture
def fresh():
    made = []

    def make(*options, start=True, **more):
        one = Server(mode=MODE, options=options, **more)
        made.append(one)
        return one.start() if start else one

    yield make
    crashes = [line for one in made if os.path.exists(one.log_path) for line in one.crashes()]
    for one in made:
        one.destroy()
    assert not crashes


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Show the end of the server's log with a failed test."""
    report = (yield).get_result()
    running = item.funcargs.get("server") if hasattr(item, "funcargs") else None
    if report.failed and running is not None:
        report.sections.append(("server log", "\n".join(running.log().splitlines()[-40:])))
