"""From a tree to an image: the context is packed and an engine builds it, here or on a host."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.engines import BuildOptions
from provisioner.files.image_view import image_name
from provisioner.proof.context import pack

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from provisioner.engines import Engine, Image, Tell
    from provisioner.files.tree import Tree
    from provisioner.stack.lock import Lock

_OPTIONS = BuildOptions()


def build(
    context: Tree | Path,
    engine: Engine,
    tag: str,
    options: BuildOptions = _OPTIONS,
    *,
    folders: Mapping[str, Path] | None = None,
    tell: Tell | None = None,
) -> Image:
    """Build the Dockerfile of `context`, a tree or the folder that it was written to, and name the image `tag`.

    `folders` are further folders by their name in the context (`files.image_view.context_folders`). EngineMissing and BuildFailed
    as in `engines.Engine.build`; UsageError for what cannot be a context.
    """
    return engine.build(pack(context, folders), tag, options, tell=tell)


def default_tag(lock: Lock) -> str:
    """What the image of a lock is called when nobody says: its stack, in a name that no registry has."""
    return f"{image_name(lock.stack)}:provisioned"
