# SPDX-License-Identifier: Apache-2.0
"""trick.py TOKEN CODE: runs CODE, which tries to get TOKEN out, and prints how that ended.

What the tricks share. Every outcome is one line or more on standard output: a status line and
body of HTTP, or the name of the error. The status is 0 unless the code itself is wrong.
"""
import errno
import os
import socket
import ssl
import struct
import subprocess
import sys

TOKEN = sys.argv[1]
WAIT = 15
PROXY = ("127.0.0.1", 979)


def connect(host, port):
    return socket.create_connection((host, port), WAIT)


def rest(s):
    """What is still to come, to its end."""
    out = b""
    try:
        while piece := s.recv(65536):
            out += piece
    except TimeoutError:
        out += b"\n(timed out)"
    except OSError as e:
        out += f"\n({errno.errorcode.get(e.errno, e)})".encode()
    return out


def show(data):
    print((data or b"(closed)").decode("latin-1"))


def say(s, data):
    """Send, then show what comes back to the end of the connection."""
    try:
        s.sendall(data)
    except OSError as e:
        print(f"({errno.errorcode.get(e.errno, e)})")
    show(rest(s))


def first(s, data):
    """Send, then show the first thing that comes back."""
    s.sendall(data)
    show(s.recv(65536))


def get(host, path="/", *fields, method="GET", name=None, body=b""):
    """A request that wants the connection closed after it."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {name or host}", "Connection: close", *fields]
    if body or method == "POST":
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answer(s):
    """One answer with a Content-Length, leaving the connection open; (status, body)."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = s.recv(1)
        if not byte:
            return 0, head
        head += byte
    size = next((int(line.split(b":")[1]) for line in head.split(b"\r\n")
                 if line.lower().startswith(b"content-length:")), 0)
    body = b""
    while len(body) < size:
        piece = s.recv(size - len(body))
        if not piece:
            break
        body += piece
    return int(head.split(b" ")[1]), body


def tls(s, name, alpn=("http/1.1",), is_checked=True):
    context = ssl.create_default_context()
    if not is_checked:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.set_alpn_protocols(list(alpn))
    return context.wrap_socket(s, server_hostname=name)


def hello(name, *extensions):
    """The ClientHello that OpenSSL would send, with more extensions behind its own."""
    context = ssl.create_default_context()
    into, out = ssl.MemoryBIO(), ssl.MemoryBIO()
    try:
        context.wrap_bio(into, out, server_hostname=name).do_handshake()
    except ssl.SSLWantReadError:
        pass
    body = bytearray(out.read()[9:])  # without the heads of record and message
    at = 34
    at += 1 + body[at]
    at += 2 + struct.unpack("!H", body[at:at + 2])[0]
    at += 1 + body[at]
    more = b"".join(struct.pack("!HH", kind, len(data)) + data for kind, data in extensions)
    size, = struct.unpack("!H", body[at:at + 2])
    body[at:at + 2] = struct.pack("!H", size + len(more))
    body += more
    return b"\1" + struct.pack("!I", len(body))[1:] + bytes(body)


def records(message, size=16384):
    """A handshake message as TLS records of at most `size` bytes."""
    return b"".join(b"\x16\3\1" + struct.pack("!H", len(message[n:n + size])) + message[n:n + size]
                    for n in range(0, len(message), size))


def through(host, port):
    """A CONNECT through the explicit proxy; (socket, status)."""
    s = socket.create_connection(PROXY, WAIT)
    s.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode())
    status, body = answer(s)
    if status != 200:
        print(status, body.decode("latin-1"))
    return s, status


def socks(kind, address, port, command=1):
    """A SOCKS5 request by address type; (socket, reply code)."""
    s = socket.create_connection(PROXY, WAIT)
    s.sendall(b"\5\1\0")
    s.recv(2)
    s.sendall(bytes([5, command, 0, kind]) + address + struct.pack("!H", port))
    reply = s.recv(10)
    code = reply[1] if len(reply) > 1 else -1
    print(f"socks reply {code}")
    return s, code


def question(name, kind=1, number=0x1234):
    labels = b"".join(bytes([len(part)]) + part.encode() for part in name.split("."))
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + labels + b"\0" + struct.pack("!HH", kind, 1)


def datagram(to, port, data, family=socket.AF_INET):
    with socket.socket(family, socket.SOCK_DGRAM) as s:
        s.settimeout(WAIT)
        s.connect((to, port))
        s.send(data)
        show(s.recv(4096))


def run(*argv):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          timeout=40)
    print(f"status {done.returncode}\n{done.stdout.decode('latin-1')}")


def attempt(fn, *args):
    """Call; an error of the system is an outcome."""
    try:
        return fn(*args)
    except ssl.SSLError as e:
        print(f"(TLS: {e.reason or e})")
    except TimeoutError:
        print("(timed out)")
    except OSError as e:
        print(f"({errno.errorcode.get(e.errno, e)})")
    return None


if __name__ == "__main__":
    code = compile(sys.argv[2], "trick", "exec")
    attempt(lambda: exec(code, globals()))
