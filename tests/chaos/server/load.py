# SPDX-License-Identifier: Apache-2.0
"""What the clients do while the roles die: each records what was acknowledged, and repeats what was
not until it is. A 5xx, a 429 or a broken connection is not an answer; every other one is."""
import hashlib
import http.client
import json
import random
import threading
import time
import uuid

PATIENCE_S = 120  # an operation that gets no answer for so long is a failure


class NoAnswer(Exception):
    pass


class Client:
    """Requests that are repeated until they are answered."""

    def __init__(self, server, over):
        self.server, self.over = server, over

    def ask(self, method, path, body=None, headers=None, key="", good=()):
        end = time.monotonic() + PATIENCE_S
        while True:
            try:
                answer = self.server.request(method, path, body, headers, key=key, timeout=20)
                if answer.status < 500 and answer.status != 429:
                    return answer
                last = f"{answer.status} {answer.body[:200]}"
            except (OSError, http.client.HTTPException, ValueError) as e:
                last = repr(e)
            if time.monotonic() > end:
                raise NoAnswer(f"{method} {path}: {last}")
            time.sleep(0.05)


class Ledger:
    """What was acknowledged, by sandbox id."""

    def __init__(self):
        self.lock = threading.Lock()
        self.boxes = {}    # id -> the answer of its create
        self.killed = set()
        self.files = {}    # id -> {path: sha256}
        self.keys = {}     # id -> {key}: answered with status 0
        self.problems = []
        self.counts = {"exec": 0, "file": 0, "create": 0, "kill": 0}

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def problem(self, text):
        with self.lock:
            self.problems.append(text)


def create(client, ledger, timeout=7200):
    """One sandbox, exactly: the key makes a repeated create the same one. A create that nobody was
    told of before the server died is undone; under its key that is said (409), and a new key asks
    anew."""
    for _ in range(50):
        answer = client.ask("POST", "/v2/sandboxes", {"templateID": "base", "timeout": timeout},
                            {"Idempotency-Key": uuid.uuid4().hex})
        if answer.status != 409:
            break
    if answer.status != 201:
        raise NoAnswer(f"create: {answer.status} {answer.body[:200]}")
    box = answer.json()
    with ledger.lock:
        ledger.boxes[box["sandboxID"]] = box
        ledger.files[box["sandboxID"]] = {}
        ledger.keys[box["sandboxID"]] = set()
    ledger.count("create")
    return box


def kill(client, ledger, box):
    answer = client.ask("DELETE", f"/sandboxes/{box['sandboxID']}")
    if answer.status not in (204, 404):  # 404: the first attempt was carried out, its answer lost
        raise NoAnswer(f"kill: {answer.status} {answer.body[:200]}")
    with ledger.lock:
        ledger.killed.add(box["sandboxID"])
    ledger.count("kill")


def execute_once(client, ledger, box):
    """An exec under a key; it appends the key to a file inside, so that a second run would show."""
    key = uuid.uuid4().hex
    answer = client.ask(
        "POST", f"/v1/sandboxes/{box['sandboxID']}/exec",
        {"argv": ["/bin/sh", "-c", f"echo {key} >> /home/user/keys && echo done-{key}"]},
        {"Idempotency-Key": key, "Accept": "application/json"})
    if answer.status != 200:
        ledger.problem(f"exec: {answer.status} {answer.body[:200]}")
        return
    said = answer.json()
    if said.get("exit_code") != 0 or said.get("stdout") != f"done-{key}\n":
        ledger.problem(f"exec {key}: {json.dumps(said)[:300]}")
        return
    with ledger.lock:
        ledger.keys[box["sandboxID"]].add(key)
    ledger.count("exec")


def write_file(client, ledger, box, rng):
    data = rng.randbytes(rng.choice((0, 100, 70_000, 300_000)))
    path = f"/home/user/f-{uuid.uuid4().hex}"
    answer = client.ask("POST", f"/files?path={path}", data,
                        client.server.inside(box, **{"Content-Type": "application/octet-stream"}), key=None)
    if answer.status != 200:
        ledger.problem(f"write: {answer.status} {answer.body[:200]}")
        return
    with ledger.lock:
        ledger.files[box["sandboxID"]][path] = hashlib.sha256(data).hexdigest()
    ledger.count("file")


class Worker(threading.Thread):
    """One client: execs, files, and now and then a sandbox that comes and goes."""

    def __init__(self, client, ledger, boxes, seed):
        super().__init__(daemon=True)
        self.client, self.ledger, self.boxes, self.rng = client, ledger, boxes, random.Random(seed)

    def run(self):
        while not self.client.over.is_set():
            box, dice = self.rng.choice(self.boxes), self.rng.random()
            try:
                if dice < 0.5:
                    execute_once(self.client, self.ledger, box)
                elif dice < 0.9:
                    write_file(self.client, self.ledger, box, self.rng)
                else:
                    kill(self.client, self.ledger, create(self.client, self.ledger))
            except Exception as e:  # the thread must say so, not vanish
                self.ledger.problem(f"{type(e).__name__}: {e}")
                time.sleep(0.1)


class Ticker:
    """A process that prints numbered lines for the whole time; its output is read by offset."""

    SCRIPT = "i=0; while :; do echo $i; i=$((i+1)); sleep 0.02; done"

    def __init__(self, client, box):
        self.client, self.box, self.key = client, box, f"ticker-{uuid.uuid4().hex}"
        self.path = f"/v1/sandboxes/{box['sandboxID']}/exec"
        answer = client.ask("POST", self.path, {"argv": ["/bin/sh", "-c", self.SCRIPT], "background": True},
                            {"Idempotency-Key": self.key})
        if answer.status not in (200, 201, 202):
            raise NoAnswer(f"ticker: {answer.status} {answer.body[:200]}")
        self.id = answer.json()["id"]
        self.seen = b""

    def read(self):
        """What has been printed since; appended to what was seen."""
        answer = self.client.ask("GET", f"{self.path}/{self.id}/output?stdout={len(self.seen)}&wait_ms=1",
                                 None, {"Accept": "application/json"})
        if answer.status != 200:
            raise NoAnswer(f"output: {answer.status} {answer.body[:200]}")
        said = answer.json()
        if said["stdout_offset"] != len(self.seen):
            raise AssertionError(f"a gap: {len(self.seen)} was asked, {said['stdout_offset']} came")
        self.seen += said["stdout"].encode()

    def problems(self):
        lines = self.seen.split(b"\n")[:-1]
        expected = [str(i).encode() for i in range(len(lines))]
        if lines != expected:
            at = next(i for i, (a, b) in enumerate(zip(lines, expected)) if a != b)
            return [f"ticker of {self.box['sandboxID']}: line {at} is {lines[at]!r}"]
        return [] if lines else [f"ticker of {self.box['sandboxID']} printed nothing"]
