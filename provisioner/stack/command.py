"""The one command to type for a stack."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provisioner.stack.lock import Stack
    from provisioner.stack.rows import Index


def install_command(stack: Stack, indexes: Iterable[Index], *, own: int | None = None) -> str:
    """What installs the packages of `stack` with pip, quoted for a shell.

    `own` counts the packages that come from the build's index, the framework and its companions; by default all. The others
    follow from the client's own index in a second step, which names the build again so that it is not replaced.
    """
    urls = {index.id: index.url for index in indexes}
    url = urls.get(stack.index)
    mine, others = (stack.packages, ()) if own is None else (stack.packages[:own], stack.packages[own:])
    if url is None:
        return shlex.join(["pip", "install", *stack.packages])
    first = shlex.join(["pip", "install", *mine, "--index-url", url])
    return f"{first} && {shlex.join(['pip', 'install', mine[0], *others])}" if others else first
