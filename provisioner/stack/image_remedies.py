"""What helps where an image by itself does not run: another one of its kind, older or newer, proved by deciding again."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.stack.asked import Asked
    from provisioner.stack.rows import ImageRow
    from provisioner.versions import Version

    #: One change and the sentence that says what to do.
    Proposal = tuple[dict[str, str], str]


def older_images(asked: Asked) -> Iterator[Proposal]:
    """The same image with an older CUDA, the newest first: for a GPU that the CUDA dropped, or a driver that is too old."""
    row = asked.image
    if row is not None and row.cuda is not None and asked.wants.framework is None:
        yield from _said((cuda, name) for cuda, name in reversed(_alike(asked, row)) if cuda < row.cuda)


def newer_images(asked: Asked) -> Iterator[Proposal]:
    """The same image with a newer CUDA, the oldest first: for a GPU that came later."""
    row = asked.image
    if row is not None and row.cuda is not None and asked.wants.framework is None:
        yield from _said((cuda, name) for cuda, name in _alike(asked, row) if cuda > row.cuda)


def _said(found: Iterator[tuple[Version, str]]) -> Iterator[Proposal]:
    for cuda, name in found:
        yield {"image": name}, f"the image {name}, which has CUDA {cuda}"


def _alike(asked: Asked, row: ImageRow) -> list[tuple[Version, str]]:
    """CUDA and reference of the images of the same repository, system and flavour; of a container its other releases."""
    head, _, tag = (asked.request.image or "").rpartition(":")
    flavour = asked.flavour or ""
    if not row.os:
        families = {head.rpartition("/")[2], *(each.family for each in asked.matrix.containers if each.cuda == row.cuda)}
        found = [
            (each.cuda, f"{head}:{re.sub(r'^[0-9.]+', each.release, tag)}")
            for each in asked.matrix.containers
            if each.family in families
        ]
    else:
        found = [
            (other.cuda, f"{other.repository}:{other.tags[flavour]}")
            for other in asked.matrix.images
            if other.cuda is not None and flavour in other.tags and (other.repository, other.os) == (row.repository, row.os)
        ]
    return sorted(found)
