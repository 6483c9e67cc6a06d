"""What a lock must hold before files are made from it: each mistake a sentence, all of them at once.

A lock is a file that people edit and pass around, so it is not trusted: what ends up in a file name, an option or a script is
checked here in the words of the user, before the quoting filters would refuse it in theirs.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING

from provisioner.decode import encode
from provisioner.errors import LockError
from provisioner.files.quoting import CONTROL
from provisioner.values import Problem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from provisioner.stack.lock import Lock, Pin
    from provisioner.stack.request import Job

# Debian Policy 5.6.1, with a version or an architecture after it.
_APT = re.compile(r"[a-z0-9][a-z0-9+.-]+(:[a-z0-9]+)?(=[A-Za-z0-9.+:~*-]+)?")
_ENV = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SECRET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_PIN_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?")
_PIN_VERSION = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+!_-]*")
_HASH = re.compile(r"sha(256:[0-9a-f]{64}|384:[0-9a-f]{96}|512:[0-9a-f]{128})")
_REFERENCE = re.compile(r"[a-z0-9][a-z0-9._:/-]*[a-z0-9]:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}(@sha256:[0-9a-f]{64})?")
# What names a file, an image or an index is one word: build tags, framework and index ids of the matrix look like this.
_ID = re.compile(r"[a-z0-9][a-z0-9._-]*(/[a-z0-9][a-z0-9._-]*)?")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def check_lock(lock: Lock, source: str = "stack.lock.yaml") -> None:
    """LockError with every mistake that would make a wrong file."""
    mistakes = [*_text(lock), *_ids(lock), *_image(lock), *_surroundings(lock), *_pins(lock)]
    for name, times in Counter(job.name.lower() for job in lock.jobs).items():
        if times > 1:
            mistakes.append(f"jobs: {times} of them are called {name}; each is a file of its own")
    has_gpus = lock.stack.cuda is not None
    for job in lock.jobs:
        mistakes.extend(f"jobs: {job.name[:64]!r}: {mistake}" for mistake in _job(job, has_gpus=has_gpus))
    if mistakes:
        raise LockError([Problem(file=source, message=mistake) for mistake in mistakes])


def _text(lock: Lock) -> Iterator[str]:
    # half of a surrogate pair: what a command line with broken bytes, or \ud800 in JSON, leaves in a text
    if re.search("[\ud800-\udfff]", json.dumps(encode(lock), ensure_ascii=False)):
        yield "a text in it is not Unicode, and no file can hold it"

    whole = encode(lock)
    # env, command and jobs are looked at by their own words below
    for name in ("generator", "matrix", "stack", "os", "project", "apt", "options"):
        for place, text in _texts(whole.get(name), name):
            if CONTROL.search(text):
                yield f"{place}: {text[:80]!r} has a line break, another control character or a mark of writing direction"


def _texts(entry: object, place: str) -> Iterator[tuple[str, str]]:
    """Every text of plain data, keys too, with its place."""
    if isinstance(entry, str):
        yield place, entry
    elif isinstance(entry, list):
        for index, item in enumerate(entry):
            yield from _texts(item, f"{place}[{index}]")
    elif isinstance(entry, dict):
        for key, item in entry.items():
            yield place, key
            yield from _texts(item, f"{place}.{key[:40]}")


def _ids(lock: Lock) -> Iterator[str]:
    stack = lock.stack
    named = {"framework": stack.framework, "variant": stack.variant, "index": stack.index}
    yield from (f"{name}: {text[:80]!r} is not a name" for name, text in named.items() if not _ID.fullmatch(text))
    yield from (
        f"pins: {pin.name[:80]}: {pin.index[:80]!r} is not the name of an index"
        for pin in lock.pins.packages
        if not _ID.fullmatch(pin.index)
    )
    if lock.project is not None and (not lock.project or lock.project.startswith("/") or ".." in lock.project.split("/")):
        yield f"project: {lock.project[:80]!r} is not a folder below the one where a build is started, and it goes into the image"


def _image(lock: Lock) -> Iterator[str]:
    for image in filter(None, (lock.stack.image, lock.stack.build_image)):
        if not _REFERENCE.fullmatch(image.reference):
            yield f"image: {image.reference[:120]!r} is not a reference with a tag (python:3.12-slim-bookworm)"
        if image.digest is not None and not _DIGEST.fullmatch(image.digest):
            yield f"image: {image.digest[:80]!r} is not a digest (sha256:…)"


def _surroundings(lock: Lock) -> Iterator[str]:
    yield from (
        f"apt: {package[:80]!r} is not the name of a Debian package" for package in lock.apt if not _APT.fullmatch(package)
    )
    for name, text in lock.env.items():
        if not _ENV.fullmatch(name):
            yield f"env: {name[:80]!r} is not the name of an environment variable"
        elif CONTROL.search(text):
            yield f"env: {name} has a line break, another control character or a mark of writing direction"
    yield from (
        f"secrets: {name[:80]!r} is not an id (letters, digits, . _ -)" for name in lock.secrets if not _SECRET.fullmatch(name)
    )
    yield from (f"command: {word[:80]!r} contains a NUL" for word in lock.command if "\0" in word)


def _pins(lock: Lock) -> Iterator[str]:
    for pin in lock.pins.packages:
        if not _PIN_NAME.fullmatch(pin.name) or not _PIN_VERSION.fullmatch(pin.version):
            yield f"pins: {pin.name[:80]!r} {pin.version[:80]!r} is not a package with its version"
        yield from (
            f"pins: {pin.name[:80]}: {entry[:80]!r} is not a hash (sha256:…)"
            for entry in pin.hashes
            if not _HASH.fullmatch(entry)
        )
    if lock.pins.hashed:
        yield from (f"pins: {pin.name} has no hash, and the lock says that all have" for pin in _bare(lock))


def _bare(lock: Lock) -> Iterator[Pin]:
    return (pin for pin in lock.pins.packages if not pin.hashes)


def _job(job: Job, *, has_gpus: bool) -> Iterator[str]:
    """What a job cannot know of itself: the stack that it runs, and what a script can hold. The rest `Job` refuses."""
    if job.gpus_per_node and not has_gpus:
        yield f"gpus_per_node: it asks for {job.gpus_per_node} GPUs, and the stack is a CPU build that would leave them idle"
    for name, texts in (("mounts", job.mounts), ("command", job.command)):
        yield from (f"{name}: {text[:80]!r} has a control character" for text in texts if CONTROL.search(text))
