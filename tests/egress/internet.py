# SPDX-License-Identifier: Apache-2.0
"""The servers that stand for the internet: DNS, HTTP, HTTPS, WebSocket, git, package registries.

Usage: internet.py DIR, in a network namespace of its own (world.py makes it). DIR holds the
certificates (<name>.pem, key and chain) and gets `control`, a unix socket: one JSON request per
line, one JSON answer. Everything that arrives is logged: {"kind": "dns"|"tcp"|"http"|"ws", …}.
Ends when its standard input does.
"""
import asyncio
import json
import os
import socket
import ssl
import sys

import dns_server
import proxy
import registry
import websocket

HTTP_PORTS, TLS_PORTS = (80, 8080), (443, 8443)
BANNER_PORT = 2525  # the server speaks first, then echoes
HEAD_MAX, BODY_KEPT = 1 << 20, 8192
DRIP_S = 0.5


class Log:
    def __init__(self):
        self.entries = []

    def __call__(self, kind, **what):
        self.entries.append({"kind": kind, **what})


class Request:
    """One request as it came; `raw` is the head, byte by byte."""

    def __init__(self, raw, connection):
        self.raw, self.connection, self.body = raw, connection, b""
        lines = raw.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        self.method, self.target = words[0], words[1] if len(words) > 1 else ""
        self.fields = [tuple(part.strip() for part in line.partition(":")[::2])
                       for line in lines[1:] if line]
        self.path, _, self.query = self.target.partition("?")

    def field(self, name, default=""):
        return next((v for k, v in self.fields if k.lower() == name.lower()), default)

    @property
    def host(self):
        return self.field("Host").rpartition(":")[0] or self.field("Host")


class Connection:
    def __init__(self, internet, reader, writer):
        self.internet, self.reader, self.writer = internet, reader, writer
        self.to = writer.get_extra_info("sockname")
        self.peer = writer.get_extra_info("peername")
        tls = writer.get_extra_info("ssl_object")
        self.is_tls, self.sni = tls is not None, getattr(tls, "asked_name", None)

    def describe(self):
        return {"address": self.to[0].removeprefix("::ffff:"), "port": self.to[1],
                "tls": self.is_tls, "sni": self.sni}

    async def read_body(self, request):
        if "chunked" in request.field("Transfer-Encoding").lower():
            body = b""
            while size := int((await self.reader.readline()).split(b";")[0], 16):
                body += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            while (line := await self.reader.readline()) not in (b"\r\n", b""):
                body += b"trailer " + line
            return body
        left, kept = int(request.field("Content-Length", "0")), b""
        keep = left if request.host.startswith("git.") else BODY_KEPT
        while left > 0:
            piece = await self.reader.read(min(left, 1 << 16))
            if not piece:
                raise ConnectionError("the body ended early")
            left -= len(piece)
            kept += piece[:max(0, keep - len(kept))]
        return kept

    def answer(self, status, body=b"", *fields, kind="application/json"):
        if isinstance(body, str):
            body = body.encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", f"Content-Type: {kind}", *fields]
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n")
        if not self.is_head:
            self.writer.write(body)

    async def serve(self):
        self.internet.log("tcp", **self.describe())
        try:
            while True:
                raw = await self.reader.readuntil(b"\r\n\r\n")
                request = Request(raw, self)
                self.is_head = request.method == "HEAD"
                if request.field("Expect").lower() == "100-continue":
                    self.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.body = await self.read_body(request)
                self.internet.log("http", host=request.host, method=request.method, target=request.target,
                                  fields=request.fields, raw=raw.decode("latin-1"),
                                  body=request.body[:BODY_KEPT].decode("latin-1"), **self.describe())
                if not await self.internet.route(request, self):
                    break
                await self.writer.drain()
                if request.field("Connection").lower() == "close":
                    break
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError, ssl.SSLError,
                ValueError, TimeoutError):
            pass
        finally:
            self.writer.close()


class Internet:
    def __init__(self, top):
        self.top, self.log = top, Log()
        self.zone = dns_server.Zone(self.log)
        self.contexts = {}
        self.registry = registry.Registry(os.path.join(top, "repositories"))

    # ---- TLS -----------------------------------------------------------------------------------

    def context(self, name):
        if name not in self.contexts:
            path = os.path.join(self.top, f"{name}.pem")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(path)
            context.set_alpn_protocols(["http/1.1"])
            context.sni_callback = self.pick
            self.contexts[name] = context
        return self.contexts[name]

    def pick(self, tls, name, _):
        tls.asked_name = name
        first = (name or "").split(".")[0]
        if first in ("expired", "wrong", "self"):
            tls.context = self.context(first)

    # ---- HTTP ----------------------------------------------------------------------------------

    async def route(self, request, c):
        """Answer; false: the connection is over."""
        if request.path == "/quiet":  # says nothing of the request
            c.answer(200, b"{}")
            return True
        first = request.host.split(".")[0]
        special = getattr(self, f"host_{first}", None)
        if special:
            said = await special(request, c)
            return said if said is not None else True
        c.answer(200, json.dumps({
            "host": request.host, "method": request.method, "target": request.target,
            "fields": request.fields, "body": request.body.decode("latin-1"), **c.describe()}) + "\n",
            *(["X-Secret: metadata"] if c.to[0].endswith("169.254.169.254") else []))
        return True

    async def host_pypi(self, request, c):
        self.registry.pypi(request, c)

    async def host_npm(self, request, c):
        self.registry.npm(request, c)

    async def host_git(self, request, c):
        await self.registry.git(request, c)

    async def host_files(self, request, c):
        """/bytes?N"""
        left = int(request.query or 0)
        c.writer.write(f"HTTP/1.1 200 OK\r\nContent-Length: {left}\r\n\r\n".encode())
        block = bytes(1 << 18)
        while left > 0 and not c.is_head:
            c.writer.write(block[:min(left, len(block))])
            left -= len(block)
            await c.writer.drain()

    async def host_ws(self, request, c):
        return await websocket.serve(request, c, self.log)

    async def host_go(self, request, c):
        """/to?URL: a redirect there."""
        c.answer(302, b"", f"Location: {request.query}")

    async def host_drip(self, request, c):
        """A head and 3 bytes of an endless body, one by one."""
        c.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        for _ in range(120):
            c.writer.write(b"x")
            await c.writer.drain()
            await asyncio.sleep(DRIP_S)
        return False

    async def host_headers(self, request, c):
        """A head that never ends."""
        c.writer.write(b"HTTP/1.1 200 OK\r\n")
        for n in range(100_000):
            c.writer.write(b"X-Filler-%d: %s\r\n" % (n, b"y" * 100))
            await c.writer.drain()
        return False

    async def host_reset(self, request, c):
        """Half a body, then the connection is reset."""
        c.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf")
        await c.writer.drain()
        await asyncio.sleep(0.1)
        c.writer.transport.abort()
        return False

    async def host_smuggle(self, request, c):
        """Two framings in one answer, and a second answer nobody asked for."""
        c.writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n"
                       b"0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecond")
        await c.writer.drain()
        return False

    async def host_trailer(self, request, c):
        c.writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n"
                       b"5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n")

    # ---- other than HTTP -----------------------------------------------------------------------

    async def banner(self, reader, writer):
        """Speaks first, then gives back each line."""
        c = Connection(self, reader, writer)
        self.log("tcp", **c.describe())
        try:
            writer.write(b"220 mail.test ready\r\n")
            while line := await reader.readline():
                self.log("line", text=line.decode("latin-1"), **c.describe())
                writer.write(b"250 " + line)
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            writer.close()

    async def control(self, reader, writer):
        while line := await reader.readline():
            ask = json.loads(line)
            if ask["op"] == "log":
                answer = self.log.entries[ask["since"]:]
            elif ask["op"] == "zone":
                self.zone.set(ask["name"], ask["steps"])
                answer = True
            else:
                answer = False
            writer.write(json.dumps(answer).encode() + b"\n")
            await writer.drain()
        writer.close()

    async def run(self):
        def connection(reader, writer):
            return Connection(self, reader, writer).serve()
        def at(port):
            return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True,
                                        backlog=1024)
        for port in HTTP_PORTS:
            await asyncio.start_server(connection, sock=at(port), limit=HEAD_MAX)
        for port in TLS_PORTS:
            await asyncio.start_server(connection, sock=at(port), limit=HEAD_MAX, ssl=self.context("web"))
        await asyncio.start_server(self.banner, sock=at(BANNER_PORT))
        corporate = proxy.Proxy(self.log)
        await asyncio.start_server(corporate.http, sock=at(proxy.HTTP_PORT))
        await asyncio.start_server(corporate.socks, sock=at(proxy.SOCKS_PORT))
        await self.zone.listen()
        path = os.path.join(self.top, "control")
        await asyncio.start_unix_server(self.control, path)
        os.chmod(path, 0o700)
        print("ready", flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(Internet(sys.argv[1]).run())
    os._exit(0)  # connections may still be open
