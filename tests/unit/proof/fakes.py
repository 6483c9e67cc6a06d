"""A lock, and an engine that answers what a test tells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.commands import Completed
from provisioner.engines import BuildOptions, Image, ImageFacts, RunOptions
from provisioner.stack.lock import Image as BaseImage
from provisioner.stack.lock import Lock, Pin, Pins, Stack
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provisioner.engines import Tell


def stack(*, cuda: str | None = "13.0", **changes: object) -> Stack:
    fields: dict[str, object] = {
        "framework": "torch",
        "version": Version("2.9.1"),
        "variant": "cu130" if cuda else "cpu",
        "index": "pytorch/cu130" if cuda else "pytorch/cpu",
        "published": "seen",
        "cuda": Version(cuda) if cuda else None,
        "python": "3.12",
        "platform": "linux/amd64",
        "image": BaseImage(reference="python:3.12-slim-bookworm", flavour="slim", os="debian12"),
        "compatibility": "native" if cuda else "none",
        "packages": ("torch==2.9.1",),
        "command": "pip install torch==2.9.1",
    }
    return Stack(**{**fields, **changes})  # type: ignore[arg-type]


def lock(*pins: Pin, cuda: str | None = "13.0", **changes: object) -> Lock:
    held = Pins(packages=pins, hashed=bool(pins), why_not=None if pins else "not asked for")
    fields: dict[str, object] = {"generator": "provisioner 0", "matrix": "0" * 64, "stack": stack(cuda=cuda), "pins": held}
    return Lock(**{**fields, **changes})  # type: ignore[arg-type]


class FakeEngine:
    """Answers every run with one value, and notes what it was asked."""

    host = "gpu01"

    def __init__(
        self,
        answer: Completed | Exception | None = None,
        images: tuple[str, ...] = (),
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.answer = answer or Completed(exit=0)
        self.images = set(images)
        self.labels = labels or {}
        self.asked: list[tuple[object, ...]] = []
        self.options = RunOptions()

    def build(self, context: bytes, tag: str, options: BuildOptions | None = None, *, tell: Tell | None = None) -> Image:
        self.asked.append(("build", context, tag, options, tell))
        return Image(reference=tag, id="sha256:1")

    def run(self, image: str, argv: tuple[str, ...], options: RunOptions | None = None, *, tell: Tell | None = None) -> Completed:
        self.asked.append(("run", image, argv, tell))
        self.options = options or self.options
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def inspect(self, image: str) -> ImageFacts | None:
        return ImageFacts(id="sha256:1", labels=self.labels) if image in self.images else None

    def pull(self, reference: str, *, tell: Tell | None = None) -> ImageFacts:
        self.asked.append(("pull", reference, tell is not None))
        if isinstance(self.answer, Exception):
            raise self.answer
        self.images.add(reference)
        return ImageFacts(id="sha256:1")

    def tag(self, image: str, reference: str) -> None:
        self.asked.append(("tag", image, reference))

    def save(self, reference: str, path: str) -> None:
        self.asked.append(("save", reference))
        with open(path, "w", encoding="utf-8") as stream:  # noqa: PTH123 - the path is a text, as the engine's host has it
            stream.write(reference)

    def remove(self, image: str) -> None:
        self.images.discard(image)

    def close(self) -> None:
        self.asked.append(("close",))
