# SPDX-License-Identifier: Apache-2.0
"""What every benchmark shares: interleaved samples, medians, tables.

A benchmark names its subjects (a Subject is a command, and where to run it), hands
them to measure(), and gets a Result per subject. The clock is bench/spawn, a small C
program, so that this interpreter is never part of a sample.
"""
import dataclasses
import os
import statistics
import subprocess


@dataclasses.dataclass
class Subject:
    name: str  # one word, stable: it names the row in the tables and the JSON
    about: str  # what it builds, in a few words
    argv: list
    mntns: str = ""  # path of a mount namespace to enter first


@dataclasses.dataclass
class Result:
    subject: Subject
    samples_ms: list

    @property
    def median(self):
        return statistics.median(self.samples_ms)

    @property
    def p95(self):
        ordered = sorted(self.samples_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]

    def as_json(self):
        return {
            "name": self.subject.name,
            "about": self.subject.about,
            "argv": self.subject.argv,
            "samples": len(self.samples_ms),
            "median_ms": round(self.median, 3),
            "p95_ms": round(self.p95, 3),
            "min_ms": round(min(self.samples_ms), 3),
        }


class Failed(Exception):
    """A subject did not run; the number it would have given means nothing."""


def check(subject):
    """Run it once with its output shown to us, so that a failure says why."""
    if subject.argv[0].startswith("api:"):
        return  # no program; bench/spawn says why if it fails
    argv = [word.replace("{n}", f"check-{os.getpid()}") for word in subject.argv]
    if subject.mntns:
        argv = ["nsenter", f"--mount={subject.mntns}", *argv]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise Failed(f"{subject.name}: exit {done.returncode}: {done.stderr.strip()[-400:]}")


def measure(spawn, subjects, rounds, warmup, seed, more_env=None):
    """Run all subjects `rounds` times, interleaved; a list of Result in their order. `rounds` may
    be a text in the second form that bench/spawn knows."""
    command = [spawn, str(rounds), str(warmup), str(seed)]
    for i, subject in enumerate(subjects):
        check(subject)
        if i:
            command.append("::")
        if subject.mntns:
            command.append("@" + subject.mntns)
        command += [subject.name, *subject.argv]
    # A short environment: what the command inherits is part of what is measured.
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "HOME": os.environ["HOME"],
           **(more_env or {})}
    # Ahead of whatever else the machine does, all subjects alike.
    done = subprocess.run(["nice", "-n", "-15", *command], stdout=subprocess.PIPE, text=True,
                          check=True, env=env)
    return read_samples(done.stdout, subjects)


def read_samples(text, subjects):
    """What bench/spawn prints, as a list of Result in the order of the subjects."""
    samples = {subject.name: [] for subject in subjects}
    for line in text.splitlines():
        name, nanoseconds, status = line.split()
        if status != "0":
            raise Failed(f"{name}: exit {status} in the middle of the run")
        samples[name].append(int(nanoseconds) / 1e6)
    return [Result(subject, samples[subject.name]) for subject in subjects]


def table(results, reference):
    """Markdown rows: medians, p95 and the ratio of each median to the reference's."""
    base = next((r.median for r in results if r.subject.name == reference), None)
    lines = [
        f"| what | median ms | p95 ms | min ms | ratio to {reference} |",
        "|---|---:|---:|---:|---:|",
    ]
    for r in results:
        ratio = f"{r.median / base:.2f}" if base else "-"
        lines.append(
            f"| `{r.subject.name}`: {r.subject.about} | {r.median:.2f} | {r.p95:.2f} "
            f"| {min(r.samples_ms):.2f} | {ratio} |"
        )
    return "\n".join(lines)
