# SPDX-License-Identifier: Apache-2.0
"""The guest protocol (src/io/guest_proto.h) from the client's side, for tests: blocking, plain.

    g = Guest(path_of_bawn_guest); c = g.connect()
    ch = c.start(["echo", "hi"]); ch.started(); ch.finish() -> (stdout, stderr, exit)
"""
import os
import socket
import struct
import subprocess
import time

OPEN, MESSAGE, DATA, CREDIT, END = 1, 2, 3, 4, 5
(BIND, START, ATTACH, PROCESSES, INPUT, CLOSE_INPUT, SIGNAL, RESIZE, STAT, LIST, MKDIR, MOVE, REMOVE,
 READ, WRITE, WATCH, PORT, USAGE, PING, ENVS) = range(1, 21)
OK, STARTED, LOST, EXIT, PROCESS, ENTRY, CHANGE, USAGE_MSG, ENVS_MSG = range(1, 10)
STDOUT, STDERR, PTY_OUT = 1, 2, 3
PTY, STDIN = 1, 2
CREATE, WROTE, REMOVED, RENAMED, CHMOD, OVERFLOW = range(1, 7)
GRANT = 1 << 20


def u8(v): return struct.pack("<B", v)
def u16(v): return struct.pack("<H", v)
def u32(v): return struct.pack("<I", v)
def u64(v): return struct.pack("<Q", v)


def text(v):
    b = v if isinstance(v, bytes) else v.encode()
    return u32(len(b)) + b


def texts(v):
    return u32(len(v)) + b"".join(text(x) for x in v)


def which(pid=0, key="", tag=""):
    return u32(pid) + text(key) + text(tag)


class Reader:
    def __init__(self, b):
        self.b, self.at = b, 0

    def take(self, n):
        assert self.at + n <= len(self.b), "the answer is too short"
        self.at += n
        return self.b[self.at - n:self.at]

    def u8(self): return self.take(1)[0]
    def u16(self): return struct.unpack("<H", self.take(2))[0]
    def u32(self): return struct.unpack("<I", self.take(4))[0]
    def i32(self): return struct.unpack("<i", self.take(4))[0]
    def u64(self): return struct.unpack("<Q", self.take(8))[0]
    def bytes(self): return self.take(self.u32())
    def text(self): return self.bytes().decode(errors="surrogateescape")
    def texts(self): return [self.text() for _ in range(self.u32())]
    def offsets(self): return [self.u64() for _ in range(4)]

    def started(self):
        return dict(pid=self.u32(), is_new=self.u8(), offset=self.offsets())

    def exit(self):
        return dict(exit_code=self.i32(), signal=self.u32(), is_timed_out=self.u8(),
                    has_core=self.u8(), end=self.offsets(), cpu_us=self.u64(),
                    wall_ms=self.u64(), rss_peak=self.u64())

    def process(self):
        return dict(pid=self.u32(), key=self.text(), tag=self.text(), argv=self.texts(),
                    env=self.texts(), cwd=self.text(), user=self.text(), flags=self.u32(),
                    is_running=self.u8(), started_ms=self.u64(), exit=self.exit())

    def entry(self):
        return dict(name=self.text(), path=self.text(), type=self.u8(), is_link=self.u8(),
                    mode=self.u32(), owner=self.text(), group=self.text(), size=self.u64(),
                    mtime_ns=self.u64(), link_target=self.text(), metadata=self.texts())

    def change(self):
        d = dict(name=self.text(), type=self.u8(), has_entry=self.u8())
        d["entry"] = self.entry() if d["has_entry"] else None
        return d

    def usage(self):
        return dict(cpu_count=self.u32(), cpu_us=self.u64(), mem_used=self.u64(),
                    mem_total=self.u64(), mem_cache=self.u64(), disk_used=self.u64(),
                    disk_total=self.u64(), processes=self.u32(), idle_ms=self.u64())


class Refused(Exception):
    def __init__(self, code, why):
        super().__init__(f"{code} ({os.strerror(code)}): {why}")
        self.code, self.why = code, why


class Channel:
    def __init__(self, c, number):
        self.c, self.id = c, number
        self.messages, self.data = [], {}
        self.may_send, self.end, self.has_ended = GRANT, None, False
        self.give_credit = True

    def send_end(self, code=0, why=""):
        self.has_ended = True
        self.c.frame(END, 0, self.id, u32(code) + text(why))

    def send(self, data, stream=0):
        view = memoryview(data)
        while view:
            while self.may_send == 0:
                if self.end:
                    raise Refused(*self.end)
                self.c.pump()
            n = min(len(view), self.may_send, 65536)
            self.c.frame(DATA, stream, self.id, bytes(view[:n]))
            self.may_send -= n
            view = view[n:]

    def wait(self, done, seconds=20):
        limit = time.monotonic() + seconds
        while not done():
            assert time.monotonic() < limit, "nothing came in time"
            self.c.pump(limit - time.monotonic())

    def message(self, kind, seconds=20):
        """The next message, which must be of this kind."""
        self.wait(lambda: self.messages or self.end, seconds)
        if not self.messages and self.end[0]:
            raise Refused(*self.end)
        if not self.messages:
            raise AssertionError(f"END {self.end} instead of message {kind}")
        got, body = self.messages.pop(0)
        assert got == kind, (got, kind)
        return Reader(body)

    def until_end(self, seconds=20):
        self.wait(lambda: self.end, seconds)
        if not self.has_ended:
            self.send_end()
        if self.end[0]:
            raise Refused(*self.end)

    def started(self):
        return self.message(STARTED).started()

    def out(self, stream=STDOUT):
        return bytes(self.data.get(stream, b""))

    def finish(self, seconds=20):
        """All output and the exit record."""
        self.until_end(seconds)
        ends = [Reader(b).exit() for k, b in self.messages if k == EXIT]
        assert len(ends) == 1 and self.messages[-1][0] == EXIT, self.messages
        return self.out(STDOUT), self.out(STDERR), ends[0]


class Client:
    def __init__(self, path):
        self.s = socket.socket(socket.AF_UNIX)
        self.s.connect(path)
        self.buffer, self.next, self.channels = bytearray(), 1, {}

    def close(self):
        self.s.close()

    def frame(self, kind, flags, channel, payload):
        self.s.settimeout(20)
        self.s.sendall(struct.pack("<IBBHI", len(payload), kind, flags, 0, channel) + payload)

    def open(self, kind, body=b"", end=True):
        ch = Channel(self, self.next)
        self.channels[self.next] = ch
        self.next += 2
        self.frame(OPEN, 0, ch.id, u16(kind) + body)
        if end:
            ch.send_end()
        return ch

    def pump(self, seconds=20):
        """Read once and hand out what came."""
        self.s.settimeout(max(seconds, 0.001))
        try:
            got = self.s.recv(1 << 20)
        except TimeoutError:
            return
        if not got:
            raise ConnectionError("the guest closed the connection")
        self.buffer += got
        while len(self.buffer) >= 12:
            n, kind, flags, zero, number = struct.unpack_from("<IBBHI", self.buffer)
            assert zero == 0 and n <= 128 << 10
            if len(self.buffer) < 12 + n:
                return
            payload = bytes(self.buffer[12:12 + n])
            del self.buffer[:12 + n]
            if number in self.channels:  # else a test wrote that frame by hand
                self.hand_out(self.channels[number], kind, flags, payload)

    def hand_out(self, ch, kind, flags, payload):
        if kind == MESSAGE:
            r = Reader(payload)
            k = r.u16()
            ch.messages.append((k, payload[2:]))
        elif kind == DATA:
            ch.data.setdefault(flags, bytearray()).extend(payload)
            if ch.give_credit:
                self.frame(CREDIT, 0, ch.id, u32(len(payload)))
        elif kind == CREDIT:
            ch.may_send += Reader(payload).u32()
        elif kind == END:
            r = Reader(payload)
            ch.end = (r.u32(), r.text())

    def ask(self, kind, body, answer):
        ch = self.open(kind, body)
        ch.until_end()
        assert [k for k, _ in ch.messages] == [answer], ch.messages
        return Reader(ch.messages[0][1])

    def bind(self, id="sandbox", hostname="", user="", cwd="", env=()):
        return self.ask(BIND, text(id) + text(hostname) + text(user) + text(cwd) + texts(env), OK)

    def start(self, argv, env=(), cwd="", user="", flags=0, key="", tag="", cols=0, rows=0,
              timeout_ms=0, memory_max=0, open_files=0, processes=0):
        return self.open(START, text(key) + text(tag) + texts(argv) + texts(env) + text(cwd)
                         + text(user) + u32(flags) + u16(cols) + u16(rows) + u64(timeout_ms)
                         + u64(memory_max) + u32(open_files) + u32(processes))

    def run(self, argv, **how):
        ch = self.start(argv, **how)
        ch.started()
        return ch.finish()

    def sh(self, script, **how):
        return self.run(["sh", "-c", script], **how)

    def attach(self, which_one, start=0, offsets=(0, 0, 0, 0)):
        return self.open(ATTACH, which_one + u8(start) + b"".join(u64(o) for o in offsets))

    def processes(self):
        ch = self.open(PROCESSES)
        ch.until_end()
        return [Reader(b).process() for _, b in ch.messages]

    def signal(self, pid, sig, group=1):
        return self.ask(SIGNAL, which(pid) + u32(sig) + u8(group), OK)

    def stat(self, path, user=""):
        return self.ask(STAT, text(user) + text(path), ENTRY).entry()

    def list(self, path, depth=1, user=""):
        ch = self.open(LIST, text(user) + text(path) + u32(depth))
        ch.until_end()
        return [Reader(b).entry() for _, b in ch.messages]

    def mkdir(self, path, user=""):
        return self.ask(MKDIR, text(user) + text(path), ENTRY).entry()

    def move(self, a, b, user=""):
        return self.ask(MOVE, text(user) + text(a) + text(b), ENTRY).entry()

    def remove(self, path, user=""):
        return self.ask(REMOVE, text(user) + text(path), OK)

    def read(self, path, start=0, length=(1 << 64) - 1, user=""):
        ch = self.open(READ, text(user) + text(path) + u64(start) + u64(length))
        ch.until_end()
        return ch.out(0)

    def write(self, path, data, user="", mode=0, metadata=()):
        ch = self.open(WRITE, text(user) + text(path) + u32(mode) + texts(metadata), end=False)
        ch.send(data)
        ch.send_end()
        ch.until_end()
        return Reader(ch.messages[0][1]).entry()

    def watch(self, path, flags=0, user=""):
        ch = self.open(WATCH, text(user) + text(path) + u8(flags), end=False)
        ch.message(OK)
        return ch

    def input(self, pid, data, end=True):
        ch = self.open(INPUT, which(pid), end=False)
        ch.send(data)
        if end:
            ch.send_end()
        return ch

    def usage(self):
        return self.ask(USAGE, b"", USAGE_MSG).usage()

    def ping(self):
        self.ask(PING, b"", OK)


class Guest:
    """A guest of this test, outside any sandbox: the listening socket is its descriptor 3."""

    def __init__(self, program, directory):
        self.path = os.path.join(directory, "guest.sock")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.path)
        listener.listen(64)
        fd = os.dup(listener.fileno())

        def place():
            os.dup2(fd, 3)
            os.setsid()

        self.p = subprocess.Popen([program], close_fds=False, preexec_fn=place,
                                  stdin=subprocess.DEVNULL)
        os.close(fd)
        listener.close()

    def connect(self):
        return Client(self.path)

    def stop(self):
        self.p.kill()
        self.p.wait()
