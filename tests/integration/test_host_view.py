# SPDX-License-Identifier: Apache-2.0
"""The host's tree in a box: what is hidden, what is read-only, what is writable, what is held back."""
import os
import shutil
import subprocess

import pytest

SECRETS = [
    ".ssh/id_ed25519", ".aws/credentials", ".config/gcloud/credentials.db", ".azure/token", ".gnupg/key",
    ".kube/config", ".docker/config.json", ".mozilla/firefox/p/logins.json",
    ".config/google-chrome/Default/Cookies", ".password-store/a.gpg", ".netrc", ".npmrc", ".pypirc",
    ".bash_history", ".python_history", ".local/share/keyrings/login.keyring", ".git-credentials",
    ".config/gh/hosts.yml", ".claude/.credentials.json", ".codex/auth.json", ".cargo/credentials.toml",
    ".env", ".vault-token", ".bitcoin/wallet.dat",
]


@pytest.fixture
def put(caller):
    """put(path, text): make a file and its directories, all the caller's; removed afterwards."""
    made = []

    def make(path, text="secret\n", mode=0o644):
        missing, above = [], os.path.dirname(path)
        while not os.path.isdir(above):
            missing.append(above)
            above = os.path.dirname(above)
        for directory in reversed(missing):
            os.mkdir(directory)
            caller.own(directory)
            made.append(directory)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)
        caller.own(path)
        made.append(path)
        return path

    yield make
    for path in reversed(made):
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path, ignore_errors=True)
        elif os.path.lexists(path):
            os.unlink(path)


@pytest.fixture
def env(caller, tmp_path_factory, work):
    """A state directory of the test's own, outside everything the box may write."""
    state = os.path.join(caller.top, "state")
    os.makedirs(state, exist_ok=True)
    caller.own(state)
    yield caller.environment(BAWN_STATE_DIR=state)
    shutil.rmtree(state, ignore_errors=True)


def git(work, *args):
    return subprocess.run(["git", "-c", "safe.directory=*", "-C", work, *args], check=True,
                          capture_output=True, text=True,
                          env={"PATH": os.environ["PATH"], "HOME": "/nonexistent",
                               "GIT_CONFIG_NOSYSTEM": "1"})


# ---- reads are deny-only -----------------------------------------------------------------------

def test_secrets_of_the_home_cannot_be_read(bawn, caller, put):
    for name in SECRETS:
        put(os.path.join(caller.home, name))
    put(os.path.join(caller.home, ".toolchain/bin/tool"), "a tool\n")
    script = f"cd {caller.home}; cat {' '.join(SECRETS)} 2>/dev/null; cat .toolchain/bin/tool"
    done = bawn.sh(script)
    assert "secret" not in done.stdout
    assert "a tool" in done.stdout


def test_a_hidden_file_is_an_empty_file_and_a_hidden_directory_an_empty_directory(bawn, caller, put):
    put(os.path.join(caller.home, ".npmrc"))
    put(os.path.join(caller.home, ".ssh/id"))
    done = bawn.sh(f"wc -c < {caller.home}/.npmrc; ls -A {caller.home}/.ssh | wc -l")
    assert done.stdout.split() == ["0", "0"]


def test_env_files_of_the_project_are_hidden_and_templates_are_not(bawn, work, put):
    put(f"{work}/.env")
    put(f"{work}/a/b/.env.production")
    put(f"{work}/.env.example", "KEY=\n")
    done = bawn.sh("cat .env a/b/.env.production .env.example")
    assert done.returncode == 0
    assert done.stdout == "KEY=\n"


def test_a_hidden_file_cannot_be_uncovered_by_renaming(bawn, work, put):
    put(f"{work}/a/.env")
    done = bawn.sh("mv a b; cat b/.env a/.env; mv b/.env b/x; rm -rf b; cat b/.env; ls -A")
    assert "secret" not in done.stdout
    assert open(f"{work}/{'a' if os.path.isdir(work + '/a') else 'b'}/.env").read() == "secret\n"


def test_run_has_no_sockets_of_the_host(bawn):
    done = bawn.sh("find /run /var/run/ -type s 2>/dev/null | wc -l")
    assert done.stdout.split() == ["0"]


@pytest.mark.modes("root")
def test_password_hashes_are_hidden_even_from_root(bawn):
    done = bawn.sh("cat /etc/shadow /etc/gshadow 2>/dev/null | wc -c", "--user", "root")
    assert done.stdout.split() == ["0"]


@pytest.mark.modes("root")
def test_another_users_home_is_hidden(bawn, caller, put):
    home = "/home/bawn-it-other"
    put(f"{home}/letter", "private\n", 0o644)
    done = bawn.sh(f"cat {home}/letter; ls -A {home} | wc -l")
    assert "private" not in done.stdout
    assert done.stdout.split() == ["0"]


def test_ro_shows_exactly_one_file_of_a_hidden_directory(bawn, caller, put):
    put(f"{caller.home}/.ssh/id")
    put(f"{caller.home}/.ssh/config", "Host x\n")
    done = bawn.sh(f"cat {caller.home}/.ssh/config; ls -A {caller.home}/.ssh; "
                   f"echo y >> {caller.home}/.ssh/config", "--ro", f"{caller.home}/.ssh/config")
    assert done.stdout == "Host x\nconfig\n"
    assert done.returncode != 0
    assert open(f"{caller.home}/.ssh/config").read() == "Host x\n"


def test_hide_takes_globs(bawn, work, put):
    put(f"{work}/a/one.key")
    put(f"{work}/two.key")
    put(f"{work}/three.txt", "text\n")
    done = bawn.sh("cat a/one.key two.key three.txt", "--hide", "**/*.key")
    assert done.stdout == "text\n"


def test_a_hidden_working_directory_is_refused_with_the_way_out(bawn, caller, put):
    put(f"{caller.home}/.ssh/id")
    done = bawn.run("--", "true", cwd=f"{caller.home}/.ssh")
    assert done.returncode == 125
    assert "hidden by default" in done.stderr and "--rw" in done.stderr


@pytest.mark.parametrize("option", ["--rw", "--ro"])
def test_a_path_that_does_not_exist_is_named(bawn, option):
    done = bawn.run(option, "/no/such/place", "--", "true")
    assert done.returncode == 125
    assert option in done.stderr and "/no/such/place" in done.stderr


def test_contradicting_rules_are_refused(bawn, work):
    os.mkdir(f"{work}/d")
    done = bawn.run("--rw", f"{work}/d", "--hide", f"{work}/d", "--", "true")
    assert done.returncode == 125
    assert "--rw" in done.stderr and "--hide" in done.stderr


# ---- writes are allow-only ---------------------------------------------------------------------

def test_only_the_working_directory_and_tmp_are_writable(bawn, caller, work):
    done = bawn.sh(f"echo 1 > here; echo 1 > /tmp/x && echo tmp; echo 1 > {caller.home}/x; "
                   "echo 1 > /etc/x; echo 1 > /usr/x; echo 1 > ../x")
    assert done.stdout == "tmp\n"
    assert os.listdir(work) == ["here"]
    assert not os.path.exists(f"{caller.home}/x")
    assert not os.path.exists("/etc/x") and not os.path.exists(f"{caller.top}/x")


def test_rw_adds_a_directory_and_ro_inside_takes_a_part_back(bawn, caller, work):
    for name in ("extra", "extra/part"):
        os.mkdir(f"{caller.top}/{name}")
        caller.own(f"{caller.top}/{name}")
    extra = f"{caller.top}/extra"
    try:
        bawn.sh(f"echo 1 > {extra}/a; echo 1 > {extra}/part/b", "--rw", extra, "--ro", f"{extra}/part")
        assert sorted(os.listdir(extra)) == ["a", "part"]
        assert os.listdir(f"{extra}/part") == []
    finally:
        shutil.rmtree(extra)


# ---- protected names ---------------------------------------------------------------------------

@pytest.fixture
def repo(work, caller):
    git(work, "init", "-q", "-b", "main")
    subprocess.run(["chown", "-R", f"{caller.uid}:{caller.gid}", work], check=True)
    return work


def test_git_hooks_and_config_are_read_only_and_git_still_works(bawn, repo, env):
    before = open(f"{repo}/.git/config").read()
    done = bawn.sh("git config user.name x; echo evil > .git/hooks/pre-commit; echo evil >> .git/config;"
                   "rm -rf .git/hooks; mv .git/hooks .git/h; mv .git .g; rm .git/config;"
                   "echo a > a && git add a && "
                   "git -c user.name=a -c user.email=a@b commit -qm first && git log --oneline | wc -l",
                   env=env)
    assert done.stdout.split() == ["1"], done.stderr
    assert open(f"{repo}/.git/config").read() == before
    assert not os.path.exists(f"{repo}/.git/hooks/pre-commit")
    assert os.path.exists(f"{repo}/.git/hooks/pre-commit.sample")


@pytest.mark.parametrize("name", [".bashrc", ".vscode/tasks.json", ".claude/settings.json", ".mcp.json",
                                  ".idea/workspace.xml", ".envrc", ".husky/pre-commit"])
def test_protected_files_that_exist_cannot_be_changed(bawn, work, put, env, name):
    put(f"{work}/{name}", "mine\n")
    top = name.split("/")[0]
    bawn.sh(f"echo evil > {name}; rm -f {name}; mv {top} away; rm -rf {top}; "
            f"mkdir -p $(dirname {name}); echo evil > {name}; ln -sf /etc/passwd {name}", env=env)
    assert open(f"{work}/{name}").read() == "mine\n"


@pytest.mark.parametrize("name", [".bashrc", ".vscode/tasks.json", ".claude/settings.json", ".git/hooks/x",
                                  ".mcp.json", ".idea/workspace.xml", ".envrc", ".gitmodules"])
def test_protected_files_that_appear_are_held_back(bawn, repo, env, name):
    done = bawn.sh(f"mkdir -p $(dirname {name}); echo evil > {name}; echo work > work", env=env)
    assert not os.path.exists(f"{repo}/{name}")
    assert open(f"{repo}/work").read() == "work\n"
    if not name.startswith(".git/"):  # .git/hooks is there and read-only; the others were moved away
        held = subprocess.run(["grep", "-rl", "evil", env["BAWN_STATE_DIR"] + "/held"],
                              capture_output=True, text=True)
        assert held.stdout.strip(), done.stderr


def test_what_was_held_back_is_reported(bawn, work, env):
    done, result = bawn.json("--", "/bin/sh", "-c", "mkdir .vscode; echo evil > .vscode/tasks.json",
                             env=env)
    held = [v for v in result["violations"] if v["kind"] == "held"]
    assert len(held) == 1 and ".vscode" in held[0]["tried"] and held[0]["wall"] == "masks"


def test_no_stray_files_are_left_by_a_run(bawn, work, env):
    bawn.sh("true", env=env)
    assert os.listdir(work) == []
    assert not os.path.exists(env["BAWN_STATE_DIR"] + "/held")


def test_a_new_repository_is_kept_without_hooks_and_commands(bawn, work, env):
    done = bawn.sh("git init -q -b main dep && cd dep && git config core.fsmonitor ./evil && "
                   "printf '#!/bin/sh\\ntouch /pwned\\n' > .git/hooks/post-checkout && "
                   "chmod +x .git/hooks/post-checkout && cd .. && git init -q -b main good", env=env)
    assert done.returncode == 0, done.stderr
    assert not os.path.exists(f"{work}/dep/.git/config")
    assert not os.path.exists(f"{work}/dep/.git/hooks/post-checkout")
    assert os.path.exists(f"{work}/good/.git/config")
    assert "fsmonitor" not in git(f"{work}/good", "config", "-l").stdout
    git(f"{work}/dep", "status")


def plant(top):
    """Every road to a command of the box's choice that git knows, as a script."""
    evil = f"[core]\\n\\tfsmonitor = touch {top}/witness \\n"
    return (f"cd {top}; mkdir e; printf '{evil}' > e/config; cp .git/HEAD e/; mkdir -p e/objects e/refs;"
            f"printf '{evil}' > .git/config.worktree; printf '{evil}' > config; cp .git/HEAD HEAD;"
            "mkdir -p objects refs sub wt; echo 'gitdir: ../e' > sub/.git; ln -s ../e wt/.git;"
            f"mkdir -p bare/objects bare/refs; cp HEAD bare; printf '{evil}' > bare/config;"
            "echo ../e > .git/commondir")


def git_runs_the_witness(top, place):
    subprocess.run(["git", "-c", "safe.directory=*", "-C", f"{top}/{place}", "status"],
                   capture_output=True, env={"PATH": os.environ["PATH"], "HOME": "/nonexistent"})
    if not os.path.exists(f"{top}/witness"):
        return False
    os.unlink(f"{top}/witness")
    return True


def test_git_obeys_nothing_a_box_left_behind(bawn, repo, env, tmp_path):
    # Without a box each of these roads works, or the test would prove nothing.
    git(tmp_path, "init", "-q", "-b", "main")
    subprocess.run(["sh", "-c", plant(tmp_path)], check=True)
    assert all(git_runs_the_witness(tmp_path, place) for place in ("", "sub", "wt"))
    bawn.sh(plant(repo), env=env)
    assert not any(git_runs_the_witness(repo, place) for place in ("", "e", "sub", "bare", "wt"))


def test_no_protect_lets_a_run_write_them(bawn, work, env):
    bawn.sh("echo x > .bashrc", "--no-protect", env=env)
    assert open(f"{work}/.bashrc").read() == "x\n"


def test_a_worktree_guards_the_repository_it_belongs_to(bawn, caller, work, env):
    main, tree = f"{work}/main", f"{work}/tree"
    os.mkdir(main)
    git(main, "init", "-q", "-b", "main")
    git(main, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x")
    git(main, "worktree", "add", "-q", tree)
    subprocess.run(["chown", "-R", f"{caller.uid}:{caller.gid}", work], check=True)
    before = open(f"{tree}/.git").read()
    bawn.sh("echo 'gitdir: /tmp/evil' > .git; rm -f .git; mv .git x; "
            f"echo evil > {main}/.git/hooks/post-commit; echo evil >> {main}/.git/config",
            "--rw", main, cwd=tree, env=env)
    assert open(f"{tree}/.git").read() == before
    assert not os.path.exists(f"{main}/.git/hooks/post-commit")
    assert "evil" not in open(f"{main}/.git/config").read()


def test_a_run_in_the_home_cannot_forge_our_own_records(bawn, caller):
    state = f"{caller.home}/.local/state/bawn"
    env = caller.environment(BAWN_STATE_DIR=state)
    forge = "mkdir -p .local/state/bawn/runs/forged"
    # Runs that other tests kept there are not forged.
    shutil.rmtree(f"{caller.home}/.local", ignore_errors=True)
    try:
        bawn.sh(f"{forge}; mv .local/state/bawn x; mv .local/state x; mv .local x; rm -rf .local; {forge}",
                cwd=caller.home, env=env)
        assert not os.path.exists(f"{state}/runs")
        assert "no runs" in bawn("diff", env=env).stdout
    finally:
        shutil.rmtree(f"{caller.home}/.local", ignore_errors=True)


# ---- ways around, seen to work once ------------------------------------------------------------

def bury(top):
    """Repositories whose config git reads by a road of its own: a link, a skipped directory, depth."""
    evil = f"printf '[core]\\n\\tfsmonitor = touch {top}/witness \\n'"
    deep = "1/2/3/4/5/6/7/8"
    return (f"cd {top}; m=node_modules/.git/modules/evil; mkdir -p b $m/objects $m/refs {deep}/.git;"
            f"{evil} > $m/config; echo 'ref: refs/heads/main' > $m/HEAD; ln -s node_modules lnk;"
            f"echo 'gitdir: ../lnk/.git/modules/evil' > b/.git; cp -r $m node_modules/dep;"
            f"cp -r $m/. {deep}/.git; mkdir c; cp -r $m/. c/; mv c/config c/x; mkdir d; mv c/x d/config;"
            "mv c/objects c/refs d; echo ../d > c/commondir")


def test_git_obeys_nothing_that_was_buried(bawn, work, env, tmp_path):
    places = ("b", "node_modules/dep", "1/2/3/4/5/6/7/8")
    subprocess.run(["sh", "-c", bury(tmp_path)], check=True)
    assert [p for p in places if git_runs_the_witness(tmp_path, p)] == ["b", "1/2/3/4/5/6/7/8"]
    assert "witness" in git(f"{tmp_path}/c", "config", "core.fsmonitor").stdout
    done = bawn.sh(bury(work), env=env)
    assert done.returncode == 0, done.stderr
    assert not any(git_runs_the_witness(work, p) for p in places)
    assert not os.path.exists(f"{work}/c/commondir")
    assert not os.path.exists(f"{work}/node_modules/dep/config")


def test_repositories_far_down_keep_their_own_hooks_and_configs(bawn, work, caller, env):
    for place in ("1/2/3/4/5/6", "node_modules/dep"):
        os.makedirs(f"{work}/{place}")
        git(f"{work}/{place}", "init", "-q")
        with open(f"{work}/{place}/.git/hooks/pre-commit", "w") as f:
            f.write("the user's own")
    subprocess.run(["chown", "-R", f"{caller.uid}:{caller.gid}", work], check=True)
    done = bawn.sh("for p in 1/2/3/4/5/6 node_modules/dep; do echo x >> $p/.git/config; done; true", env=env)
    assert done.stderr.count("Read-only file system") == 2
    assert os.path.exists(f"{work}/1/2/3/4/5/6/.git/hooks/pre-commit")
    assert os.path.exists(f"{work}/node_modules/dep/.git/hooks/pre-commit")


def test_a_tree_too_deep_to_search_is_told(bawn, work, env):
    done, result = bawn.json("--", "sh", "-c", "mkdir -p " + "/".join(["d"] * 60), env=env)
    assert [v["kind"] for v in result["violations"]] == ["scan"]
    assert "did not search all of" in done.stderr and work in done.stderr


def test_names_of_held_things_do_not_drive_a_terminal(bawn, work, env):
    done = bawn.run("--", "python3", "-c",
                    "import os; os.makedirs('.git/hooks'); os.makedirs('.git/objects'); os.makedirs('.git/refs');"
                    "open('.git/HEAD', 'w').write('x'); open('.git/hooks/\\u202ex\\u009b31m', 'w').close()",
                    env=env)
    assert "held back" in done.stderr
    assert "\u202e" not in done.stderr and "\u009b" not in done.stderr


def test_a_run_cannot_write_its_own_profile(bawn, work, put, env):
    put(f"{work}/bawn.yaml", "hostname: a\n")
    done = bawn.sh("echo 'hostname: b' > bawn.yaml; rm -f bawn.yaml; mv bawn.yaml x",
                   "--profile", "bawn.yaml", "--no-protect", env=env)
    assert "Read-only file system" in done.stderr
    assert open(f"{work}/bawn.yaml").read() == "hostname: a\n"


@pytest.mark.parametrize("variable", [
    "BAWN_STATE_DIR", pytest.param("XDG_STATE_HOME", marks=pytest.mark.modes("user", "userns")),
])
def test_records_of_other_runs_cannot_be_read(bawn, caller, put, variable):
    state = f"{caller.home}/own-state"
    put(f"{state}/runs/x/files/1", "of another run")
    put(f"{state}/bawn/runs/x/files/1", "of another run")
    done = bawn.sh(f"cat {state}/{'bawn/' if variable[0] == 'X' else ''}runs/x/files/1",
                   env=caller.environment(**{variable: state}))
    assert "of another run" not in done.stdout


def test_secrets_named_in_the_environment_cannot_be_read(bawn, caller, put):
    put(f"{caller.home}/odd/kube", "secret")
    put(f"{caller.home}/odd/tool", "a tool")
    done = bawn.sh(f"cat {caller.home}/odd/kube {caller.home}/odd/tool",
                   env=caller.environment(KUBECONFIG=f"/nowhere:{caller.home}/odd/kube"))
    assert done.stdout == "a tool"


@pytest.mark.modes("root", "userns")
def test_a_bind_mount_does_not_show_what_is_hidden(bawn, caller, put, work):
    put(f"{caller.home}/.ssh/id", "secret")
    put(f"{caller.home}/.tool", "a tool\n")
    other, part = f"{caller.top}/other", f"{caller.top}/part"
    os.mkdir(other)
    os.mkdir(part)
    script = (f"mount --make-rprivate / && mount --bind {caller.home} {other} && "
              f"mount --bind {caller.home}/.ssh {part} && "
              f"exec \"$0\" run -- sh -c 'cat {other}/.tool; cat {other}/.ssh/id {part}/id'")
    flags = ["-m"] if bawn.mode == "root" else ["-rm"]
    try:
        done = subprocess.run(["unshare", *flags, "sh", "-c", script, bawn.path], cwd=work, text=True,
                              capture_output=True, stdin=subprocess.DEVNULL, env=caller.environment())
        assert done.stdout == "a tool\n", done.stderr
    finally:
        os.rmdir(other)
        os.rmdir(part)
