"""Time whole processes, as a user waits for them: interpreter start, imports and all.

The commands take turns, so that a busy moment of the machine falls on each. What counts is the ratio of the medians; on a
machine that is busy throughout, look at that of the minima.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.answers import print_answers

_BIN: Final = Path(sys.executable).parent
_REQUEST: Final = ("torch==2.9.1", "--gpu", "h100", "--driver", "550.54.14")
_MEASURE: Final = "hpccm"
_AIMS: Final = {"resolve": 1.5}  # beyond it, a look at what is imported is due; no test asserts a speed
_SECONDS: Final = 120

Commands = dict[str, list[list[str]]]


def commands(folder: Path) -> Commands:
    """What is measured: a name, and the processes that run one after the other."""
    provisioner, lock = str(_BIN / "provisioner"), str(folder / "stack.lock.yaml")
    return {
        _MEASURE: [[str(_BIN / "hpccm"), "--recipe", str(Path(__file__).with_name("recipe.txt")), "--format", "docker"]],
        "python -c pass": [[sys.executable, "-c", "pass"]],
        "help": [[provisioner, "--help"]],
        "resolve": [[provisioner, "resolve", *_REQUEST]],
        "lock + render": [
            [provisioner, "lock", *_REQUEST, "--force", "-o", lock],
            [provisioner, "render", lock, "--force", "--to", str(folder / "tree")],
        ],
    }


def seconds(processes: list[list[str]], folder: Path) -> float:
    """The wall time of processes that must succeed; they share caches of their own."""
    env = {**os.environ, "XDG_CACHE_HOME": str(folder / "cache"), "XDG_STATE_HOME": str(folder / "state")}
    # An installed program has its bytecode beside it; a checkout on a machine that writes none would compile it every time.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    env["PYTHONPYCACHEPREFIX"] = str(folder / "bytecode")
    started = time.perf_counter()
    for argv in processes:
        done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode:
            raise SystemExit(f"benchmarks: {' '.join(argv)}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return time.perf_counter() - started


def main() -> int:
    """Print one line for each command, and what `benchmarks.answers` measures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--rounds", type=int, default=15, help="how often each command runs (15, at least 10)")
    rounds = max(10, parser.parse_args().rounds)
    with tempfile.TemporaryDirectory(prefix="benchmarks-") as name:
        folder = Path(name)
        chosen = commands(folder)
        for processes in chosen.values():
            seconds(processes, folder)  # the first run fills caches and the disk's
        times = [{label: seconds(processes, folder) for label, processes in chosen.items()} for _ in range(rounds)]
    medians = {label: statistics.median(turn[label] for turn in times) for label in chosen}
    head = f"whole process, {rounds} rounds"
    print(f"{head:24}{'min':>8}{'median':>8}{'max':>8} ms{f'ratio to {_MEASURE}':>18}{'of the minima':>16}")
    for label, median in medians.items():
        own, measure = [turn[label] * 1000 for turn in times], [turn[_MEASURE] * 1000 for turn in times]
        aim = f"   aim: {_AIMS[label]}" if label in _AIMS else ""
        numbers = f"{min(own):8.0f}{median * 1000:8.0f}{max(own):8.0f}   "
        print(f"{label:24}{numbers}{median / medians[_MEASURE]:18.2f}{min(own) / min(measure):16.2f}{aim}")
    print_answers()
    return 0


if __name__ == "__main__":
    sys.exit(main())
