"""The answer for a pool, as JSON data and as text: which stacks, who gets which, and what else it could have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provisioner.report import text
from provisioner.report.answer import plain
from provisioner.report.stack import stack_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.stack.answer import Alternative, Served, Share

_WHAT = {
    "newest-set": "the newest release for each member",
    "newest-single-stack": "one stack for all members",
    "driver-change": "one stack after a driver change",
}
_SHOWN = 8  # host names in one line


def shares_json(shares: Sequence[Share]) -> list[dict[str, Any]]:
    """`stacks` of the contract, with the members beside their GPUs and hosts."""
    return [
        {
            "stack": stack_json(share.stack),
            "gpus": list(share.stack.gpus),
            "hosts": [host for member in share.members for host in member.hosts],
            "members": plain(share.members),
        }
        for share in shares
    ]


def alternatives_json(found: Sequence[Alternative]) -> list[dict[str, Any]]:
    """`alternatives`: what it is, its stacks, its price in words, and the changes of the request that give it."""
    return [
        {"what": one.what, "stacks": shares_json(one.shares), "price": one.price, "changes": dict(one.changes)} for one in found
    ]


def pool(shares: Sequence[Share], others: Sequence[Alternative]) -> str:
    """Every stack with the members that get it, then the alternatives."""
    parts: list[str] = []
    for number, share in enumerate(shares, start=1):
        head = f"Stack {number} of {len(shares)}" if len(shares) > 1 else "One stack for all members"
        members = "".join(text.wrapped(_member(member), "  - ", "    ") for member in share.members)
        parts.append(f"{head}:\n{members}\n{text.stack(share.stack)}")
    if others:
        said = "".join(text.wrapped(f"{_WHAT[one.what]}: {one.price}", "  * ", "    ") for one in others)
        parts.append(f"Instead, at a price (each was resolved):\n{said}")
    return "\n".join(parts)


def _member(member: Served) -> str:
    """`train: 4 hosts (gpu01, …), NVIDIA A100, driver 535.261.03`, and where the driver may change, which one to install."""
    shown = ", ".join(member.hosts[:_SHOWN]) + (", …" if len(member.hosts) > _SHOWN else "")
    count = f"{member.count} host{'s' * (member.count > 1)}" if member.count else ""
    where = f"{count} ({shown})" if shown else count
    gpus = " and ".join(member.gpus)
    driver = "any driver that is new enough" if member.driver == "any" else f"driver {member.driver}"
    if member.driver == "upgrade" and member.driver_branch:
        driver = f"install driver branch {member.driver_branch} with the {' or '.join(member.kernel_modules)} kernel modules"
    return f"{member.name}: {', '.join(filter(None, (where, gpus, driver)))}"
