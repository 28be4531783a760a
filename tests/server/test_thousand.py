# SPDX-License-Identifier: Apache-2.0
"""A thousand sandboxes at once, created through the API, all answering; and what one costs."""
import concurrent.futures
import os
import time

import pytest

from server import Server

COUNT = int(os.environ.get("THOUSAND", "1000"))
PSS_MAX = 1 << 20  # bytes, pid 1 and guest together
IN_FLIGHT = 8


def cost(pid):
    """(PSS in bytes, file descriptors)."""
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        pss = next(int(line.split()[1]) * 1024 for line in f if line.startswith("Pss:"))
    return pss, len(os.listdir(f"/proc/{pid}/fd"))


@pytest.mark.modes("root")  # a range of ids for each
def test_a_thousand_idle_sandboxes():
    with Server(options=["--max-sandboxes", str(COUNT + 10)]) as host, \
            concurrent.futures.ThreadPoolExecutor(IN_FLIGHT) as pool:
        started = time.monotonic()
        boxes = list(pool.map(lambda _: host.create(timeout=3600), range(COUNT)))
        made_s = time.monotonic() - started
        ids = {one["sandboxID"] for one in boxes}
        assert len(ids) == COUNT
        assert {one["sandboxID"] for one in host.list()} == ids

        found = host.processes()
        assert set(found) == ids
        odd = {one: pids for one, pids in found.items() if len(pids) != 2}
        assert not odd, f"not pid 1 and guest alone: {dict(list(odd.items())[:3])}"
        costs = [[cost(pid) for pid in pids] for pids in found.values()]
        pss = sum(p for box in costs for p, _ in box) / COUNT
        fds = sum(n for box in costs for _, n in box) / COUNT
        roles = {name: cost(pid) for name, pid in host.roles().items()}
        print(f"\n{COUNT} sandboxes in {made_s:.1f} s ({COUNT / made_s:.0f}/s); each, idle: "
              f"{pss / 1024:.0f} KiB PSS, {fds:.1f} fds (pid 1 and guest); " + ", ".join(
                  f"{name}: {p >> 10} KiB PSS, {n} fds" for name, (p, n) in sorted(roles.items())))

        started = time.monotonic()
        said = list(pool.map(lambda one: host.run(one, f"echo {one['sandboxID']}"), boxes))
        assert [out for _, out, _ in said] == [f"{one['sandboxID']}\n".encode() for one in boxes]
        print(f"all answered an exec in {time.monotonic() - started:.1f} s")

        for status in pool.map(lambda one: host.request("DELETE", f"/sandboxes/{one}").status, ids):
            assert status == 204
        assert host.list() == []
        assert host.processes() == {}
        left = os.listdir(os.path.join(host.state, "boxes"))
        assert not [one for one in left if not one.startswith("spare")], left
        assert pss <= PSS_MAX, f"{pss / 1024:.0f} KiB each"
