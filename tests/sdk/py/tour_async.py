# SPDX-License-Identifier: Apache-2.0
"""A tour of the Python SDK, asynchronous, against the server that the E2B_* variables name. TAP."""
import asyncio
import sys
import time
import uuid

import e2b
from e2b import AsyncSandbox, SandboxQuery
from e2b.sandbox.commands.command_handle import PtySize

from tap import MB, Raises, auntil, case, equal, noise, run_async, sha

box = None  # made in main(): it belongs to the loop
UNKNOWN = "i00000000000000000000"


async def digest_inside(path):
    return (await box.commands.run(f"sha256sum < {path}", timeout=120)).stdout.split()[0]


@case("a command in the foreground: output, errors, status, user")
async def _():
    r = await box.commands.run("echo out; echo err >&2")
    equal((r.exit_code, r.stdout, r.stderr), (0, "out\n", "err\n"))
    with Raises(e2b.CommandExitException) as e:
        await box.commands.run("echo so far; exit 7")
    equal((e.value.exit_code, e.value.stdout), (7, "so far\n"))
    r = await box.commands.run("pwd; echo $W; whoami", cwd="/tmp", envs={"W": "a b"}, user="root")
    equal(r.stdout, "/tmp\na b\nroot\n")


@case("callbacks, plain and async")
async def _():
    seen = []

    async def slow(s):
        await asyncio.sleep(0.01)
        seen.append("err " + s)
    await box.commands.run("echo a; sleep 0.3; echo b >&2; sleep 0.3; echo c",
                           on_stdout=lambda s: seen.append("out " + s), on_stderr=slow)
    equal(seen, ["out a\n", "err b\n", "out c\n"])


@case("20 MB of output arrive whole and in order")
async def _():
    out = (await box.commands.run("seq 1 2700000", timeout=120)).stdout
    equal(sha(out.encode()), sha("".join(f"{i}\n" for i in range(1, 2700001)).encode()))


@case("background, list, input, a stream of input, end of input")
async def _():
    handle = await box.commands.run("cat", background=True, stdin=True)
    assert handle.pid in [p.pid for p in await box.commands.list()]
    await box.commands.send_stdin(handle.pid, "one\n")
    stream = box.commands.stream_input(handle.pid)
    for i in range(50):
        await stream.send(f"part {i}\n")
        if i % 10 == 0:
            await asyncio.sleep(0.02)
    await stream.close()
    await box.commands.close_stdin(handle.pid)
    equal((await handle.wait()).stdout, "one\n" + "".join(f"part {i}\n" for i in range(50)))


@case("kill, timeout, disconnect and connect")
async def _():
    handle = await box.commands.run("sleep 600", background=True)
    equal(await handle.kill(), True)
    with Raises(e2b.CommandExitException):
        await handle.wait()
    equal(await box.commands.kill(handle.pid), False)
    with Raises(e2b.TimeoutException):
        await box.commands.run("sleep 60", timeout=1.5)
    handle = await box.commands.run(
        "for i in $(seq 60); do echo tick; sleep 0.1; done; exit 3", background=True)
    await handle.disconnect()
    again = await box.commands.connect(handle.pid)
    with Raises(e2b.CommandExitException) as e:
        await again.wait()
    equal((e.value.exit_code, "tick" in e.value.stdout), (3, True))


@case("50 commands at once")
async def _():
    all_ = await asyncio.gather(*(box.commands.run(f"echo {i}") for i in range(50)))
    equal([r.stdout for r in all_], [f"{i}\n" for i in range(50)])


@case("a terminal: size, input, resize, left and taken up again, exit")
async def _():
    screen = bytearray()
    handle = await box.pty.create(PtySize(rows=31, cols=101), screen.extend)
    await box.pty.send_stdin(handle.pid, b"stty size\n")
    await auntil(lambda: b"31 101" in screen)
    await box.pty.resize(handle.pid, PtySize(rows=22, cols=77))
    await handle.disconnect()
    later = bytearray()
    again = await box.pty.connect(handle.pid, later.extend)
    await box.pty.send_stdin(handle.pid, b"stty size; exit\n")
    await again.wait()
    assert b"22 77" in later, bytes(later)


@case("0 bytes to 5 MB there and back")
async def _():
    for size in (0, 1, 4095, 65537, 5 * MB + 3):
        data, path = noise(size), f"/tmp/noise-{size}"
        await box.files.write(path, data)
        equal(await digest_inside(path), sha(data))
        equal(bytes(await box.files.read(path, format="bytes")) == data, True)


@case("200 MB there and back as streams")
async def _():
    chunk = noise(MB)

    async def parts():
        for _ in range(200):
            yield chunk
    await box.files.write("/tmp/big", parts(), request_timeout=240)
    equal(await digest_inside("/tmp/big"), sha(chunk * 200))
    back = []
    async for part in await box.files.read("/tmp/big", format="stream", request_timeout=240):
        back.append(bytes(part))
    equal(sha(b"".join(back)), sha(chunk * 200))
    await box.files.remove("/tmp/big")


@case("files: several, list, exists, rename, remove, info, what is missing")
async def _():
    await box.files.write_files([{"path": "d1/x", "data": "x"}, {"path": "d1/d2/y", "data": b"yy"}])
    equal([(e.name, e.type.value) for e in await box.files.list("d1")], [("d2", "dir"), ("x", "file")])
    equal((await box.files.rename("d1/x", "d9/z")).path, "/home/user/d9/z")
    equal(await box.files.exists("d1/x"), False)
    equal((await box.files.get_info("d9/z")).size, 1)
    await box.files.remove("d9")
    with Raises(e2b.NotFoundException):
        await box.files.read("d9/z")
    with Raises(e2b.InvalidArgumentException):
        await box.files.read("/tmp")


@case("a watched directory tells what happens in it, with the entry")
async def _():
    await box.files.make_dir("watched/sub")
    seen, entries = set(), {}

    def event(e):
        seen.add((e.type.value, e.name))
        if e.entry is not None:
            entries[e.name] = e.entry
    handle = await box.files.watch_dir("watched", event, recursive=True, include_entry=True)
    await box.commands.run("cd watched && echo 123 > f && echo 1 > sub/below && rm sub/below")
    await auntil(lambda: {("create", "f"), ("write", "f"), ("create", "sub/below"),
                          ("remove", "sub/below")} <= seen)
    equal(entries["f"].path, "/home/user/watched/f")
    await handle.stop()
    with Raises(e2b.NotFoundException):
        await box.files.watch_dir("no-such-dir", event)


@case("created with metadata; listed; connected; its end comes")
async def _():
    tag = uuid.uuid4().hex
    one = await AsyncSandbox.create("base", timeout=60, metadata={"tag": tag}, envs={"W": "w1"})
    equal((await one.commands.run("echo $W")).stdout, "w1\n")
    paginator = AsyncSandbox.list(query=SandboxQuery(metadata={"tag": tag}))
    equal([s.sandbox_id for s in await paginator.next_items()], [one.sandbox_id])
    again = await AsyncSandbox.connect(one.sandbox_id)
    equal((await again.get_info()).sandbox_id, one.sandbox_id)
    await one.set_timeout(2)

    async def is_over():
        return not await one.is_running()
    await auntil(is_over)
    with Raises(e2b.NotFoundException):
        await AsyncSandbox.get_info(one.sandbox_id)
    equal(await AsyncSandbox.kill(UNKNOWN), False)


@case("metrics")
async def _():
    async def any_yet():
        return bool(await box.get_metrics())
    await auntil(any_yet, 20)


@case("killed during a stream: the error of the SDK, at once")
async def _():
    one = await AsyncSandbox.create("base", timeout=60)
    lines = []
    handle = await one.commands.run("while true; do echo x; sleep 0.05; done", background=True,
                                    on_stdout=lines.append)
    await auntil(lambda: len(lines) > 3)
    before = time.monotonic()
    await one.kill()
    with Raises(e2b.TimeoutException):
        await handle.wait()
    assert time.monotonic() - before < 15


@case("30 sandboxes at once")
async def _():
    made = await asyncio.gather(*(AsyncSandbox.create("base", timeout=60) for _ in range(30)))
    out = await asyncio.gather(*(s.commands.run(f"echo {i}") for i, s in enumerate(made)))
    equal([r.stdout for r in out], [f"{i}\n" for i in range(30)])
    equal(await asyncio.gather(*(s.kill() for s in made)), [True] * 30)


async def main():
    global box
    box = await AsyncSandbox.create("base", timeout=600, metadata={"tour": "async"})
    failures = await run_async()
    await box.kill()
    return 1 if failures else 0


sys.exit(asyncio.run(main()))
