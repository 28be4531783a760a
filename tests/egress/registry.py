# SPDX-License-Identifier: Apache-2.0
"""What package and repository hosts serve: a PyPI-like index, an npm-like registry, git smart HTTP."""
import asyncio
import base64
import hashlib
import io
import json
import os
import subprocess
import tarfile
import zipfile

WHEEL = "hello_bawn-1.0-py3-none-any.whl"
BACKEND = "/usr/lib/git-core/git-http-backend"


def make_wheel():
    out, info = io.BytesIO(), "hello_bawn-1.0.dist-info"
    files = {
        "hello_bawn.py": "print('hello from the wheel')\n",
        f"{info}/METADATA": "Metadata-Version: 2.1\nName: hello-bawn\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: bawn\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(out, "w") as z:
        for name, text in files.items():
            z.writestr(zipfile.ZipInfo(name), text)
    return out.getvalue()


def make_tarball():
    out = io.BytesIO()
    files = {
        "package/package.json": json.dumps({"name": "hello-bawn", "version": "1.0.0", "main": "index.js"}),
        "package/index.js": "module.exports = 'hello from the tarball';\n",
    }
    with tarfile.open(fileobj=out, mode="w:gz") as t:
        for name, text in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            t.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


class Registry:
    def __init__(self, repositories):
        self.repositories = repositories
        self.wheel, self.tarball = make_wheel(), make_tarball()

    def pypi(self, request, c):
        if request.path == "/simple/hello-bawn/":
            digest = hashlib.sha256(self.wheel).hexdigest()
            c.answer(200, f'<a href="/packages/{WHEEL}#sha256={digest}">{WHEEL}</a>', kind="text/html")
        elif request.path == f"/packages/{WHEEL}":
            c.answer(200, self.wheel, kind="application/octet-stream")
        else:
            c.answer(404, "{}")

    def npm(self, request, c):
        scheme = "https" if c.is_tls else "http"
        if request.path == "/hello-bawn":
            integrity = "sha512-" + base64.b64encode(hashlib.sha512(self.tarball).digest()).decode()
            version = {"name": "hello-bawn", "version": "1.0.0", "dist": {
                "integrity": integrity,
                "tarball": f"{scheme}://{request.field('Host')}/hello-bawn/-/hello-bawn-1.0.0.tgz"}}
            c.answer(200, json.dumps({"name": "hello-bawn", "dist-tags": {"latest": "1.0.0"},
                                      "versions": {"1.0.0": version}}))
        elif request.path.endswith(".tgz"):
            c.answer(200, self.tarball, kind="application/octet-stream")
        else:
            c.answer(404, "{}")

    async def git(self, request, c):
        """The CGI program that git itself ships."""
        env = {"PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.repositories, "GIT_HTTP_EXPORT_ALL": "1",
               "PATH_INFO": request.path, "QUERY_STRING": request.query, "REQUEST_METHOD": request.method,
               "CONTENT_TYPE": request.field("Content-Type"), "REMOTE_USER": "agent", "REMOTE_ADDR": "box",
               "CONTENT_LENGTH": str(len(request.body)),
               "HTTP_CONTENT_ENCODING": request.field("Content-Encoding"),
               "GIT_PROTOCOL": request.field("Git-Protocol"), "HOME": self.repositories}
        p = await asyncio.create_subprocess_exec(BACKEND, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        out, _ = await p.communicate(request.body)
        head, _, body = out.partition(b"\r\n\r\n")
        fields = dict(line.split(": ", 1) for line in head.decode().split("\r\n") if ": " in line)
        status = int(fields.pop("Status", "200").split()[0])
        kind = fields.pop("Content-Type", "text/plain")
        c.answer(status, body, *(f"{k}: {v}" for k, v in fields.items()), kind=kind)


def make_repositories(top):
    """hello.git and private.git, each with a first commit; pushes are taken."""
    env = {"PATH": os.environ["PATH"], "HOME": top, "GIT_CONFIG_NOSYSTEM": "1",
           **{f"GIT_{who}_{what}": "world@test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}}

    def git(*args, at=top):
        subprocess.run(["git", *args], cwd=at, env=env, check=True, capture_output=True)
    work = os.path.join(top, "work")
    git("init", "-q", "-b", "main", work)
    with open(os.path.join(work, "README"), "w", encoding="ascii") as f:
        f.write("hello from the repository\n")
    git("add", "README", at=work)
    git("commit", "-q", "-m", "first", at=work)
    for name in ("hello", "private"):
        git("clone", "-q", "--bare", work, f"{name}.git")
        git("config", "http.receivepack", "true", at=os.path.join(top, f"{name}.git"))
