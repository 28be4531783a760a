# SPDX-License-Identifier: Apache-2.0
"""The least TAP, and what both tours check with: sync and async cases alike."""
import asyncio
import hashlib
import inspect
import os
import random
import time
import traceback

CASES = []
MB = 1 << 20


def case(name):
    def keep(fn):
        CASES.append((name, fn))
        return fn
    return keep


def noise(size):
    return random.Random(size).randbytes(size)


def sha(data):
    return hashlib.sha256(data).hexdigest()


def equal(got, expected):
    assert got == expected, f"got {got!r}, expected {expected!r}"


async def attempt(fn, seconds):
    if inspect.iscoroutinefunction(fn):
        await asyncio.wait_for(fn(), seconds)
    else:
        fn()


async def run_async(seconds=300):
    only = os.environ.get("TOUR_ONLY", "")
    chosen = [(name, fn) for name, fn in CASES if only in name]
    failed = 0
    print(f"1..{len(chosen)}", flush=True)
    for number, (name, fn) in enumerate(chosen, 1):
        try:
            await attempt(fn, seconds)
            print(f"ok {number} - {name}", flush=True)
        except BaseException as e:  # a case must not end the tour, whatever it raises
            if isinstance(e, KeyboardInterrupt):
                raise
            failed += 1
            for line in traceback.format_exc().splitlines()[-12:]:
                print(f"  # {line}")
            print(f"not ok {number} - {name}", flush=True)
    return failed


def run():
    """Sync cases; no event loop around them, as their user has none."""
    only = os.environ.get("TOUR_ONLY", "")
    chosen = [(name, fn) for name, fn in CASES if only in name]
    failed = 0
    print(f"1..{len(chosen)}", flush=True)
    for number, (name, fn) in enumerate(chosen, 1):
        try:
            fn()
            print(f"ok {number} - {name}", flush=True)
        except Exception:
            failed += 1
            for line in traceback.format_exc().splitlines()[-12:]:
                print(f"  # {line}")
            print(f"not ok {number} - {name}", flush=True)
    return failed


class Raises:
    """with Raises(SomeError) as e: …; then e.value. Works around `await` too."""

    def __init__(self, *kinds):
        self.kinds, self.value = kinds, None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, _):
        assert kind is not None, f"no {self.kinds} was raised"
        self.value = value
        return issubclass(kind, self.kinds)


def until(probe, seconds=10):
    """Wait until probe() is true; what it waits for is announced to nobody."""
    end = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < end, f"not true within {seconds} s"
        time.sleep(0.02)


async def auntil(probe, seconds=10):
    end = time.monotonic() + seconds
    while True:
        now = probe()
        if await now if inspect.isawaitable(now) else now:
            return
        assert time.monotonic() < end, f"not true within {seconds} s"
        await asyncio.sleep(0.02)
