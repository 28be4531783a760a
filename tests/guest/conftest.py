# SPDX-License-Identifier: Apache-2.0
"""A guest outside any sandbox: the same program, the test's own root file system."""
import os
import sys

import pytest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from guest_client import Guest  # noqa: E402

BUILD = os.environ.get("BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
PROGRAM = os.path.join(BUILD, "bawn-guest")


@pytest.fixture
def guest(tmp_path_factory):
    g = Guest(PROGRAM, str(tmp_path_factory.mktemp("socket")))
    yield g
    alive = g.p.poll() is None
    g.stop()
    assert alive, "the guest died during the test"


@pytest.fixture
def client(guest):
    c = guest.connect()
    c.bind()
    yield c
    c.close()
