"""The rows of smoke.yaml: what engines and frameworks say when the smoke test does not start, or fails."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Literal

from provisioner.decode import load
from provisioner.values import value


@value
class SaidRow:
    """What an engine or a framework says of one fault. `message` is ours, where theirs is not shown."""

    id: str
    pattern: str
    message: str = ""
    remedy: str


@value
class SmokeFile:
    """smoke.yaml: why a container with GPUs does not start, and why a step in it fails."""

    format: Literal[1]
    start: tuple[SaidRow, ...]
    run: tuple[SaidRow, ...]


@functools.cache
def smoke_words() -> SmokeFile:
    """What engines and frameworks say, first match first. DataError when the shipped file is wrong, which a test excludes."""
    return load(Path(__file__).with_name("smoke.yaml"), SmokeFile)
