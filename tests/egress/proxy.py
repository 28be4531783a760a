# SPDX-License-Identifier: Apache-2.0
"""A proxy as companies have them: HTTP CONNECT and SOCKS5, for those who know its user and password."""
import asyncio
import base64
import ipaddress
import struct

import dns_server

HTTP_PORT, SOCKS_PORT = 3128, 1080
USER, PASSWORD = "corp", "p:ss w0rd"
CREDENTIALS = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()


async def copy(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except (ConnectionError, OSError):
        pass


class Proxy:
    def __init__(self, log):
        self.log = log

    async def join(self, how, host, port, reader, writer, good):
        """Log, dial, say that it is done, and relay."""
        self.log("proxy", how=how, host=host, to_port=port)
        address = dns_server.address_of(host)[0] if host.endswith(".test") else host
        far_reader, far_writer = await asyncio.open_connection(address, port)
        writer.write(good)
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        far_writer.close()

    async def http(self, reader, writer):
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            method, target = head.split()[:2]
            if f"Proxy-Authorization: {CREDENTIALS}\r\n".lower() not in head.lower() or method != "CONNECT":
                self.log("proxy", how="refused", host=target, to_port=0)
                writer.write(b"HTTP/1.1 407 Who are you\r\nContent-Length: 0\r\n\r\n")
                return
            host, _, port = target.rpartition(":")
            await self.join("connect", host, int(port), reader, writer, b"HTTP/1.1 200 Yes\r\n\r\n")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()

    async def socks(self, reader, writer):
        try:
            _, n = await reader.readexactly(2)
            if 2 not in await reader.readexactly(n):
                writer.write(b"\5\xff")
                return
            writer.write(b"\5\2")
            user = await reader.readexactly((await reader.readexactly(2))[1])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            is_known = (user.decode(), password.decode()) == (USER, PASSWORD)
            writer.write(b"\1\0" if is_known else b"\1\1")
            if not is_known:
                self.log("proxy", how="refused", host="", to_port=0)
                return
            _, _, _, kind = await reader.readexactly(4)
            size = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
            host = await reader.readexactly(size)
            port, = struct.unpack("!H", await reader.readexactly(2))
            host = host.decode() if kind == 3 else str(ipaddress.ip_address(host))
            await self.join("socks", host, port, reader, writer, b"\5\0\0\1\0\0\0\0\0\0")
        except (asyncio.IncompleteReadError, OSError):
            pass
        finally:
            writer.close()
