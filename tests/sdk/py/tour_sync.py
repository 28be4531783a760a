# SPDX-License-Identifier: Apache-2.0
"""A tour of the Python SDK, synchronous, against the server that the E2B_* variables name. TAP."""
import io
import sys
import threading
import time
import urllib.error
import urllib.request
import uuid

import e2b
from e2b import Sandbox, SandboxQuery, SandboxState
from e2b.sandbox.commands.command_handle import PtySize

from tap import MB, Raises, case, equal, noise, run, sha, until

box = Sandbox.create("base", timeout=600, metadata={"tour": "sync"})
UNKNOWN = "i00000000000000000000"


def digest_inside(path):
    return box.commands.run(f"sha256sum < {path}", timeout=120).stdout.split()[0]


# ---- commands ----------------------------------------------------------------------------------

@case("a command in the foreground: output, errors, status")
def _():
    r = box.commands.run("echo out; echo err >&2")
    equal((r.exit_code, r.stdout, r.stderr), (0, "out\n", "err\n"))
    with Raises(e2b.CommandExitException) as e:
        box.commands.run("echo so far; exit 7")
    equal((e.value.exit_code, e.value.stdout), (7, "so far\n"))


@case("working directory, environment and user of a command")
def _():
    r = box.commands.run("pwd; echo $WORD; whoami", cwd="/tmp", envs={"WORD": "a b"}, user="root")
    equal(r.stdout, "/tmp\na b\nroot\n")
    equal(box.commands.run("pwd; whoami; sudo whoami").stdout, "/home/user\nuser\nroot\n")
    with Raises(e2b.InvalidArgumentException):
        box.commands.run("pwd", cwd="/not/there")
    with Raises(e2b.AuthenticationException):
        box.commands.run("pwd", user="nobody-here")


@case("callbacks get the output as it comes")
def _():
    seen = []
    box.commands.run("echo a; sleep 0.3; echo b >&2; sleep 0.3; echo c",
                     on_stdout=lambda s: seen.append("out " + s),
                     on_stderr=lambda s: seen.append("err " + s))
    equal(seen, ["out a\n", "err b\n", "out c\n"])


@case("20 MB of output arrive whole and in order")
def _():
    out = box.commands.run("seq 1 2700000", timeout=120).stdout
    equal(sha(out.encode()), sha("".join(f"{i}\n" for i in range(1, 2700001)).encode()))


@case("background, list, input, end of input")
def _():
    handle = box.commands.run("cat", background=True, stdin=True)
    assert handle.pid in [p.pid for p in box.commands.list()]
    box.commands.send_stdin(handle.pid, "one\n")
    handle.send_stdin(b"two\n")
    box.commands.close_stdin(handle.pid)
    equal(handle.wait().stdout, "one\ntwo\n")
    until(lambda: handle.pid not in [p.pid for p in box.commands.list()])


@case("a stream of input")
def _():
    handle = box.commands.run("cat", background=True, stdin=True)
    box.commands.stream_input(handle.pid, (f"part {i}\n" for i in range(200)))
    box.commands.close_stdin(handle.pid)
    equal(handle.wait().stdout, "".join(f"part {i}\n" for i in range(200)))
    with Raises(e2b.NotFoundException):
        box.commands.stream_input(999999, ["x"])


@case("kill: gone at once, and false the second time")
def _():
    handle = box.commands.run("sleep 600", background=True)
    equal(handle.kill(), True)
    with Raises(e2b.CommandExitException):
        handle.wait()
    with Raises(e2b.CommandExitException):
        box.commands.run(f"kill -0 {handle.pid}")
    equal(box.commands.kill(handle.pid), False)


@case("a command longer than its time ends as a timeout")
def _():
    before = time.monotonic()
    with Raises(e2b.TimeoutException):
        box.commands.run("sleep 60", timeout=1.5)
    assert time.monotonic() - before < 10


@case("disconnect leaves it running; connect gets what follows, and the status")
def _():
    handle = box.commands.run("for i in $(seq 60); do echo tick; sleep 0.1; done; exit 3", background=True)
    handle.disconnect()
    again = box.commands.connect(handle.pid)
    equal(again.pid, handle.pid)
    with Raises(e2b.CommandExitException) as e:
        again.wait()
    equal(e.value.exit_code, 3)
    assert "tick" in e.value.stdout
    with Raises(e2b.NotFoundException):
        box.commands.connect(999999)


# ---- terminals ---------------------------------------------------------------------------------

@case("a terminal: size, input, resize, exit")
def _():
    screen = bytearray()
    handle = box.pty.create(PtySize(rows=31, cols=101), cwd="/tmp", envs={"WORD": "x1"})
    reader = threading.Thread(target=lambda: handle.wait(on_pty=screen.extend))
    reader.start()
    box.pty.send_stdin(handle.pid, b"stty size; echo $WORD:$TERM; pwd\n")
    until(lambda: b"31 101" in screen and b"x1:xterm" in screen)
    box.pty.resize(handle.pid, PtySize(rows=22, cols=77))
    box.pty.send_stdin(handle.pid, b"stty size\n")
    until(lambda: b"22 77" in screen)
    box.pty.send_stdin(handle.pid, b"exit\n")
    reader.join(10)
    assert not reader.is_alive()
    equal(box.pty.kill(handle.pid), False)


@case("a terminal is left, taken up again, killed")
def _():
    handle = box.pty.create(PtySize(rows=24, cols=80))
    handle.disconnect()
    again = box.pty.connect(handle.pid)
    equal(box.pty.kill(handle.pid), True)
    with Raises(e2b.CommandExitException):
        again.wait()


# ---- files -------------------------------------------------------------------------------------

@case("text is written and read")
def _():
    info = box.files.write("notes/a.txt", "grüße")
    equal((info.name, info.path), ("a.txt", "/home/user/notes/a.txt"))
    equal(box.files.read("notes/a.txt"), "grüße")


@case("0 bytes to 5 MB there and back")
def _():
    for size in (0, 1, 4095, 65537, 5 * MB + 3):
        data, path = noise(size), f"/tmp/noise-{size}"
        box.files.write(path, data)
        equal(digest_inside(path), sha(data))
        equal(bytes(box.files.read(path, format="bytes")) == data, True)


@case("200 MB there and back as streams")
def _():
    data = noise(MB) * 200
    box.files.write("/tmp/big", io.BytesIO(data), request_timeout=240)
    equal(digest_inside("/tmp/big"), sha(data))
    size, back = 0, []
    for part in box.files.read("/tmp/big", format="stream", request_timeout=240):
        size += len(part)
        back.append(part)
    equal(size, len(data))
    equal(sha(b"".join(back)), sha(data))
    box.files.remove("/tmp/big")


@case("several files in one call")
def _():
    written = box.files.write_files([
        {"path": "many/1.txt", "data": "one"}, {"path": "/tmp/many-ü", "data": noise(70000)}])
    equal([w.path for w in written], ["/home/user/many/1.txt", "/tmp/many-ü"])
    equal(digest_inside("/tmp/many-ü"), sha(noise(70000)))


@case("gzip, octet-stream and metadata")
def _():
    data = noise(300000) + bytes(3 * MB)
    box.files.write("/tmp/gz", data, gzip=True)
    equal(digest_inside("/tmp/gz"), sha(data))
    info = box.files.write("/tmp/octet", data, use_octet_stream=True, metadata={"author": "me"})
    equal(info.metadata, {"author": "me"})
    equal(box.files.get_info("/tmp/octet").metadata, {"author": "me"})


@case("list, exists, make_dir, rename, remove, get_info")
def _():
    equal(box.files.make_dir("d1/d2"), True)
    equal(box.files.make_dir("d1/d2"), False)
    box.files.write("d1/x", "x")
    equal([(e.name, e.type.value) for e in box.files.list("d1")], [("d2", "dir"), ("x", "file")])
    equal(box.files.rename("d1/x", "d9/new/y").path, "/home/user/d9/new/y")
    equal([box.files.exists("d1/x"), box.files.exists("d9/new/y")], [False, True])
    info = box.files.get_info("d9/new/y")
    equal((info.size, info.mode, info.permissions, info.owner), (1, 0o644, "-rw-r--r--", "user"))
    box.files.remove("d9")
    equal(box.files.exists("d9"), False)
    for attempt in (lambda: box.files.list("none"), lambda: box.files.get_info("none"),
                    lambda: box.files.read("none"), lambda: box.files.rename("none", "there")):
        with Raises(e2b.NotFoundException):
            attempt()
    with Raises(e2b.InvalidArgumentException):
        box.files.read("/tmp")
    with Raises(e2b.AuthenticationException):
        box.files.read("/etc/passwd", user="nobody-here")


@case("a watcher that is asked")
def _():
    box.files.make_dir("watched/sub")
    handle = box.files.watch_dir("watched", recursive=True)
    box.commands.run("cd watched && echo 1 > f && mv f g && rm g && echo 1 > sub/below")
    seen = set()

    def all_seen():
        seen.update((e.type.value, e.name) for e in handle.get_new_events())
        return {("create", "f"), ("write", "f"), ("rename", "f"), ("remove", "g"),
                ("create", "sub/below")} <= seen
    until(all_seen)
    handle.stop()
    with Raises(e2b.SandboxException):
        handle.get_new_events()
    with Raises(e2b.NotFoundException):
        box.files.watch_dir("no-such-dir")


@case("signed URLs: up, down, expired")
def _():
    box.files.write("signed.txt", "by url")
    with urllib.request.urlopen(box.download_url("signed.txt", use_signature_expiration=60)) as r:
        equal(r.read(), b"by url")
    with Raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(box.download_url("signed.txt", use_signature_expiration=-10))
    equal(e.value.code, 401)
    body = b'--x\r\nContent-Disposition: form-data; name="file"\r\n\r\nsent\r\n--x--\r\n'
    ask = urllib.request.Request(box.upload_url("up.txt"), body,
                                 {"Content-Type": "multipart/form-data; boundary=x"})
    with urllib.request.urlopen(ask) as r:
        equal(r.status, 200)
    equal(box.files.read("up.txt"), "sent")


# ---- life --------------------------------------------------------------------------------------

@case("created with metadata, environment and time; found again")
def _():
    tag = uuid.uuid4().hex
    made = [Sandbox.create("base", timeout=60, metadata={"tag": tag, "k=&": "b c/ü"},
                           envs={"WORD": "from create"}) for _ in range(3)]
    try:
        equal(made[0].commands.run("echo $WORD").stdout, "from create\n")
        info = made[0].get_info()
        equal((info.metadata, info.state), ({"tag": tag, "k=&": "b c/ü"}, SandboxState.RUNNING))
        assert abs((info.end_at - info.started_at).total_seconds() - 60) < 3
        pages, paginator = [], Sandbox.list(limit=2, query=SandboxQuery(
            metadata={"tag": tag, "k=&": "b c/ü"}, state=[SandboxState.RUNNING]))
        while paginator.has_next:
            pages.append([s.sandbox_id for s in paginator.next_items()])
        equal(pages, [[made[2].sandbox_id, made[1].sandbox_id], [made[0].sandbox_id]])
        equal(Sandbox.connect(made[0].sandbox_id).commands.run("echo same").stdout, "same\n")
    finally:
        for one in made:
            one.kill()
    equal(Sandbox.list(query=SandboxQuery(metadata={"tag": tag})).next_items(), [])


@case("a create that is repeated under its key makes one sandbox")
def _():
    key = uuid.uuid4().hex
    first = Sandbox.create("base", timeout=60, idempotency_key=key)
    second = Sandbox.create("base", timeout=60, idempotency_key=key)
    equal(first.sandbox_id, second.sandbox_id)
    equal(first.kill(), True)


@case("set_timeout; the end comes")
def _():
    one = Sandbox.create("base", timeout=60)
    one.set_timeout(2)
    equal(one.is_running(), True)
    until(lambda: not one.is_running())
    with Raises(e2b.TimeoutException):
        one.commands.run("true")
    with Raises(e2b.NotFoundException):
        one.get_info()


@case("metrics")
def _():
    until(lambda: box.get_metrics(), 20)
    m = box.get_metrics()[-1]
    assert m.cpu_count >= 1 and m.mem_total > 0 and m.disk_total > 0, m


@case("what does not exist, and a wrong key")
def _():
    equal(Sandbox.kill(UNKNOWN), False)
    with Raises(e2b.NotFoundException):
        Sandbox.get_info(UNKNOWN)
    with Raises(e2b.NotFoundException):
        Sandbox.connect(UNKNOWN)
    with Raises(e2b.NotFoundException):
        Sandbox.set_timeout(UNKNOWN, 10)
    with Raises(e2b.AuthenticationException):
        Sandbox.create("base", api_key="e2b_" + "1" * 40)


@case("killed during a stream: the error of the SDK, at once")
def _():
    one = Sandbox.create("base", timeout=60)
    lines = []

    def kill(line):
        lines.append(line)
        if len(lines) == 5:
            one.kill()
    before = time.monotonic()
    with Raises(e2b.TimeoutException):
        one.commands.run("while true; do echo x; sleep 0.05; done", on_stdout=kill)
    assert time.monotonic() - before < 15
    equal(one.is_running(), False)


failures = run()
box.kill()
sys.exit(1 if failures else 0)
