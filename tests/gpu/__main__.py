"""Run the product against the GPUs of this machine: probe, NVML, the matrix, the resolver, and the smoke test.

Needed: Python 3.11, PyYAML, this checkout; nvidia-ml-py and PyTorch where they are. What a bare GPU in a sandbox cannot show is
unknown, and not a failure. Without an NVIDIA GPU it says so and ends with 0.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from provisioner.commands import Command
from provisioner.edges.local import LocalRunner
from provisioner.edges.nvml import read_nvml
from provisioner.errors import ProvisionerError
from provisioner.facts import facts_json, read_facts
from provisioner.findings import CheckResult, Layer, Seen, Status
from provisioner.hosts.probe import probe
from provisioner.proof.smoke import MARK, judge, smoke_script
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.gpu_names import match_gpus
from provisioner.stack.request import Request, request_of_facts
from provisioner.stack.resolve import decide

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from provisioner.facts import GpuFact, HostFacts
    from provisioner.stack.matrix import Matrix

_QUICK, _SMOKE = 30, 180  # seconds
_SHOWN = 240  # characters of a message


def main() -> int:
    """Run every part; 1 when something failed."""
    runner = LocalRunner()
    if not has_gpu(runner):
        print("skipped: no NVIDIA GPU")
        return 0
    started = time.monotonic()
    counted: Counter[Status] = Counter()
    for result in results(runner):
        counted[result.status] += 1
        message = " ".join(result.message.split())
        print(f"{result.status:8}{result.name:22}{message[:_SHOWN]}", flush=True)
    print(f"\n{time.monotonic() - started:.0f} s, {counted['unknown']} unknown")
    print(f"{counted['pass']} passed, {counted['fail'] + counted['warn']} failed, {counted['skip'] + counted['unknown']} skipped")
    return 1 if counted["fail"] + counted["warn"] or not counted["pass"] else 0


def has_gpu(runner: LocalRunner) -> bool:
    """Whether a driver shows an NVIDIA GPU here, or did before it broke."""
    listed = runner.run(Command(argv=("sh", "-c", "nvidia-smi -L 2>/dev/null"), timeout=_QUICK))
    return "GPU 0" in listed.stdout or any(Path("/dev").glob("nvidia[0-9]*"))


def results(runner: LocalRunner) -> Iterator[CheckResult]:
    """Each part in its turn; one that raises is a failure and does not stop the next."""
    matrix = shipped_matrix()
    try:
        facts = probe(runner)
    except ProvisionerError as failure:
        yield result("probe", "fail", failure.message)
        return
    parts: tuple[tuple[str, Callable[[], Iterator[CheckResult]]], ...] = (
        ("probe", lambda: probed(facts)),
        ("nvml", lambda: compared_with_nvml(facts)),
        ("matrix", lambda: known_to_the_matrix(facts, matrix)),
        ("resolve", lambda: resolved(facts, matrix)),
        ("smoke", lambda: smoked(runner, matrix)),
    )
    for name, part in parts:
        try:
            yield from part()
        except Exception as failure:  # noqa: BLE001 - the next part is worth running whatever this one met
            yield result(name, "fail", f"{type(failure).__name__}: {failure}")


def result(name: str, status: Status, message: str, layer: Layer = "code") -> CheckResult:
    """One line of the answer."""
    return CheckResult(name=name, layer=layer, status=status, message=message)


def gpus_of(facts: HostFacts) -> tuple[GpuFact, ...]:
    """The GPUs that the probe saw, none when it saw none or could not look."""
    return facts.gpus.or_none() or ()


def probed(facts: HostFacts) -> Iterator[CheckResult]:
    """The probe in one round trip sees GPUs and driver, and its facts survive their file."""
    found = gpus_of(facts)
    names = ", ".join(f"{gpu.name} ({gpu.capability}, {gpu.memory_mib} MiB)" for gpu in found)
    yield result(
        "probe: GPUs", "pass" if found else "fail", names or facts.gpus.why_not or "the driver shows a GPU, the probe none"
    )
    driver = facts.driver.or_none()
    said = f"{driver.version}, {driver.flavour or 'flavour not seen'}, CUDA {driver.cuda}" if driver else None
    yield result("probe: driver", "pass" if driver else "fail", said or facts.driver.why_not or "no driver")
    unseen = {
        name: each.why_not
        for name in facts.__dataclass_fields__
        if isinstance(each := getattr(facts, name), Seen) and not each.known
    }
    for name, why in unseen.items():
        if name not in {"gpus", "driver"}:
            yield result(f"probe: {name}", "unknown", str(why))
    again = read_facts(facts_json((facts,)), "facts.json")
    yield result("probe: facts.json", "pass" if again == (facts,) else "fail", "the facts are read back as they were written")


def compared_with_nvml(facts: HostFacts) -> Iterator[CheckResult]:
    """NVML and nvidia-smi, two ways to the same driver, say the same."""
    seen = read_nvml()
    if not seen.known:
        yield result("nvml", "unknown", str(seen.why_not))
        return
    nvml = seen.found
    if nvml is None:
        yield result("nvml", "fail", "the probe sees GPUs, and there is no libnvidia-ml.so.1")
        return
    driver = facts.driver.or_none()
    same = driver is not None and driver.version == nvml.driver and driver.cuda in {None, nvml.cuda}
    yield result("nvml: driver", "pass" if same else "fail", f"NVML: {nvml.driver}, CUDA {nvml.cuda}; probe: {driver}")
    ours = [(gpu.name, gpu.uuid, gpu.capability) for gpu in gpus_of(facts)]
    theirs = [(gpu.name, gpu.uuid, gpu.capability) for gpu in nvml.gpus]
    yield result("nvml: GPUs", "pass" if ours == theirs else "fail", f"NVML: {theirs}; probe: {ours}")


def known_to_the_matrix(facts: HostFacts, matrix: Matrix) -> Iterator[CheckResult]:
    """Each product is one row under the name that the driver reports, with the capability that it reports."""
    for name in dict.fromkeys(gpu.name for gpu in gpus_of(facts)):
        rows = match_gpus(name, matrix)
        said = {gpu.capability for gpu in gpus_of(facts) if gpu.name == name}
        expected = {f"{row.capability.major}.{row.capability.minor}" for row in rows}
        if not rows:
            yield result("matrix: GPU", "unknown", f"{name} is newer than the data of {matrix.collected}")
        else:
            agrees = said <= expected | {None} and len(expected) == 1
            message = f"{name}: the driver says {sorted(map(str, said))}, the rows {sorted(expected)}"
            yield result("matrix: GPU", "pass" if agrees else "fail", message)


def resolved(facts: HostFacts, matrix: Matrix) -> Iterator[CheckResult]:
    """The resolver finds a stack for this machine."""
    decision = decide(request_of_facts((facts,), matrix, Request(packages=("torch",))), matrix, remedies=False)
    if decision.stack is None:
        first = decision.refusals[0].fact if decision.refusals else "no reason given"
        yield result("resolve", "unknown", f"no stack for this machine, which may well be so: {first}")
        return
    stack = decision.stack
    yield result("resolve", "pass", f"{stack.framework} {stack.version} {stack.variant}, {stack.compatibility}; {stack.command}")


def smoked(runner: LocalRunner, matrix: Matrix) -> Iterator[CheckResult]:
    """The smoke script runs with the Python that is there: import, driver, kernel from PTX, matrices."""
    if importlib.util.find_spec("torch") is None:
        yield result("smoke", "unknown", f"{sys.executable} has no PyTorch; name a Python that has: make gpu-test PYTHON=…")
        return
    argv = (sys.executable, "-", "--expect", json.dumps({"gpus": True}))
    done = runner.run(Command(argv=argv, stdin=smoke_script("torch.py"), timeout=_SMOKE))
    for each in judge(done):
        # What is expected of this Python was not said, so the script cannot pass its levels 0 to 2: that they ran is what counts.
        seen = each.status == "unknown" and each.message.endswith("was not said")
        yield result(f"smoke: {each.name}", "pass" if seen else each.status, each.message, each.layer)
    line = next((line for line in done.stdout.splitlines() if line.startswith(MARK)), "")
    facts: dict[str, Any] = json.loads(line.removeprefix(MARK) or "{}").get("facts", {})
    yield targets(facts, matrix)


def targets(facts: dict[str, Any], matrix: Matrix) -> CheckResult:
    """What the matrix says of this build's targets, against the build itself."""
    public, _, tag = str(facts.get("version", "")).partition("+")
    held = {text for text in facts.get("targets", ()) if text.startswith("sm_")}
    rows = [row for row in matrix.variants_of("torch") if str(row.version) == public and row.sass is not None]
    cuda = str(facts.get("cuda")).replace(".", "")
    rows = [row for row in rows if row.tag in {tag, f"cu{cuda}"}]
    if not rows or not held:
        return result("matrix: targets", "unknown", f"no row to compare torch {public} {tag} with")
    expected = [{target.sm for target in row.sass or ()} for row in rows]
    message = f"torch {public} {tag}: the build says {sorted(held)}, the rows {[sorted(each) for each in expected]}"
    return result("matrix: targets", "pass" if held in expected else "fail", message)


if __name__ == "__main__":
    sys.exit(main())
