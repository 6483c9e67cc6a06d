"""The smoke test: a script runs in a container of the image, prints one marked line of JSON, and that becomes check results.

The script is `templates/smoke/<framework>.py`. Our images carry it; into others it is fed on standard input, so nothing has to be
mounted. Whatever keeps it from answering is a result too: an engine without the GPU hook is a fault with a name, a script that
never answered is unknown, and neither is ever a pass.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, get_args

from provisioner.engines import NOT_STARTED, Gpus, RunOptions
from provisioner.errors import CommandTimedOut
from provisioner.findings import CheckResult, Evidence, Layer, Remedy, Status
from provisioner.knowledge.registry import finding
from provisioner.knowledge.said import smoke_words
from provisioner.resources import resource
from provisioner.values import replace, value
from provisioner.versions import Range, Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.commands import Completed
    from provisioner.engines import Engine, Tell
    from provisioner.facts import HostFacts
    from provisioner.findings import Finding
    from provisioner.stack.lock import Lock

MARK = "PROVISIONER-SMOKE "
#: Where our images carry the script.
SCRIPT = "/opt/provisioner/smoke.py"
#: The label by which an image of ours is known, and with it that it carries the script.
LABEL = "io.gpu-provisioner.lock-sha256"
#: The last level that needs no GPU.
BUILD_LEVEL = 2
_TEXT = 2000  # characters of one message or piece of evidence; a container can print anything
_CHECKS = 200
_SIGNALS = 128  # a shell's code for "ended by signal N" is this plus N
_KILLED = 137
_CDI_ENGINE = Range(">=25")  # Docker passes CDI devices from 25 on
#: Checks that every answer has, whatever they say, where their level is run.
_ALWAYS: Mapping[str, int] = {"import": 1, "driver": 3, "kernel": 4, "matmul": 5}
_LAYERS: Mapping[int, Layer] = {0: "library", 1: "library", 2: "library", 3: "driver", 4: "driver"}


def smoke(
    image: str,
    engine: Engine,
    launch: RunOptions,
    lock: Lock | None = None,
    *,
    level: int | None = None,
    foreign: Foreign | None = None,
    tell: Tell | None = None,
) -> tuple[CheckResult, ...]:
    """Run the smoke test in a container of `image`; the results, at least one.

    `level` is the highest level to run, None for all. `foreign` is what an image is given that does not carry our script.
    EngineError and HostError are raised when there is no engine, no image or no connection.
    """
    if foreign is not None and (facts := engine.inspect(image)) is not None and LABEL in facts.labels:
        foreign = None
    without = lock is not None and lock.stack.cuda is not None and launch.gpus == "none"
    if without:
        level = BUILD_LEVEL if level is None else min(level, BUILD_LEVEL)
    argv = ["python3", SCRIPT] if foreign is None else ["python3", "-", "--expect", foreign.expected]
    argv += ["--level", str(level)] if level is not None else []
    launch = replace(launch, stdin=foreign.script if foreign else b"")
    try:
        done = engine.run(image, tuple(argv), launch, tell=tell)
    except CommandTimedOut as failure:
        return (_result("smoke", "unknown", "smoke-timed-out", failure.message, remedy=failure.hint),)
    results = judge(done)
    results += _left_out(results, level)
    if without:
        why = "the stack needs a GPU, and the container was given none: it was not tried on one"
        results += (
            _result("gpu", "unknown", "smoke-without-gpu", why, remedy="test it on a host with GPUs: provisioner test --on HOST"),
        )
    return results


@value
class Foreign:
    """What an image without our script needs: the script, and as JSON what it must find (`{}`: nothing is expected)."""

    script: bytes
    expected: str = "{}"


def smoke_script(name: str) -> bytes:
    """The shipped smoke script of a framework; `name` is the row's `smoke`, such as torch.py."""
    return resource("templates", "smoke", name).read_bytes()


def launch_for(lock: Lock, facts: HostFacts | None = None) -> RunOptions:
    """How the lock's image is run on a host: with its GPUs where the stack uses them and the host has any."""
    return RunOptions(gpus=gpu_access(facts) if lock.stack.cuda is not None else "none")


def gpu_access(facts: HostFacts | None) -> Gpus:
    """How a container gets the GPUs of a host: by CDI where engine and specification are there, else by the runtime hook.

    A host that is known to have no GPU gets none. What is not known leads to the hook: the engine then says what is missing.
    """
    if facts is None:
        return "gpus"
    if facts.gpus.known and not facts.gpus.found and not facts.pci.or_none():
        return "none"
    engine = facts.engine.or_none()
    has_cdi = "nvidia.com/gpu=all" in (facts.cdi.or_none() or ())
    if engine is not None and has_cdi and engine.cdi_folders and Version(engine.version) in _CDI_ENGINE:
        return "cdi"
    return "gpus"


def judge(done: Completed) -> tuple[CheckResult, ...]:
    """What a run of the script says, whatever it did. Pure."""
    answer = _answer(done.stdout)
    if answer is None:
        return (_silence(done),)
    checks = answer.get("checks")
    if not isinstance(checks, list) or not checks:
        return (
            _result(
                "smoke", "unknown", "smoke-no-answer", "the smoke script answered without a single check", evidence=_end(done)
            ),
        )
    results = tuple(_check(entry) for entry in checks[:_CHECKS])
    if done.exit >= _SIGNALS and all(result.status in {"pass", "skip"} for result in results):
        message = f"every check passed, and then the process crashed ({_how(done.exit)})"
        return (*results, _result("smoke", "fail", "smoke-crashed", message, evidence=_end(done)))
    if done.exit and all(result.status != "fail" for result in results):  # our script ends so only where a check failed
        message = f"no check failed, and the smoke test ended with {done.exit}: one of them is not true"
        return (*results, _result("smoke", "unknown", "smoke-no-answer", message, evidence=_end(done)))
    return results


def _left_out(results: Sequence[CheckResult], level: int | None) -> tuple[CheckResult, ...]:
    """A result for what an answer leaves out: an image can print one marked line of its own, and that is not a proof."""
    names = {result.name for result in results}
    if names <= {"smoke", "container"}:
        return ()
    missing = [name for name, at in _ALWAYS.items() if name not in names and (level is None or at <= level)]
    if not missing:
        return ()
    message = f"the answer says nothing of {', '.join(missing)}: it is not the whole answer of the smoke script"
    return (_result("smoke", "unknown", "smoke-no-answer", message),)


def _answer(output: str) -> Mapping[str, Any] | None:
    """The object of the last marked line; None when there is none or it is cut."""
    for line in reversed(output.splitlines()):
        if line.startswith(MARK):
            try:
                answer = json.loads(line.removeprefix(MARK))
            except (ValueError, RecursionError):
                return None
            return answer if isinstance(answer, dict) else None
    return None


def _check(entry: object) -> CheckResult:
    if not isinstance(entry, Mapping) or entry.get("status") not in get_args(Status):
        return _result(
            "smoke", "unknown", "smoke-no-answer", "a check of the smoke script's answer cannot be read", evidence=_plain(entry)
        )
    level = entry.get("level")
    status: Status = entry["status"]
    message = _plain(entry.get("message") or "")
    name = _plain(entry.get("name") or "smoke", 80)
    return CheckResult(
        name=name,
        layer=_LAYERS.get(level, "code") if isinstance(level, int) else "code",
        status=status,
        message=message,
        evidence=_plain(entry.get("evidence") or ""),
        finding=_fault(name, message) if status == "fail" else None,
    )


def _fault(name: str, message: str) -> Finding:
    for row in smoke_words().run:
        if re.search(row.pattern, message):
            return finding(row.id, message, remedies=[Remedy(text=row.remedy)])
    return finding("smoke-failed", f"{name}: {message}")


def _silence(done: Completed) -> CheckResult:
    """What it means that the script did not answer."""
    said = f"{done.stderr}\n{done.stdout}"
    if done.exit in {NOT_STARTED, 126, 127}:
        for row in smoke_words().start:
            if found := re.search(rf"^.*(?:{row.pattern}).*$", said, re.MULTILINE):
                return _result("container", "fail", row.id, row.message, evidence=found.group(), remedy=row.remedy)
        if re.search(r'exec: "python3"', said):
            message = "the image has no python3 on its PATH, so nothing could be tried in it"
            return _result("container", "unknown", "smoke-no-answer", message, evidence=_end(done))
        return _result("container", "unknown", "container-not-started", "the container did not start", evidence=_end(done))
    if done.exit == _KILLED:
        message = "the smoke test was killed (exit 137), most often because memory ran out"
        remedy = "give the container more memory; the kernel log of the host says who was killed (dmesg)"
        return _result("smoke", "fail", "smoke-killed", message, evidence=_end(done), remedy=remedy)
    if done.exit > _SIGNALS:
        return _result("smoke", "fail", "smoke-crashed", f"the smoke test crashed ({_how(done.exit)})", evidence=_end(done))
    message = f"the smoke script gave no answer that can be read (exit {done.exit})"
    return _result("smoke", "unknown", "smoke-no-answer", message, evidence=_end(done))


def _result(name: str, status: Status, id_: str, message: str, *, evidence: str = "", remedy: str | None = None) -> CheckResult:
    message, evidence = _plain(message), _plain(evidence)
    shown: Sequence[Evidence] = [Evidence(text=evidence)] if evidence else []
    remedies = [Remedy(text=remedy)] if remedy else []
    return CheckResult(
        name=name,
        layer="container",
        status=status,
        message=message,
        evidence=evidence,
        finding=finding(id_, message, evidence=shown, remedies=remedies),
    )


def _how(code: int) -> str:
    names = {134: "SIGABRT", 135: "SIGBUS", 136: "SIGFPE", 137: "SIGKILL", 139: "SIGSEGV", 143: "SIGTERM"}
    return f"exit {code}, {names[code]}" if code in names else f"exit {code}"


def _end(done: Completed) -> str:
    """The last lines of what was printed: errors first, they say more."""
    text = done.stderr.strip() or done.stdout.strip()
    return "\n".join(text.splitlines()[-15:])


def _plain(thing: object, limit: int = _TEXT) -> str:
    """A text that is safe on a terminal: what a container prints is not trusted."""
    text = thing if isinstance(thing, str) else str(thing)
    kept = "".join(
        character if character.isprintable() or character in "\n\t" else "\N{REPLACEMENT CHARACTER}" for character in text
    )
    return kept if len(kept) <= limit else f"{kept[:limit]}…"
