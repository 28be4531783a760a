# SPDX-License-Identifier: Apache-2.0
"""The names of the world that have a good certificate; what each one serves: internet.py."""
NAMES = [f"{word}.test" for word in (
    "api", "web", "evil", "pypi", "npm", "git", "files", "ws", "go", "drip", "headers", "reset", "smuggle",
    "trailer", "db", "ssh", "mail", "denied", "fast")]
