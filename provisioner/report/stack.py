"""A stack as the contract names its keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from provisioner.report.answer import plain

if TYPE_CHECKING:
    from provisioner.stack.lock import Stack


def stack_json(stack: Stack) -> dict[str, Any]:
    """A stack as the contract names its keys: `image` is the reference, what is known of it stands in `base`."""
    whole: dict[str, Any] = plain(stack)
    whole["base"] = whole["image"]
    whole["image"] = stack.image.reference
    whole["sass"] = [target.sm for target in stack.sass]
    return whole
