# SPDX-License-Identifier: Apache-2.0
"""The programs that fetch a URL: FETCHERS[name](directory of the clients, url) is the command."""
PYTHON = "/usr/bin/python3"

FETCHERS = {
    "curl": lambda d, url: ["curl", "-sS", "--fail-with-body", "--max-time", "20", url],
    "wget": lambda d, url: ["wget", "-q", "-O", "-", "--content-on-error", "--tries=1", "--timeout=20", url],
    "python-urllib": lambda d, url: [PYTHON, f"{d}/fetch.py", "urllib", url],
    "python-requests": lambda d, url: [PYTHON, f"{d}/fetch.py", "requests", url],
    "python-httpx": lambda d, url: [PYTHON, f"{d}/fetch.py", "httpx", url],
    "node-fetch": lambda d, url: ["node", f"{d}/fetch.mjs", url],
    "go": lambda d, url: [f"{d}/fetch-go", url],
    "java": lambda d, url: ["java", "-XX:TieredStopAtLevel=1", "-cp", d, "Fetch", url],
}
