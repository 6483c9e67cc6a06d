"""build and test: a rendered tree becomes an image on a host, and the image is proved there."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from pathlib import Path as FilePath
from typing import TYPE_CHECKING

import provisioner
from provisioner.engines import Network
from provisioner.files.site import is_loopback
from provisioner.report.answer import Answer, plain
from provisioner.values import replace, value

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from provisioner.commands import Runner
    from provisioner.engines import Engine, Image
    from provisioner.facts import HostFacts
    from provisioner.files.site import Site
    from provisioner.files.tree import Tree
    from provisioner.findings import CheckResult, Verdict
    from provisioner.stack.lock import Lock

    Tell = Callable[[str], None]

VALIDATION = "validation.json"
_ONE_AT_A_TIME = threading.Lock()


@value
class Proof:
    """How an image is built and tested. `user` is UID:GID in the container, None the image's own."""

    tag: str | None = None
    program: str = "docker"
    push: bool = False
    secrets: tuple[tuple[str, str], ...] = ()
    network: Network | None = None
    user: str | None = None
    level: int | None = None


def build_on(
    runner: Runner,
    context: Tree | Path,
    lock: Lock | None,
    site: Site,
    proof: Proof,
    *,
    tell: Tell | None = None,
) -> Image:
    """Build a tree, or the folder it was written to, with the engine of one host."""
    from provisioner.edges.engine import engine_on
    from provisioner.engines import BuildOptions
    from provisioner.errors import UsageError
    from provisioner.files.packages import context_folders
    from provisioner.proof.build import build, default_tag

    tag = proof.tag or (default_tag(lock) if lock else None)
    if tag is None:
        raise UsageError("the folder has no stack.lock.yaml, so the image has no name", hint="name it: --tag REF")
    folders = {name: FilePath(place) for name, place in context_folders(lock, site)} if lock else {}
    _refuse_without_wheels(context, folders)
    engine = engine_on(runner, proof.program)
    with contextlib.closing(engine):
        options = BuildOptions(
            secrets=_secrets(lock, site, proof),
            push=proof.push,
            network=proof.network or _needed_network(site),
            platform=lock.stack.platform if lock else None,
        )
        if lock:
            _refuse_without_images(engine, lock, site)
        return build(context, engine, tag, options, folders=folders, tell=tell)


def _refuse_without_wheels(context: Tree | Path, folders: Mapping[str, Path]) -> None:
    """UsageError for a tree that mounts a folder of wheels, where no site says which: BuildKit would only miss /wheels."""
    from provisioner.errors import UsageError
    from provisioner.files.packages import WHEELS

    if not isinstance(context, FilePath) or any(name.partition("/")[0] == WHEELS for name in folders):
        return
    if (context / WHEELS).is_dir():  # somebody put it there
        return
    try:
        text = (context / "Dockerfile").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return  # what reads the context says what is wrong with it
    if f"--mount=type=bind,source={WHEELS}," in text:
        raise UsageError(
            f"{context} was rendered with a folder of wheels, and no site says where it is",
            hint="give the site file that it was rendered with: --site FILE",
        )


def _refuse_without_images(engine: Engine, lock: Lock, site: Site) -> None:
    """EngineError where the site asks no registry for an image, and the engine does not have it: nothing could fetch it."""
    from provisioner.errors import EngineError
    from provisioner.files.mirror_items import archive_name
    from provisioner.files.site import is_loaded

    for image in filter(None, (lock.stack.image, lock.stack.build_image)):
        if is_loaded(site, image.reference) and engine.inspect(image.reference) is None:
            raise EngineError(
                f"{engine.host} has no {image.reference}, and the site names no registry",
                hint=f"load it there: docker load --input {archive_name(image.reference)} (of the mirror's folder)",
            )


def _needed_network(site: Site) -> Network | None:
    """The host's own network where the site has an address on loopback, which no other reaches; else the engine's choice."""
    addresses = (*site.indexes.values(), *site.wheels, *filter(None, (site.proxies.http, site.proxies.https)))
    return "host" if any(is_loopback(address) for address in addresses) else None


def _secrets(lock: Lock | None, site: Site, proof: Proof) -> dict[str, str]:
    """The content of each secret of the build: from the file that was named on this machine, else from the variable of its name.

    They travel to the engine's host with the context and are written nowhere.
    """
    from provisioner.errors import UsageError
    from provisioner.files.packages import build_secrets

    given = {name: _secret_text(name, FilePath(path)) for name, path in proof.secrets}
    for name in build_secrets(lock, site) if lock else ():
        if name not in given and not os.environ.get(name):
            hint = f"set the variable {name}, or name a file: --secret {name}=FILE"
            raise UsageError(f"the build needs the secret {name}, and neither a file nor a variable holds it", hint=hint)
        given.setdefault(name, os.environ.get(name, ""))
    return given


def _secret_text(name: str, path: FilePath) -> str:
    from provisioner.errors import UsageError

    try:
        return path.expanduser().read_text(encoding="utf-8")
    except OSError as failure:
        raise UsageError(f"the secret {name}: {path} cannot be read: {(failure.strerror or str(failure)).lower()}") from failure
    except UnicodeDecodeError as failure:
        raise UsageError(f"the secret {name}: {path} is not UTF-8 text") from failure


def prove_on(
    runner: Runner,
    image: str,
    lock: Lock | None,
    facts: HostFacts | None,
    proof: Proof,
    *,
    tell: Tell | None = None,
) -> tuple[CheckResult, ...]:
    """Run the smoke test in a container of `image` on one host. An image without a lock is told nothing of what to expect."""
    from provisioner.edges.engine import engine_on
    from provisioner.engines import RunOptions
    from provisioner.files.render import expected_text
    from provisioner.proof.smoke import Foreign, gpu_access, launch_for, smoke, smoke_script

    launch = launch_for(lock, facts) if lock else RunOptions(gpus=gpu_access(facts))
    launch = replace(launch, user=proof.user)
    foreign = Foreign(script=smoke_script(_script_of(lock)), expected=expected_text(lock) if lock else "{}")
    with contextlib.closing(engine_on(runner, proof.program)) as engine:
        return smoke(image, engine, launch, lock, level=proof.level, foreign=foreign, tell=tell)


def _script_of(lock: Lock | None) -> str:
    """The smoke script of the lock's framework; of an image that says nothing, that of the one most are made for."""
    from provisioner.stack.compiled import shipped_matrix

    framework = shipped_matrix().framework(lock.stack.framework) if lock else None
    return framework.smoke if framework else "torch.py"


def checks_answer(checks: Sequence[CheckResult]) -> Answer:
    """Check results as an answer: a failure is a fault, what could not be looked at is unknown, and never ok."""
    findings = tuple(check.finding for check in checks if check.finding)
    statuses = {check.status for check in checks}
    verdict: Verdict
    if statuses & {"fail", "warn"}:
        verdict = "fault"
    elif "unknown" in statuses or not statuses & {"pass"}:
        verdict = "unknown"
    else:
        verdict = "ok"
    return Answer(verdict=verdict, findings=findings, fields={"checks": list(checks)})


def lock_beside(folder: Path) -> Lock | None:
    """The lock of a rendered tree, or None for a folder that is not one."""
    from provisioner.flows.files import read_lock_file

    return read_lock_file(folder) if (folder / "stack.lock.yaml").is_file() else None


def keep_validation(folder: Path, lock: Lock, entry: dict[str, object]) -> None:
    """Add one result to validation.json beside the tree: what validated it, with which tool, and what came out.

    A file for another lock is begun anew: its results say nothing about this one. A newer result of the same verb on the same
    host takes the place of the older one.
    """
    from provisioner.flows.output import write_file
    from provisioner.stack.lock import lock_hash

    path = folder / VALIDATION
    named = f"sha256:{lock_hash(lock)}"
    new = {"tool": f"provisioner {provisioner.__version__}", **plain(entry)}
    with _ONE_AT_A_TIME:  # several hosts end at once
        kept = [
            result for result in _results(path, named) if (result.get("by"), result.get("host")) != (entry["by"], entry["host"])
        ]
        whole = {"format": 1, "lock": named, "results": [*kept, new]}
        write_file(path, json.dumps(whole, ensure_ascii=False, indent=2) + "\n", force=True)


def _results(path: Path, lock: str) -> list[dict[str, object]]:
    """The results that stand in `path` for the same lock; none where it is not a file of ours."""
    try:
        whole = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    if not isinstance(whole, dict) or whole.get("lock") != lock or not isinstance(whole.get("results"), list):
        return []
    return [result for result in whole["results"] if isinstance(result, dict)]
