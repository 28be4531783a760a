# SPDX-License-Identifier: Apache-2.0
"""The comparison with bubblewrap on cgroup v2, in the virtual machine of tests/vm.

Most servers have cgroup v2 alone; a build machine may not. QEMU emulates, so the times
mean nothing by themselves: read the ratios. crun and runc want more of a system than this
one has.
"""
import importlib.machinery
import importlib.util
import os
import re
import subprocess
import tempfile

import harness

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROUNDS, WARMUP = 60, 5


def machine():
    """tests/vm/run as a module: it knows how to make and boot the machine."""
    path = os.path.join(TOP, "tests", "vm", "run")
    loader = importlib.machinery.SourceFileLoader("vm_run", path)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("vm_run", loader))
    loader.exec_module(module)
    return module


def with_programs(vm, programs):
    """make_disk() of tests/vm, with more programs and the libraries they load."""
    install, plain = vm.install, vm.make_disk
    libraries = set()
    for program in programs:
        listed = subprocess.run(["ldd", program], capture_output=True, text=True).stdout
        libraries.update(re.findall(r"(/\S+\.so\S*)", listed))

    def install_all(source, *target):
        install(source, *target)
        if target[-1] == "usr/bin/bawn":
            for path in programs:
                install(path, target[0], "usr/bin", os.path.basename(path))
            for path in libraries:
                # Merged /usr: /lib and /lib64 are links there as here.
                inside = "usr" + path if not path.startswith("/usr/") else path[1:]
                install(os.path.realpath(path), target[0], inside)

    def make_disk(tmp, cases):
        vm.install = install_all
        try:
            return plain(tmp, cases)
        finally:
            vm.install = install

    return make_disk


def measure(spawn, subjects, seed):
    """A list of Result, in the order of the subjects."""
    words = ["spawn", str(ROUNDS), str(WARMUP), str(seed)]
    for i, subject in enumerate(subjects):
        words += ["::"] * bool(i) + [subject.name, *subject.argv]
    vm = machine()
    vm.make_disk = with_programs(vm, ["/usr/bin/bwrap", spawn])
    # Once aloud, so that a failure says why; then the run itself.
    aloud = "".join(" ".join(s.argv) + " || exit\n" for s in subjects)
    script = aloud + " ".join(words) + "\n"
    with tempfile.TemporaryDirectory(prefix="bawn-bench.") as tmp:
        results, ended, note, log = vm.boot(tmp, [("bench", script, None)])
    if not ended or not results or results[0].status != 0:
        said = results[0].err if results else log[-400:]
        raise harness.Failed(f"in the machine: {note}: {said.strip()[-400:]}")
    return harness.read_samples(results[0].out, subjects)
