# SPDX-License-Identifier: Apache-2.0
"""`bawn run --cow` and `bawn diff|apply|discard`: nothing changes until somebody says so."""
import json
import os
import random
import shutil
import signal
import subprocess
import time

import pytest


@pytest.fixture
def env(caller, work):
    state = os.path.join(caller.top, "state")
    os.makedirs(state, exist_ok=True)
    caller.own(state)
    yield caller.environment(BAWN_STATE_DIR=state)
    shutil.rmtree(state, ignore_errors=True)


@pytest.fixture
def put(caller, work):
    def make(name, text):
        path = work
        for part in name.split("/")[:-1]:
            path = os.path.join(path, part)
            if not os.path.isdir(path):
                os.mkdir(path)
                caller.own(path)
        path = os.path.join(work, name)
        with open(path, "w") as f:
            f.write(text)
        return caller.own(path)

    return make


@pytest.fixture
def cow(bawn, env):
    """cow(script): run it copy-on-write; the id of the run, or None if nothing changed."""

    def run(script, *options):
        done, result = bawn.json("--cow", *options, "--", "/bin/sh", "-c", script, env=env)
        assert done.returncode == 0, done.stderr
        return result.get("run") or None

    return run


def read(*parts):
    with open(os.path.join(*parts)) as f:
        return f.read()


def tree(top):
    """Everything below a directory: path -> (type and mode, content)."""
    found = {}
    for where, dirs, files in os.walk(top):
        for name in dirs + files:
            path = os.path.join(where, name)
            mode = os.lstat(path).st_mode
            text = os.readlink(path) if os.path.islink(path) else \
                read(path) if os.path.isfile(path) else None
            found[os.path.relpath(path, top)] = (mode, text)
    return found


EXAMPLE = """
echo changed >> text; rm gone; rm -r tree; mkdir -p new/deep; echo new > new/deep/file; chmod 755 script
ln -s /etc/passwd link; rm -r turns; echo now a file > turns; rm becomes; mkdir becomes; echo x > becomes/x
rm -r again; mkdir again; echo fresh > again/kept; cat unread > /dev/null; touch same
"""


@pytest.fixture
def example(put):
    for name in ("text", "gone", "tree/a", "tree/b/c", "script", "turns/into/file", "becomes", "again/old",
                 "again/kept", "unread", "same"):
        put(name, f"{name}\n")


def test_the_directory_is_untouched_until_apply_and_right_after_it(bawn, cow, env, work, example, tmp_path):
    before = tree(work)
    run = cow(EXAMPLE)
    assert tree(work) == before
    # What the same script does without a box is what apply must give.
    shutil.copytree(work, tmp_path / "plain", symlinks=True)
    subprocess.run(["sh", "-c", EXAMPLE], cwd=tmp_path / "plain", check=True)
    done = bawn("apply", run, env=env)
    assert done.returncode == 0, done.stderr
    assert tree(work) == tree(tmp_path / "plain")
    assert json.loads(bawn("diff", "--json", env=env).stdout) == {"runs": []}


def test_applied_files_belong_to_the_caller(bawn, caller, cow, env, work, put):
    put("old", "old\n")
    run = cow("echo new > new; echo more >> old; mkdir d; echo x > d/x")
    assert bawn("apply", run, env=env).returncode == 0
    for name in ("old", "new", "d", "d/x"):
        assert os.stat(f"{work}/{name}").st_uid == caller.uid, name


def test_nothing_changed_keeps_nothing(bawn, cow, env, put):
    put("a", "a\n")
    assert cow("cat a; touch a; echo a > a; echo x > b; rm b") is None
    assert "no runs" in bawn("diff", env=env).stdout


def test_what_changed_is_shown_at_the_end(bawn, env, put):
    put("a", "a\n")
    put("b", "b\n")
    done = bawn.sh("echo x >> a; rm b; echo c > c", "--cow", env=env)
    assert done.returncode == 0
    for line in ("M a", "D b", "A c", "bawn diff", "bawn apply", "bawn discard"):
        assert line in done.stderr, line


def test_the_patch_is_one_that_git_applies(bawn, cow, env, work, put, tmp_path):
    put("text", "".join(f"{i}\n" for i in range(40)))
    put("gone", "gone\n")
    put("no-newline", "x")
    shutil.copytree(work, tmp_path / "copy")
    run = cow("sed -i 's/^7$/seven/; s/^30$/thirty/' text; rm gone; printf y > no-newline; "
              "mkdir d; echo new > d/new; chmod 755 text")
    patch = bawn("diff", run, env=env).stdout
    subprocess.run(["git", "apply", "-"], input=patch, text=True, cwd=tmp_path / "copy", check=True)
    assert bawn("apply", run, env=env).returncode == 0
    assert tree(tmp_path / "copy") == tree(work)


def test_stat_json_and_paths(bawn, cow, env, put):
    put("a", "1\n2\n")
    run = cow("echo 3 >> a; mkdir d; printf 'x\\0y' > d/bin; ln -s a link")
    stat = bawn("diff", run[:6], "--stat", env=env).stdout
    assert "M  a | +1 -0" in stat and "A  d/bin | binary" in stat and "A  link" in stat
    result = json.loads(bawn("diff", run, "--json", env=env).stdout)
    changes = {c["path"]: c for c in result["changes"]}
    assert changes["a"]["kind"] == "modified" and changes["a"]["lines_added"] == 1
    assert changes["d"]["type"] == "directory" and changes["d/bin"]["binary"] is True
    assert changes["link"]["link"] == "a"
    only = json.loads(bawn("diff", run, "--json", "d", env=env).stdout)
    assert [c["path"] for c in only["changes"]] == ["d", "d/bin"]
    assert json.loads(bawn("diff", "--json", env=env).stdout)["runs"][0]["run"] == run


def test_control_bytes_of_a_box_do_not_reach_a_terminal(bawn, cow, env):
    run = cow(r"printf 'a\033[2Jb\n' > file; touch \"$(printf 'na\033me')\"")
    done = subprocess.run(["script", "-qec", " ".join(bawn.argv("diff", run)), "/dev/null"],
                          env={**env, "NO_COLOR": "1"}, stdin=subprocess.DEVNULL, capture_output=True,
                          cwd=bawn.work)
    assert b"a\\x1b[2Jb" in done.stdout
    assert b"\x1b[2J" not in done.stdout


def test_a_conflict_applies_nothing_and_is_listed(bawn, cow, env, work, put):
    put("a", "a\n")
    put("b", "b\n")
    run = cow("echo x >> a; echo x >> b; echo c > c")
    put("a", "somebody else\n")
    put("c", "somebody else\n")
    done = bawn("apply", run, env=env)
    assert done.returncode == 1
    assert "M  a: was changed since" in done.stderr and "A  c: exists now" in done.stderr
    assert read(work, "b") == "b\n" and read(work, "a") == "somebody else\n"
    result = json.loads(bawn("apply", run, "--json", env=env).stdout)
    assert [c["path"] for c in result["conflicts"]] == ["a", "c"] and result["applied"] == 0
    assert bawn("apply", run, "b", env=env).returncode == 0
    assert read(work, "b") == "b\nx\n"
    assert bawn("apply", run, "--force", env=env).returncode == 0
    assert read(work, "a") == "a\nx\n" and read(work, "c") == "c\n"


def test_dry_run_changes_nothing(bawn, cow, env, work, put):
    put("a", "a\n")
    run = cow("echo x >> a; echo b > b")
    done = bawn("apply", run, "--dry-run", env=env)
    assert done.returncode == 0
    assert done.stdout == "M  a\nA  b\n"
    assert os.listdir(work) == ["a"] and read(work, "a") == "a\n"
    assert bawn("apply", run, env=env).returncode == 0


def test_protected_names_need_a_word(bawn, cow, env, work):
    run = cow("mkdir .vscode; echo evil > .vscode/tasks.json; echo x > work; git init -q -b main .; "
              "echo evil > .git/hooks/pre-commit")
    done = bawn("apply", run, env=env)
    assert done.returncode == 1
    assert ".vscode/tasks.json" in done.stderr and ".git/hooks/pre-commit" in done.stderr
    assert "--skip-protected" in done.stderr
    assert ".git/config" not in done.stderr  # what git init writes is harmless
    assert os.listdir(work) == []
    assert bawn("apply", run, "--skip-protected", env=env).returncode == 0
    assert read(work, "work") == "x\n" and os.path.exists(f"{work}/.git/config")
    assert not os.path.exists(f"{work}/.vscode/tasks.json")
    assert not os.path.exists(f"{work}/.git/hooks/pre-commit")
    assert bawn("apply", run, "--allow-protected", env=env).returncode == 0
    assert read(work, ".vscode/tasks.json") == "evil\n"


def test_hidden_files_are_not_part_of_the_change(bawn, cow, env, work, put):
    put(".env", "secret\n")
    run = cow("cat .env; echo x > a")
    result = json.loads(bawn("diff", run, "--json", env=env).stdout)
    assert [c["path"] for c in result["changes"]] == ["a"]
    assert bawn("apply", run, env=env).returncode == 0
    assert read(work, ".env") == "secret\n"


def test_a_hostile_tree_is_kept_without_harm(bawn, cow, env, work, caller):
    run = cow("mkfifo fifo; python3 - <<'END'\n"
              "import os, socket\n"
              "s = socket.socket(socket.AF_UNIX); s.bind('socket')\n"
              "open('new\\nline', 'w').write('x'); open(b'\\xff\\xfe', 'w').write('x')\n"
              "open('n' * 255, 'w').write('x'); os.truncate(os.open('sparse', 66), 1 << 40)\n"
              "open('a', 'w').write('y'); [os.link('a', f'l{i}') for i in range(50)]\n"
              "os.symlink('../../../../../../etc/shadow', 'out'); os.symlink('.', 'loop')\n"
              "for i in range(300): os.mkdir('deep'); os.chdir('deep')\n"
              "END\n")
    done = bawn("diff", run, "--json", env=env)
    result = json.loads(done.stdout)
    assert {s["path"] for s in result["not_kept"]} >= {"fifo", "socket"}
    paths = {c["path"] for c in result["changes"]}
    assert {"new\nline", "sparse", "out", "loop", "n" * 255} <= paths
    done = bawn("apply", run, env=env)
    assert done.returncode == 0, done.stderr
    assert os.stat(f"{work}/sparse").st_size == 1 << 40 and os.stat(f"{work}/sparse").st_blocks < 100
    assert os.path.exists(os.fsencode(work) + b"/\xff\xfe")
    assert os.readlink(f"{work}/out").endswith("etc/shadow")
    assert not os.path.exists(f"{work}/fifo")


@pytest.mark.parametrize("bit", ["4755", "2755"])
def test_set_id_bits_never_leave_the_box(bawn, env, work, bit):
    bawn.sh(f"cp /bin/true t; chmod {bit} t", "--cow", env=env)
    runs = json.loads(bawn("diff", "--json", env=env).stdout)["runs"]
    for run in runs:
        assert bawn("apply", run["run"], env=env).returncode == 0
        assert os.stat(f"{work}/t").st_mode & 0o6000 == 0


def test_unknown_runs_and_bad_usage_are_explained(bawn, cow, env):
    run = cow("echo a > a")
    for verb in ("diff", "apply", "discard"):
        done = bawn(verb, "nonsense", env=env)
        assert done.returncode == 125 and "no such run 'nonsense'" in done.stderr and run in done.stderr
        done = bawn(verb, "--jsno", env=env)
        assert done.returncode == 125 and "--json" in done.stderr
        assert bawn(verb, "--help", env=env).stdout.startswith(f"usage: bawn {verb}")
    assert bawn("apply", env=env).returncode == 125
    assert bawn("discard", env=env).returncode == 125
    assert bawn("discard", run, "--all", env=env).returncode == 125
    assert bawn("diff", run, "/etc", env=env).returncode == 125
    assert bawn("apply", run, "not-changed", env=env).returncode == 125


def test_discard_forgets_one_or_all(bawn, cow, env, work):
    runs = [cow("echo a > a") for _ in range(3)]
    assert len(set(runs)) == 3
    assert json.loads(bawn("discard", runs[0], "--json", env=env).stdout) == {"discarded": [runs[0]]}
    left = json.loads(bawn("diff", "--json", env=env).stdout)["runs"]
    assert sorted(r["run"] for r in left) == sorted(runs[1:])
    assert bawn("discard", "--all", env=env).stdout == "forgot 2 runs\n"
    assert os.listdir(work) == []
    assert os.listdir(env["BAWN_STATE_DIR"] + "/runs") == []


def test_a_damaged_record_is_told_and_can_be_forgotten(bawn, cow, env):
    run = cow("echo a > a")
    with open(f"{env['BAWN_STATE_DIR']}/runs/{run}/manifest.jsonl", "a") as f:
        f.write("{}\n")
    done = bawn("apply", run, env=env)
    assert done.returncode == 125 and "damaged" in done.stderr
    assert bawn("discard", run, env=env).returncode == 0


def test_apply_killed_at_random_moments_can_be_repeated(bawn, cow, env, work, caller, put):
    seed = 20240607
    rnd = random.Random(seed)
    for i in range(120):
        put(f"d{i % 7}/f{i}", f"{i}\n")
    script = "for i in $(seq 0 119); do echo new >> d$((i % 7))/f$i; echo n > d$((i % 7))/n$i; done; rm -r d3"
    run = cow(script)
    started = time.monotonic()
    assert bawn("apply", "--dry-run", run, env=env).returncode == 0
    once = time.monotonic() - started  # loads and judges; a sanitizer makes it long

    def is_over(returncode, message, attempt):
        # Killed just after the run was forgotten, the next try finds none: everything is applied.
        return returncode == 0 or (attempt > 0 and b"no such run" in message)

    for attempt in range(60):
        child = subprocess.Popen(bawn.argv("apply", run), env=env, cwd=work,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        try:
            child.wait(timeout=rnd.uniform(0.5, 1 + attempt / 20) * once)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
        message = child.communicate()[1]
        if is_over(child.returncode, message, attempt):
            break
        assert child.returncode == -signal.SIGKILL, (seed, attempt, message)
    else:
        last = subprocess.run(bawn.argv("apply", run), env=env, cwd=work, capture_output=True)
        assert is_over(last.returncode, last.stderr, attempt), (seed, last.stderr)
    for i in range(120):
        if i % 7 != 3:
            assert read(work, f"d{i % 7}/f{i}") == f"{i}\nnew\n", seed
            assert read(work, f"d{i % 7}/n{i}") == "n\n", seed
    assert not os.path.exists(f"{work}/d3")
    assert not [n for _, _, names in os.walk(work) for n in names if n.startswith(".bawn-")], seed


def test_marks_of_overlayfs_made_by_a_box_change_nothing(bawn, cow, env, work, put):
    put("d/old", "old\n")
    put("e/old", "old\n")
    mark = ("python3 - <<'END'\nimport os\n"
            "for d, n, v in (('d', 'opaque', b'y'), ('e', 'redirect', b'x'), ('e', 'metacopy', b'')):\n"
            "    try: os.setxattr(d, 'user.overlay.' + n, v)\n"
            "    except OSError: pass\n"
            "END\n")
    # First in the directory itself, by a run without copy-on-write; then in the layer above it.
    assert bawn.sh(mark, env=env).returncode == 0
    run = cow(f"cat d/old e/old; echo new > d/new; echo new > e/new; {mark}")
    changes = json.loads(bawn("diff", run, "--json", env=env).stdout)["changes"]
    assert sorted((c["kind"], c["path"]) for c in changes) == [("added", "d/new"), ("added", "e/new")]
    assert bawn("apply", run, env=env).returncode == 0
    assert read(work, "d/old") == read(work, "e/old") == "old\n"


def test_a_bare_repository_is_not_applied_with_its_commands(bawn, cow, env, work):
    run = cow("mkdir -p sub/objects sub/refs; echo 'ref: refs/heads/m' > sub/HEAD; "
              "printf '[core]\\n\\tpager = x\\n' > sub/config; git init -q --bare plain")
    done = bawn("apply", run, env=env)
    assert done.returncode == 1 and "sub/config" in done.stderr and "plain" not in done.stderr
    assert bawn("apply", run, "--skip-protected", env=env).returncode == 0
    assert os.path.exists(f"{work}/plain/config") and not os.path.exists(f"{work}/sub/config")
