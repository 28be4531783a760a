# SPDX-License-Identifier: Apache-2.0
"""Files, watches and ports of the guest."""
import errno
import hashlib
import os
import socket
import stat
import threading
import time

import pytest

from guest_client import *
from test_processes import AS_ROOT, refused, soon

FILE, DIR = 1, 2


def test_stat(client, tmp_path):
    f = tmp_path / "f"
    f.write_bytes(b"12345")
    f.chmod(0o4640)
    e = client.stat(str(f))
    assert (e["name"], e["path"], e["type"], e["size"], e["mode"]) == ("f", str(f), FILE, 5, 0o4640)
    assert e["mtime_ns"] == os.stat(f).st_mtime_ns
    assert client.stat(str(tmp_path))["type"] == DIR
    assert client.stat("/")["name"] == "/"
    assert refused(client.stat, str(tmp_path / "no")).code == errno.ENOENT
    assert refused(client.stat, str(f) + "/below").code == errno.ENOENT


def test_links_are_shown_with_their_target(client, tmp_path):
    (tmp_path / "d").mkdir()
    (tmp_path / "l").symlink_to("d")
    (tmp_path / "dangling").symlink_to("nowhere")
    e = client.stat(str(tmp_path / "l"))
    assert (e["is_link"], e["type"], e["link_target"]) == (1, DIR, str(tmp_path / "d"))
    e = client.stat(str(tmp_path / "dangling"))
    assert (e["is_link"], e["type"], e["link_target"]) == (1, 0, "")


def test_hostile_paths(client):
    assert refused(client.stat, "/" + "a/" * 10000).code == errno.ENAMETOOLONG
    assert refused(client.stat, "/" + "a" * 300).code == errno.ENAMETOOLONG
    assert refused(client.stat, "/etc/pass\0wd").code == errno.EPROTO
    assert refused(client.write, "/" + "a/" * 10000, b"").code == errno.ENAMETOOLONG
    assert client.stat("/etc/../../../etc/passwd")["path"] == "/etc/passwd"
    assert refused(client.stat, "~who-is-this/x").code == errno.EKEYREJECTED
    assert client.stat("~root")["path"] == "/root"
    client.ping()


def test_list_in_order_and_depth(client, tmp_path):
    for d in ("b", "b/x", "a"):
        (tmp_path / d).mkdir()
    for f in ("b/x/deep", "b/f", "a/g", "c"):
        (tmp_path / f).touch()
    (tmp_path / "link").symlink_to("b")

    def names(depth, top=tmp_path):
        return [os.path.relpath(e["path"], top) for e in client.list(str(top), depth)]
    assert names(1) == ["a", "b", "c", "link"]
    assert names(0) == names(1)
    assert names(2) == ["a", "a/g", "b", "b/f", "b/x", "c", "link"]
    assert names(9) == ["a", "a/g", "b", "b/f", "b/x", "b/x/deep", "c", "link"]
    assert names(1, tmp_path / "link") == ["f", "x"], "the top may be a link"
    assert refused(client.list, str(tmp_path / "c")).code == errno.ENOTDIR
    assert refused(client.list, str(tmp_path / "no")).code == errno.ENOENT


def test_a_large_list_comes_whole(client, tmp_path):
    for i in range(5000):
        (tmp_path / f"file-{i:05}").touch()
    assert [e["name"] for e in client.list(str(tmp_path))] == [f"file-{i:05}" for i in range(5000)]


def test_a_list_nobody_reads_holds_nobody_up(guest, client, tmp_path):
    for i in range(5000):
        (tmp_path / f"file-{i:05}").touch()
    stuck = guest.connect()
    for _ in range(20):
        stuck.open(LIST, text("") + text(str(tmp_path)) + u32(1))
    time.sleep(0.5)
    assert client.sh("echo fine")[0] == b"fine\n"
    stuck.close()
    client.ping()


def test_make_directories(client, tmp_path):
    e = client.mkdir(str(tmp_path / "a/b/c"))
    assert e["type"] == DIR and e["mode"] == 0o755
    assert refused(client.mkdir, str(tmp_path / "a/b")).code == errno.EEXIST
    (tmp_path / "f").touch()
    assert refused(client.mkdir, str(tmp_path / "f")).code == errno.ENOTDIR
    assert refused(client.mkdir, str(tmp_path / "f/x")).code == errno.ENOTDIR


def test_move(client, tmp_path):
    (tmp_path / "f").write_text("x")
    e = client.move(str(tmp_path / "f"), str(tmp_path / "new/dir/g"))
    assert e["path"] == str(tmp_path / "new/dir/g")
    assert (tmp_path / "new/dir/g").read_text() == "x" and not (tmp_path / "f").exists()
    assert refused(client.move, str(tmp_path / "f"), str(tmp_path / "h")).code == errno.ENOENT
    assert refused(client.move, str(tmp_path / "new"), str(tmp_path / "new/dir/x")).code == errno.EINVAL


def test_move_across_file_systems(client, tmp_path):
    other = f"/dev/shm/bawn-test-{os.getpid()}"
    if os.stat("/dev/shm").st_dev == os.stat(tmp_path).st_dev:
        pytest.skip("/dev/shm is on the same file system")
    try:
        (tmp_path / "t/d").mkdir(parents=True)
        (tmp_path / "t/d/f").write_bytes(b"x" * 3_000_000)
        (tmp_path / "t/d/f").chmod(0o4711)
        os.utime(tmp_path / "t/d/f", ns=(1, 5_000_000_000))
        (tmp_path / "t/l").symlink_to("d/f")
        os.mkfifo(tmp_path / "t/p")
        assert client.move(str(tmp_path / "t"), other)["type"] == DIR
        st = os.stat(other + "/d/f")
        assert (st.st_size, stat.S_IMODE(st.st_mode), st.st_mtime_ns) == (3_000_000, 0o4711, 5_000_000_000)
        assert os.readlink(other + "/l") == "d/f"
        assert stat.S_ISFIFO(os.stat(other + "/p").st_mode)
        assert not (tmp_path / "t").exists()
    finally:
        client.remove(other)
    assert not os.path.exists(other)


def test_remove(client, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "keep").touch()
    tree = tmp_path / "tree"
    for i in range(20):
        (tree / f"d{i}" / "e").mkdir(parents=True)
        for j in range(20):
            (tree / f"d{i}" / "e" / f"f{j}").touch()
    (tree / "link").symlink_to(outside)
    client.remove(str(tree))
    assert not tree.exists() and (outside / "keep").exists()
    client.remove(str(tree))
    client.remove(str(outside / "keep"))
    assert not (outside / "keep").exists()
    assert refused(client.remove, "/").code == errno.EBUSY
    assert refused(client.remove, "/proc").code == errno.EBUSY
    assert os.path.exists("/proc/self")


@pytest.mark.parametrize("size", [0, 1, 65536, (1 << 20) + 7, 40 << 20])
def test_write_and_read_back(client, tmp_path, size):
    data = os.urandom(size)
    e = client.write(str(tmp_path / "new/f"), data)
    assert (e["size"], e["mode"], e["type"], e["name"]) == (size, 0o644, FILE, "f")
    assert client.read(str(tmp_path / "new/f")) == data
    assert os.listdir(tmp_path / "new") == ["f"]


def test_read_ranges(client, tmp_path):
    (tmp_path / "f").write_bytes(bytes(range(256)) * 1000)
    whole = bytes(range(256)) * 1000
    f = str(tmp_path / "f")
    assert client.read(f, 10, 5) == whole[10:15]
    assert client.read(f, 255990) == whole[255990:]
    assert client.read(f, 255990, 100) == whole[255990:]
    assert client.read(f, 256000) == b"" == client.read(f, 1 << 40) == client.read(f, 5, 0)


def test_what_is_not_read(client, tmp_path):
    os.mkfifo(tmp_path / "p")
    assert refused(client.read, str(tmp_path / "p")).code == errno.EINVAL
    assert refused(client.read, str(tmp_path)).code == errno.EISDIR
    assert refused(client.read, str(tmp_path / "no")).code == errno.ENOENT
    assert refused(client.read, "/dev/zero").code == errno.EINVAL


def test_writing_keeps_mode_and_follows_links(client, tmp_path):
    f = tmp_path / "f"
    f.write_text("old")
    f.chmod(0o751)
    (tmp_path / "l").symlink_to("f")
    (tmp_path / "dangling").symlink_to("sub/made")
    e = client.write(str(tmp_path / "l"), b"new")
    assert e["is_link"] == 1 and f.read_text() == "new"
    assert stat.S_IMODE(os.stat(f).st_mode) == 0o751
    client.write(str(tmp_path / "dangling"), b"x")
    assert (tmp_path / "sub/made").read_text() == "x"
    client.write(str(f), b"again", mode=0o600)
    assert stat.S_IMODE(os.stat(f).st_mode) == 0o600
    assert refused(client.write, str(tmp_path), b"x").code == errno.EISDIR
    assert refused(client.write, "/dev/null", b"x").code == errno.EINVAL
    (tmp_path / "loop").symlink_to("loop")
    assert refused(client.write, str(tmp_path / "loop"), b"x").code == errno.ELOOP


def test_an_unfinished_upload_changes_nothing(guest, client, tmp_path):
    f = tmp_path / "f"
    f.write_text("old")
    where = text("") + text(str(f)) + u32(0) + texts([])
    ch = client.open(WRITE, where, end=False)
    ch.send(b"half")
    ch.send_end(errno.ECANCELED)
    ch.wait(lambda: ch.end)
    gone = guest.connect()
    ch = gone.open(WRITE, where, end=False)
    ch.send(b"half")
    gone.ping()
    gone.close()
    soon(lambda: sorted(os.listdir(tmp_path)) == ["f"])
    assert f.read_text() == "old"


@AS_ROOT
def test_a_full_disk(client, tmp_path):
    small = tmp_path / "small"
    small.mkdir()
    assert os.system(f"mount -t tmpfs -o size=1m tmpfs {small}") == 0
    try:
        (small / "f").write_text("old")
        assert refused(client.write, str(small / "f"), b"x" * (4 << 20)).code == errno.ENOSPC
        assert os.listdir(small) == ["f"] and (small / "f").read_text() == "old"
        assert refused(client.remove, str(small)).code == errno.EBUSY
        assert refused(client.remove, str(tmp_path)).code == errno.EBUSY
        assert (small / "f").exists()
    finally:
        os.system(f"umount {small}")


@AS_ROOT
def test_files_belong_to_the_user(client, tmp_path):
    tmp_path.chmod(0o755)
    e = client.write(str(tmp_path / "made/f"), b"x", user="nobody")
    assert e["owner"] == "nobody"
    assert client.stat(str(tmp_path / "made"))["owner"] == "nobody"
    assert client.stat(str(tmp_path))["owner"] == "root"
    assert client.mkdir(str(tmp_path / "made/d/e"), user="nobody")["owner"] == "nobody"
    assert refused(client.write, "/tmp/x", b"", user="who-is-this").code == errno.EKEYREJECTED


def test_metadata_is_replaced_as_a_set(client, tmp_path):
    f = str(tmp_path / "f")
    try:
        os.setxattr(tmp_path, "user.probe", b"x")
    except OSError:
        pytest.skip("the file system of the test keeps no attributes")
    assert client.write(f, b"", metadata=["a", "1", "b", "zwei"])["metadata"] == ["a", "1", "b", "zwei"]
    assert client.stat(f)["metadata"] == ["a", "1", "b", "zwei"]
    assert client.write(f, b"", metadata=["c", ""])["metadata"] == ["c", ""]
    assert client.write(f, b"")["metadata"] == []


def test_relative_paths_are_below_home(client):
    home = client.sh("echo $HOME")[0].decode().strip()
    name = f".bawn-test-{os.getpid()}"
    try:
        assert client.write(name, b"x")["path"] == f"{home}/{name}"
        assert client.read(f"~/{name}") == b"x"
        assert client.stat("")["path"] == home
    finally:
        client.remove(name)


# ---- watches -------------------------------------------------------------------------------------

def changes(ch, until, seconds=10):
    """(name, type) as they come, until `until` is among them."""
    got = []
    limit = time.monotonic() + seconds
    while until not in got:
        assert time.monotonic() < limit, got
        ch.wait(lambda: ch.messages, seconds)
        r = ch.message(CHANGE).change()
        got.append((r["name"], r["type"]))
    return got


def test_watch_one_directory(client, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    ch = client.watch(str(d))
    (d / "f").write_text("x")
    (d / "f").chmod(0o600)
    (d / "f").rename(d / "g")
    (d / "g").unlink()
    got = changes(ch, ("g", REMOVED))
    assert got == [("f", CREATE), ("f", WROTE), ("f", CHMOD), ("f", RENAMED), ("g", CREATE),
                   ("g", REMOVED)]
    (d / "sub").mkdir()
    (d / "sub/inner").touch()
    (d / "end").touch()
    assert changes(ch, ("end", CREATE)) == [("sub", CREATE), ("end", CREATE)]


def test_uploads_look_like_writes(client, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    ch = client.watch(str(d))
    client.write(str(d / "f"), b"one")
    assert changes(ch, ("f", WROTE)) == [("f", CREATE), ("f", CHMOD), ("f", WROTE)]
    client.write(str(d / "f"), b"two")
    assert changes(ch, ("f", WROTE)) == [("f", WROTE)]


def test_watch_a_tree(client, tmp_path):
    d = tmp_path / "d"
    (d / "a/b").mkdir(parents=True)
    ch = client.watch(str(d), flags=1)
    (d / "a/b/f").touch()
    assert ("a/b/f", CREATE) in changes(ch, ("a/b/f", CREATE))
    # Made faster than any watch can be set: told all the same.
    for i in range(20):
        (d / f"new{i}/x/y").mkdir(parents=True)
        (d / f"new{i}/x/y/f").write_text("x")
        got = changes(ch, (f"new{i}/x/y/f", CREATE))
    (d / "new1/x/y/later").touch()
    changes(ch, ("new1/x/y/later", CREATE))
    (d / "new2").rename(d / "moved")
    changes(ch, ("moved", CREATE))
    time.sleep(0.2)
    (d / "moved/x/y/after").touch()
    got = changes(ch, ("moved/x/y/after", CREATE))
    assert not [n for n, _ in got if n.startswith("new2/x/y/after")]


def test_watch_with_entries(client, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    ch = client.watch(str(d), flags=2)
    (d / "f").write_text("x")
    r = ch.message(CHANGE).change()
    assert r["type"] == CREATE and r["entry"]["path"] == str(d / "f")
    (d / "f").unlink()
    while r["type"] != REMOVED:
        r = ch.message(CHANGE).change()
    assert r["entry"] is None


def test_watch_refusals(client, tmp_path):
    (tmp_path / "f").touch()
    assert refused(client.watch, str(tmp_path / "no")).code == errno.ENOENT
    assert refused(client.watch, str(tmp_path / "f")).code == errno.ENOTDIR


def test_ten_thousand_watchers(client, tmp_path):
    d = tmp_path / "d"
    for i in range(99):
        (d / str(i)).mkdir(parents=True)
    refusals = set()
    for _ in range(100):
        ch = client.open(WATCH, text("") + text(str(d)) + u8(1), end=False)
        ch.wait(lambda: ch.messages or ch.end)
        if ch.end:
            refusals.add(ch.end[0])
    assert refusals == {errno.EMFILE}
    client.ping()


def test_a_watcher_that_does_not_read_loses_events_and_is_told(guest, client, tmp_path):
    d = tmp_path / "d"
    d.mkdir()
    slow = guest.connect()
    watchers = [slow.watch(str(d)) for _ in range(8)]
    for i in range(10000):
        (d / f"a-rather-long-name-to-fill-the-socket-{i}").touch()
    client.ping()
    seen = set()
    (d / "end").touch()
    limit = time.monotonic() + 20
    while OVERFLOW not in seen and time.monotonic() < limit:
        slow.pump(0.2)
        for ch in watchers:
            seen |= {Reader(b).change()["type"] for k, b in ch.messages}
            ch.messages.clear()
    assert OVERFLOW in seen


# ---- ports ---------------------------------------------------------------------------------------

@pytest.mark.parametrize("family, address", [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_port_with_half_close(client, family, address):
    try:
        s = socket.create_server((address, 0), family=family)
    except OSError:
        pytest.skip(f"no {address} here")

    def serve():
        c, _ = s.accept()
        got = b""
        while True:
            part = c.recv(65536)
            if not part:
                break
            got += part
        c.sendall(hashlib.sha256(got).hexdigest().encode())
        c.close()
    t = threading.Thread(target=serve)
    t.start()
    data = os.urandom(5 << 20)
    ch = client.open(PORT, u16(s.getsockname()[1]), end=False)
    ch.message(OK)
    ch.send(data)
    ch.send_end()
    ch.until_end()
    assert ch.out(0).decode() == hashlib.sha256(data).hexdigest()
    t.join()
    s.close()


def test_port_the_other_way(client):
    s = socket.create_server(("127.0.0.1", 0))
    data = os.urandom(5 << 20)
    heard = []

    def serve():
        c, _ = s.accept()
        c.sendall(data)
        c.shutdown(socket.SHUT_WR)
        heard.append(c.recv(100))
        c.close()
    t = threading.Thread(target=serve)
    t.start()
    ch = client.open(PORT, u16(s.getsockname()[1]), end=False)
    ch.message(OK)
    ch.wait(lambda: ch.end)
    assert ch.out(0) == data
    ch.send(b"after your end")
    ch.send_end()
    t.join(10)
    assert heard == [b"after your end"]
    s.close()


def test_servers_that_do_not_read_have_a_bound(client):
    s = socket.create_server(("127.0.0.1", 0), backlog=100)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    relays = []
    for _ in range(60):
        ch = client.open(PORT, u16(s.getsockname()[1]), end=False)
        ch.message(OK)
        relays.append(ch)
        # As much as the kernel and the guest take: until no credit comes back.
        while not ch.end and ch.may_send > 0:
            ch.send(b"x" * min(ch.may_send, 65536))
            if ch.may_send == 0:
                client.ping()
    client.ping()
    codes = [ch.end[0] for ch in relays if ch.end]
    assert codes and set(codes) == {errno.EAGAIN}
    s.close()
    client.ping()


def test_port_nobody_listens_on(client):
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    assert refused(client.open(PORT, u16(port), end=False).message, OK).code == errno.ECONNREFUSED
    s.close()
