# SPDX-License-Identifier: Apache-2.0
"""An OCI bundle for crun and runc: the runtime's own default spec over bawn's base root.

`RUNTIME spec` is what its makers think a container is: masked and read-only paths,
capabilities, rlimits, /sys and a cgroup leaf. Added are the binds of the
base root, and the user and cgroup namespaces that both bubblewrap and bawn make.
"""
import json
import os
import subprocess

LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}


def bundle(runtime, directory):
    """Write config.json and an almost empty root filesystem; returns the directory."""
    root = os.path.join(directory, "rootfs")
    for name in ("usr", "proc", "dev", "sys", "tmp", "etc", "run", "home/user", "workspace"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for name, target in LINKS.items():
        if os.path.isdir(os.path.join("/", target)):
            os.symlink(target, os.path.join(root, name))
    path = os.path.join(directory, "config.json")
    subprocess.run([runtime, "spec"], cwd=directory, check=True)
    with open(path, encoding="utf-8") as f:
        config = json.load(f)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(adapt(config), f, indent=1)
    return directory


def adapt(config):
    config["process"].update(
        {"terminal": False, "user": {"uid": 1000, "gid": 1000}, "args": ["/usr/bin/true"]})
    config["root"] = {"path": "rootfs", "readonly": False}
    config["mounts"] += [
        {"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
        {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs",
         "options": ["nosuid", "nodev", "mode=1777"]},
    ]
    linux = config["linux"]
    # A device list is a BPF program on v2, which not every machine lets root load; a user
    # namespace cannot open devices anyway.
    linux.pop("resources", None)
    linux["namespaces"] += [{"type": "user"}, {"type": "cgroup"}]
    linux["uidMappings"] = linux["gidMappings"] = [
        {"containerID": 0, "hostID": 100000, "size": 65536}]
    return config
