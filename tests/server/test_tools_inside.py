# SPDX-License-Identifier: Apache-2.0
"""git, npm, pip and apt inside a sandbox, as far as a closed network lets them."""
import os
import shutil

import pytest

from server import Server


@pytest.fixture(scope="module")
def host():
    with Server() as server:
        yield server


@pytest.fixture(scope="module")
def box(host):
    return host.create(timeout=3600)


def sh(host, box, script, **more):
    code, out, err = host.run(box, f"set -e; {script}", timeout=180, **more)
    assert code == 0, f"status {code}: {out[-1500:].decode(errors='replace')} {err[-1500:].decode(errors='replace')}"
    return out.decode()


def test_git_commits_clones_and_merges(host, box):
    out = sh(host, box, """
        git config --global user.name me; git config --global user.email me@example.com
        git config --global init.defaultBranch main
        mkdir -p ~/repo && cd ~/repo && git init -q && echo one > f && git add f && git commit -qm one
        git checkout -qb side && echo two >> f && git commit -qam two && git checkout -q main
        git merge -q side && git clone -q ~/repo ~/copy && cd ~/copy && git log --oneline | wc -l
        git fsck --strict && git gc -q && cat f""")
    assert out.splitlines() == ["2", "one", "two"]


def test_git_over_the_loopback(host, box):
    """A server inside: daemon and client talk over the sandbox's own network."""
    out = sh(host, box, """
        git init -q --bare ~/served.git && touch ~/served.git/git-daemon-export-ok
        (git daemon --reuseaddr --listen=127.0.0.1 --port=9418 --base-path=$HOME --enable=receive-pack >/dev/null 2>&1 &)
        for i in $(seq 50); do git ls-remote git://127.0.0.1/served.git >/dev/null 2>&1 && break; sleep 0.1; done
        cd ~/repo && git push -q git://127.0.0.1/served.git main:main
        git clone -q git://127.0.0.1/served.git ~/from-net && cat ~/from-net/f""")
    assert out.splitlines() == ["one", "two"]


def test_pip_installs_from_a_local_index(host, box):
    out = sh(host, box, r"""
        mkdir -p ~/pkg/hello_box ~/index/hello-box && cd ~/pkg
        echo 'def word(): return "from a wheel"' > hello_box/__init__.py
        python3 - <<'END'
import base64, hashlib, zipfile, os
files = {'hello_box/__init__.py': open('hello_box/__init__.py').read(),
         'hello_box-1.0.dist-info/METADATA': 'Metadata-Version: 2.1\nName: hello-box\nVersion: 1.0\n',
         'hello_box-1.0.dist-info/WHEEL': 'Wheel-Version: 1.0\nGenerator: t\nRoot-Is-Purelib: true\nTag: py3-none-any\n'}
record = ''.join(f"{n},sha256={base64.urlsafe_b64encode(hashlib.sha256(t.encode()).digest()).rstrip(b'=').decode()},{len(t)}\n" for n, t in files.items())
files['hello_box-1.0.dist-info/RECORD'] = record + 'hello_box-1.0.dist-info/RECORD,,\n'
with zipfile.ZipFile(os.path.expanduser('~/index/hello-box/hello_box-1.0-py3-none-any.whl'), 'w') as z:
    for n, t in files.items():
        z.writestr(n, t)
END
        (cd ~/index && exec python3 -m http.server 8899 --bind 127.0.0.1) >/dev/null 2>&1 &
        for i in $(seq 50); do python3 -c 'import urllib.request as u; u.urlopen("http://127.0.0.1:8899/")' 2>/dev/null && break; sleep 0.1; done
        python3 -m pip install -q --disable-pip-version-check --no-cache-dir --index-url http://127.0.0.1:8899/ --target ~/lib hello-box
        PYTHONPATH=~/lib python3 -c 'import hello_box; print(hello_box.word())'""")
    assert out.splitlines()[-1] == "from a wheel"


@pytest.mark.skipif(not os.path.exists("/usr/bin/npm"), reason="the machine has no npm below /usr")
def test_npm_installs_a_package_of_its_own(host, box):
    out = sh(host, box, """
        mkdir -p ~/left && cd ~/left && echo '{"name":"left","version":"1.0.0","main":"i.js"}' > package.json
        echo 'module.exports = "from npm"' > i.js && npm pack --silent >/dev/null
        mkdir -p ~/app && cd ~/app && npm init -y >/dev/null
        npm install --silent --no-audit --no-fund --offline ~/left/left-1.0.0.tgz
        node -e 'console.log(require("left"))'""")
    assert out.splitlines()[-1] == "from npm"


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="not a Debian")
def test_apt_and_dpkg(host, box):
    """apt reads its lists and fails cleanly without a network; dpkg packs and unpacks."""
    out = sh(host, box, r"""
        mkdir -p ~/deb/DEBIAN ~/deb/opt/hello && echo hi > ~/deb/opt/hello/f
        printf 'Package: hello-box\nVersion: 1\nArchitecture: all\nMaintainer: me <me@example.com>\nDescription: x\n' > ~/deb/DEBIAN/control
        dpkg-deb --build --root-owner-group ~/deb ~/hello.deb >/dev/null && dpkg-deb -x ~/hello.deb ~/out && cat ~/out/opt/hello/f
        apt-get --version | head -1 | cut -d' ' -f1; apt-config dump | grep -c . >/dev/null""")
    assert out.splitlines() == ["hi", "apt"]
    code, _, err = host.run(box, "sudo timeout 60 apt-get update -o Acquire::Retries=0 2>&1; echo status $?", timeout=90)
    assert code == 0 and b"Segmentation" not in err


def test_a_compiler_where_the_machine_has_one(host, box):
    if not os.path.exists("/usr/bin/gcc"):
        pytest.skip("the machine has no compiler below /usr")
    out = sh(host, box, """cd /tmp && echo 'int puts(const char *); int main(void) { return puts("built") < 0; }' > a.c
        gcc -w -o a a.c && ./a""")
    assert out == "built\n"
