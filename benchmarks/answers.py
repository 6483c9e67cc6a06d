"""Time single answers: 1,000 requests drawn from the matrix's own rows, with and without remedies, and with twice the rows.

Each measurement is a process of its own (`python -m benchmarks.answers`), so that its peak memory is its own. Times are those
of the processor, for the resolver waits for nothing and a busy machine must not be told in its name. The digest names the bytes
of all answers: a change that is only to be faster leaves it as it was.
"""

from __future__ import annotations

import argparse
import functools
import gc
import hashlib
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request

COUNT: Final = 1000
_SEED: Final = 20261201
_SECONDS: Final = 600
_AIMS: Final = "aims: median 2 ms, 99th percentile 10 ms, peak 100 MB, growth 2.2"  # no test asserts a speed
_DOUBLED: Final = ("releases", "variants")
_COPY: Final = ".900"  # behind a version: a release that nobody made
#: How often a request has a package beside the framework, a pinned build, a pinned Python, a pinned system of the image.
_BESIDE, _BUILD, _PYTHON, _SYSTEM = 0.25, 0.15, 0.3, 0.1


class Measured(NamedTuple):
    """One measurement: times in ms of processor, `peak` in MB, the share of requests that got a stack."""

    median: float
    p99: float
    most: float
    peak: float
    ok: float
    digest: str


def drawn(matrix: Matrix, count: int = COUNT) -> list[Request]:
    """The same requests each time: GPUs, drivers, releases, Pythons, systems and packages that stand in `matrix`."""
    from provisioner.stack.request import Request

    draw = random.Random(_SEED)  # noqa: S311 - a fixed draw, and no secret
    gpus = [gpu.name for gpu in matrix.gpus if gpu.segment != "jetson"]
    drivers = sorted({version for row in matrix.drivers for version in (row.first, row.latest) if version is not None})
    frameworks = [row.id for row in matrix.frameworks]
    packages = sorted({row.package for row in matrix.packages})
    found = []
    for _ in range(count):
        framework = draw.choice(frameworks)
        build = draw.choice(matrix.variants_of(framework))
        sign = draw.choice(("", "", "==", ">="))
        wanted = [f"{framework}{sign}{build.version}" if sign else framework]
        if draw.random() < _BESIDE:
            beside = draw.choice(packages)
            wanted.append(draw.choice((beside, f"{beside}=={draw.choice(matrix.package(beside)).version}")))
        found.append(
            Request(
                packages=tuple(wanted),
                gpus=tuple(draw.sample(gpus, draw.choice((1, 1, 1, 2)))),
                driver=draw.choice(("any", "upgrade", *map(str, draw.sample(drivers, 3)))),
                platform=draw.choice(("linux/amd64", "linux/amd64", "linux/amd64", build.platform)),
                variant=build.tag if draw.random() < _BUILD else None,
                python=draw.choice(build.pythons) if build.pythons and draw.random() < _PYTHON else None,
                image_os=draw.choice(matrix.systems).id if draw.random() < _SYSTEM else None,
            )
        )
    return found


def doubled(matrix: Matrix) -> Matrix:
    """`matrix` with every release and every build a second time, under a version of its own."""
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import SECTIONS, key_of, order_of
    from provisioner.values import replace
    from provisioner.versions import Version

    sections = {name: functools.partial(matrix.rows, name) for name in SECTIONS}
    for name in _DOUBLED:
        rows = list(matrix.rows(name))
        for row in matrix.rows(name):
            copy = replace(row, version=Version(f"{row.version}{_COPY}"))
            if getattr(row, "requirement", None):
                copy = replace(copy, requirement=f"{row.requirement}{_COPY}")
            rows.append(copy)
        keys = {order_of(key_of(name, row)): row for row in rows}
        sections[name] = functools.partial(tuple, [keys[key] for key in sorted(keys)])
    return Matrix(collected=matrix.collected, sha256=matrix.sha256, sections=sections)


def measure(*, remedies: bool, twice: bool) -> Measured:
    """Decide every request in this process."""
    from provisioner.flows.answers import decision_answer
    from provisioner.stack.compiled import shipped_matrix
    from provisioner.stack.matrix import SECTIONS
    from provisioner.stack.resolve import decide

    gc.set_threshold(50_000, 20, 20)  # as the command does
    shipped = shipped_matrix()
    requests = drawn(shipped)
    matrix = doubled(shipped) if twice else shipped
    for section in SECTIONS:
        matrix.rows(section)  # reading the data is timed elsewhere
    times, decisions = [], []
    for request in requests:
        started = time.process_time()
        decision = decide(request, matrix, remedies=remedies)
        times.append((time.process_time() - started) * 1000)
        decisions.append(decision)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    digest = hashlib.sha256("".join(decision_answer(decision).json() for decision in decisions).encode()).hexdigest()
    ok = sum(decision.verdict == "ok" for decision in decisions) / len(decisions)
    p99 = statistics.quantiles(times, n=100)[-1]
    return Measured(statistics.median(times), p99, max(times), peak, ok, digest[:16])


def print_answers() -> None:
    """Measure, and print one line for each case."""
    print(f"\n{f'{COUNT} requests, in process':36}{'median':>8}{'p99':>8}{'max':>8} ms{'peak MB':>10}{'ok':>6}  answers")
    medians: dict[tuple[bool, bool], Measured] = {}
    for twice in (False, True):
        for remedies in (False, True):
            flags = ["--remedies"] * remedies + ["--twice"] * twice
            argv = [sys.executable, "-m", "benchmarks.answers", *flags]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=_SECONDS, check=False)
            if done.returncode:
                raise SystemExit(f"benchmarks: {' '.join(argv)}: exit {done.returncode}\n{done.stderr[-2000:]}")
            found = medians[twice, remedies] = Measured(*json.loads(done.stdout))
            label = f"decide, {'with' if remedies else 'without'} remedies{', rows twice' if twice else ''}"
            numbers = f"{found.median:8.2f}{found.p99:8.2f}{found.most:8.1f}   {found.peak:10.0f}"
            print(f"{label:36}{numbers}{found.ok:6.0%}  {found.digest}")
    for remedies in (False, True):
        once, twice_ = medians[False, remedies], medians[True, remedies]
        growth = f"median {twice_.median / once.median:.2f}, 99th percentile {twice_.p99 / once.p99:.2f}"
        print(f"growth {'with' if remedies else 'without'} remedies, rows twice: {growth}")
    print(_AIMS)


def main() -> None:
    """Measure one case and print it as JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.answers", description=__doc__)
    parser.add_argument("--remedies", action="store_true", help="look for changes that help")
    parser.add_argument("--twice", action="store_true", help="every framework row twice")
    chosen = parser.parse_args()
    print(json.dumps(measure(remedies=chosen.remedies, twice=chosen.twice)))


if __name__ == "__main__":
    main()
