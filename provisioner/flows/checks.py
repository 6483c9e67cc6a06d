"""Whether a host is what the request says it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from provisioner.facts import HostFacts
    from provisioner.findings import Finding
    from provisioner.stack.lock import Stack


def differences(stack: Stack, facts: HostFacts, drivers: Collection[str] = ()) -> Iterator[Finding]:
    """What a host says that does not agree with the stack's GPUs and driver; a fact that was not seen is said.

    `drivers` are those of a pool's members, where a host may have any of them; empty: the stack's own.
    """
    from provisioner.knowledge.registry import finding
    from provisioner.stack.gpus import Capability

    if not stack.capabilities:
        return
    if not facts.gpus.known:
        yield finding("host-fact-unseen", f"{facts.host}: which GPUs it has was not seen: {facts.gpus.why_not}")
        return
    wanted = {(capability.major, capability.minor) for capability in stack.capabilities}
    for gpu in facts.gpus.found:
        if gpu.capability is None:
            continue
        capability = Capability.parse(gpu.capability)
        if (capability.major, capability.minor) not in wanted:
            asked = ", ".join(stack.gpus) or ", ".join(target.sm for target in stack.capabilities)
            yield finding(
                "host-differs-from-request", f"{facts.host} has {gpu.name} ({capability.sm}), the request is for {asked}"
            )
    if not facts.gpus.found:
        yield finding("host-differs-from-request", f"{facts.host} shows no GPU, the request is for {', '.join(stack.gpus)}")
    driver = facts.driver.or_none()
    asked_drivers = sorted(drivers) or [stack.driver]
    if driver and not any(one in {"any", "upgrade"} or driver.version.startswith(one) for one in asked_drivers):
        message = f"{facts.host} has driver {driver.version}, the request is for {' or '.join(asked_drivers)}"
        yield finding("host-differs-from-request", message)
