# SPDX-License-Identifier: Apache-2.0
"""Real programs run unmodified inside: toolchains, package managers, debuggers, multiplexers."""
import os
import subprocess
import textwrap
import zipfile

import pytest

LONG = 180  # seconds; interpreters and package managers start slowly on a busy machine


def succeed(done):
    assert done.returncode == 0, f"status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def put(bawn, name, text, mode=0o644):
    """A file of the caller's in the working directory."""
    path = os.path.join(bawn.work, name)
    for part in range(1, name.count("/") + 1):
        directory = os.path.join(bawn.work, "/".join(name.split("/")[:part]))
        if not os.path.isdir(directory):
            os.mkdir(directory)
            bawn.caller.own(directory)
    with open(path, "w", encoding="utf-8") as f:
        f.write(textwrap.dedent(text))
    os.chmod(path, mode)
    return bawn.caller.own(path)


def make_wheel(bawn):
    """The smallest wheel pip accepts."""
    path = os.path.join(bawn.work, "yard-1.0-py3-none-any.whl")
    with zipfile.ZipFile(path, "w") as z:
        z.writestr("yard.py", "def wall(): return 'stone'\n")
        z.writestr("yard-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: yard\nVersion: 1.0\n")
        z.writestr("yard-1.0.dist-info/WHEEL",
                   "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr("yard-1.0.dist-info/RECORD", "yard.py,,\nyard-1.0.dist-info/METADATA,,\n"
                   "yard-1.0.dist-info/WHEEL,,\nyard-1.0.dist-info/RECORD,,\n")
    return bawn.caller.own(path)


def test_python_with_venv_and_pip(bawn):
    make_wheel(bawn)
    out = succeed(bawn.sh(
        "/usr/bin/python3 -m venv v && v/bin/pip install --no-index --disable-pip-version-check "
        "./yard-1.0-py3-none-any.whl && v/bin/python -c 'import yard; print(yard.wall())'", timeout=LONG))
    assert out.splitlines()[-1] == "stone"


def test_python_threads_and_processes(bawn, root):
    script = """
    import concurrent.futures as c, multiprocessing as m, tempfile
    def f(x): return x * x
    if __name__ == "__main__":
        with c.ThreadPoolExecutor(8) as e: print(sum(e.map(f, range(10))))
        with m.Pool(4) as p: print(sum(p.map(f, range(10))))
        with tempfile.TemporaryFile() as t: t.write(b"x")
        q = m.Queue(); q.put(1); print(q.get())
    """
    out = succeed(bawn.run("--root", root, "--", "/usr/bin/python3", "-c", textwrap.dedent(script),
                           timeout=LONG))
    assert out.split() == ["285", "285", "1"]


def test_node_and_npm(bawn):
    put(bawn, "lib/package.json", '{"name": "yard", "version": "1.0.0", "main": "index.js"}')
    put(bawn, "lib/index.js", "module.exports = () => 'stone';\n")
    put(bawn, "app/package.json", '{"name": "app", "version": "1.0.0", "private": true}')
    out = succeed(bawn.sh(
        "cd lib && npm pack --silent && cd ../app && "
        "npm install --silent --offline --no-audit --no-fund ../lib/yard-1.0.0.tgz && "
        "node -e 'console.log(require(\"yard\")())'",
        "--env", "npm_config_cache=/tmp/npm", "--env", "npm_config_update_notifier=false", timeout=LONG))
    assert out.splitlines()[-1] == "stone"


def test_node_workers_and_children(bawn, root):
    script = (
        "const {Worker} = require('worker_threads'); const {execFileSync} = require('child_process');"
        "console.log(execFileSync('echo', ['child']).toString().trim());"
        "new Worker('console.log(\"worker\")', {eval: true});"
    )
    out = succeed(bawn.run("--root", root, "--", "node", "-e", script, timeout=LONG))
    assert sorted(out.split()) == ["child", "worker"]


GIT = ("git -c init.defaultBranch=main init -q repo && cd repo && echo one > file && git add file && "
       "git -c user.name=t -c user.email=t@example.org commit -q -m first && "
       "git log --format=%s && cd .. && git clone -q repo copy && cat copy/file && "
       "cd copy && git status --short && git fsck")


def test_git_in_the_working_directory(bawn):
    out = succeed(bawn.sh(GIT, timeout=LONG))
    assert out.split() == ["first", "one"]
    assert os.path.isdir(os.path.join(bawn.work, "copy", ".git"))


def test_git_in_the_base_root(bawn):
    out = succeed(bawn.sh("cd /workspace && " + GIT, "--root", "base", timeout=LONG))
    assert out.split() == ["first", "one"]


def test_gcc_and_make(bawn):
    put(bawn, "main.c", '#include <stdio.h>\nint main(void) { puts("built"); return 0; }\n')
    put(bawn, "Makefile", "main: main.c\n\tgcc -O2 -o $@ $<\n")
    assert succeed(bawn.sh("make -s && ./main", timeout=LONG)) == "built\n"


def test_gcc_in_the_base_root(bawn):
    out = succeed(bawn.sh(
        "cd /workspace && printf '#include <stdio.h>\\nint main(void){puts(\"built\");}\\n' > m.c && "
        "printf 'm: m.c\\n\\tgcc -o $@ $<\\n' > Makefile && make -s -j2 && ./m", "--root", "base", timeout=LONG))
    assert out == "built\n"


def test_bash_job_control_without_a_terminal(bawn, root):
    out = succeed(bawn.run("--root", root, "--", "bash", "-c",
                           "set -m; sleep 100 & jobs %1 >/dev/null && kill -STOP %1 && kill -CONT %1 && "
                           "kill %1; wait %1; echo $?"))
    assert out.split()[-1] == "143"


def test_tmux(bawn, root):
    out = succeed(bawn.sh(
        "tmux -f /dev/null new-session -d -s yard -x 80 -y 24 'echo in tmux > /tmp/mark; sleep 100' && "
        "while [ ! -s /tmp/mark ]; do sleep 0.05; done && cat /tmp/mark && tmux list-sessions -F '#S' && "
        "tmux detach-client -s yard; tmux kill-server", "--root", root, timeout=LONG))
    assert out.splitlines() == ["in tmux", "yard"]


def test_gdb_on_an_own_process(bawn, root):
    """Start a program under gdb, and attach to one that runs already."""
    out = succeed(bawn.sh(
        "gdb -q -nx -batch -ex 'break main' -ex 'catch syscall exit_group' -ex run -ex 'info inferiors' "
        "-ex kill /bin/true 2>&1; sleep 100 & "
        "gdb -q -nx -batch -p $! -ex 'info inferiors' -ex detach 2>&1; kill $!",
        "--root", root, "--env", "DEBUGINFOD_URLS=", timeout=LONG))
    assert "Catchpoint" in out and "process" in out
    assert "Operation not permitted" not in out
    assert "detached" in out


def test_strace_on_an_own_process(bawn):
    done = bawn.run("--root", "base", "--", "strace", "-f", "-e", "trace=execve", "/bin/true")
    assert done.returncode == 0, done.stderr
    assert "execve(" in done.stderr


@pytest.fixture
def package(bawn):
    """A .deb of our own, with a maintainer script."""
    put(bawn, "deb/DEBIAN/control",
        "Package: bawn-yard\nVersion: 1.0\nArchitecture: all\nMaintainer: t <t@example.org>\n"
        "Description: a test package\n")
    put(bawn, "deb/DEBIAN/postinst", "#!/bin/sh\nset -e\necho configured > /var/lib/bawn-yard\n", 0o755)
    put(bawn, "deb/opt/bawn-yard/file", "packaged\n")
    path = os.path.join(bawn.work, "bawn-yard.deb")
    subprocess.run(["dpkg-deb", "--build", "--root-owner-group", os.path.join(bawn.work, "deb"), path],
                   check=True, stdout=subprocess.DEVNULL)
    return bawn.caller.own(path)


@pytest.mark.modes("root")
def test_apt_get_install_as_root_of_the_box(bawn, package):
    out = succeed(bawn.sh(
        f"apt-get install -y --no-install-recommends {package} >&2 && cat /opt/bawn-yard/file "
        "/var/lib/bawn-yard && dpkg -s bawn-yard | grep ^Status",
        "--root", "base", "--user", "root", "--ro", package, timeout=LONG))
    assert out.splitlines() == ["packaged", "configured", "Status: install ok installed"]
    assert not os.path.exists("/opt/bawn-yard") and not os.path.exists("/var/lib/bawn-yard")


def test_perl_sed_awk_tar_and_friends(bawn, root):
    out = succeed(bawn.sh(
        "cd /tmp && perl -e 'print 6*7, \"\\n\"' && echo abc | sed s/b/B/ && echo 1 2 | awk '{print $1+$2}' && "
        "mkdir d && echo x > d/f && tar czf d.tgz d && tar tzf d.tgz | tail -1 && find d -type f | xargs cat",
        "--root", root))
    assert out.split() == ["42", "aBc", "3", "d/f", "x"]
