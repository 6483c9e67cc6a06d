"""One thing on each of several hosts: reached, done, answered; what went wrong on one does not hide the others."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from provisioner.errors import ProvisionerError
from provisioner.report.answer import Answer, of_error, worst
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from provisioner.commands import Runner
    from provisioner.hosts.inventory import Target

    Tell = Callable[[str], None]

T = TypeVar("T")

#: Hosts at once: enough to hide their slowness, few enough for one jump host's sessions (sshd's MaxSessions is 10).
_AT_ONCE = 8


@value
class Reach:
    """How hosts are reached: the options that every verb has. `said` gets what a person must know of it."""

    inventory: Path | None = None
    ssh_config: Path | None = None
    known_hosts: Path | None = None
    accept_new_host_keys: bool = False
    fingerprints: Path | None = None
    said: Tell | None = None


@value
class Host:
    """A host that was named, its runner, and where its progress goes."""

    name: str
    runner: Runner
    recording: bool = False
    tell: Tell | None = None


def targets(names: Sequence[str], reach: Reach) -> tuple[Target, ...]:
    """The hosts that `names` mean: names, groups and ranges of the inventory, names of ~/.ssh/config, addresses, recordings."""
    from provisioner.edges.ssh_config import names_host
    from provisioner.hosts.inventory import expand, load_inventory
    from provisioner.resources import config_folder

    path = reach.inventory
    if path is None and (config_folder() / "hosts.yaml").is_file():
        path = config_folder() / "hosts.yaml"
    return expand(names, load_inventory(path) if path else None, known=lambda name: names_host(reach.ssh_config, name))


def runner_of(target: Target, reach: Reach) -> Runner:
    """The runner of a target; nothing is opened yet."""
    if target.kind == "local":
        from provisioner.edges.local import LocalRunner

        return LocalRunner(target.name)
    if target.kind == "replay":
        from provisioner.hosts.recording import ReplayRunner, find_recording

        return ReplayRunner(find_recording(target.folder or ""), host=target.name)
    from provisioner.edges.ssh import SshOptions, SshRunner

    options = SshOptions(
        config=reach.ssh_config,
        known_hosts=reach.known_hosts,
        accept_new_host_keys=reach.accept_new_host_keys,
        fingerprints=reach.fingerprints,
        said=reach.said,
    )
    return SshRunner(target.name, target.ssh, options)


def host_of(target: Target, reach: Reach, tell: Callable[[str, str], None] | None) -> Host:
    """The host of a target; `tell` gets (host, line)."""
    own = (lambda line: tell(target.name, line)) if tell else None
    return Host(name=target.name, runner=runner_of(target, reach), recording=target.kind == "replay", tell=own)


def on_each(
    names: Sequence[str],
    reach: Reach,
    one: Callable[[Host], Answer],
    *,
    tell: Callable[[str, str], None] | None = None,
) -> dict[str, Answer]:
    """Do `one` on each host that `names` mean; the answers in that order. `tell` gets (host, line).

    An error of one host is its answer. Whatever happens, every connection is closed.
    """
    found = targets(names, reach)

    def run(host: Host) -> Answer:
        try:
            return one(host)
        except ProvisionerError as error:
            return of_error(error)
        finally:
            host.runner.close()

    hosts = tuple(host_of(target, reach, tell) for target in found)
    return dict(zip((host.name for host in hosts), at_once(hosts, run), strict=True))


def at_once(hosts: Sequence[Host], work: Callable[[Host], T]) -> list[T]:
    """`work` on each host at once; the results in that order, or the first error when all have ended.

    An interrupt ends what runs on every host before it goes on: nothing is left running anywhere.
    """
    if len(hosts) == 1:
        return [work(hosts[0])]  # in this thread, which is the one that an interrupt reaches
    with ThreadPoolExecutor(max_workers=max(1, min(_AT_ONCE, len(hosts)))) as pool:
        futures = [pool.submit(work, host) for host in hosts]
        try:
            wait(futures)
        except BaseException:
            for future in futures:
                future.cancel()
            for host in hosts:
                host.runner.close()
            raise
    return [future.result() for future in futures]


def together(answers: dict[str, Answer]) -> Answer:
    """The answers of all hosts as one: `hosts`, the worst verdict, the first exit of the contract's order.

    What a single host says stands at the top too.
    """
    verdict, code = worst(answers)
    hosts = [_host(name, answer) for name, answer in answers.items()]
    findings = tuple(finding for answer in answers.values() for finding in answer.findings)
    only = next(iter(answers.values())).fields if len(answers) == 1 else {}
    return Answer(verdict=verdict, exit=code, findings=findings, fields={"hosts": hosts, **only})


def _host(name: str, answer: Answer) -> dict[str, object]:
    own = {"host": name, "verdict": answer.verdict, "exit": answer.code, "error": None, "findings": answer.findings, "checks": []}
    return {**own, **answer.fields, "host": name}
