"""stack.lock.yaml: the same lock gives the same bytes, what was written is read, and what is wrong is said with its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provisioner.errors import LockError
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.lock import Lock, Pin, Pins, lock, lock_hash, lock_text, read_lock
from provisioner.stack.request import Job, Request
from provisioner.stack.resolve import resolve
from provisioner.values import replace

if TYPE_CHECKING:
    from pathlib import Path

MATRIX = shipped_matrix()
REQUEST = Request(
    packages=("torch==2.9.1", "torchvision", "numpy<3"),
    gpus=("h100", "a100-sxm4-80gb"),
    driver="535.183.01",
    apt=("git",),
    project=".",
    command=("python", "train.py"),
    env={"A": "1: #"},
    secrets=("token",),
    options={"dtype": "bfloat16"},
    jobs=(Job(command=("python", "train.py"), mounts=("/data:/data",)),),
)


def made() -> Lock:
    pins = Pins(packages=(Pin(name="torch", version="2.9.1", hashes=("sha256:ab",)),), hashed=True)
    return lock(resolve(REQUEST, MATRIX), REQUEST, pins, MATRIX)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "stack.lock.yaml"
    path.write_text(lock_text(made()), encoding="utf-8")
    assert read_lock(path) == made()


def test_the_same_lock_gives_the_same_bytes() -> None:
    assert lock_text(made()) == lock_text(made())
    assert lock_hash(made()) == lock_hash(made())
    assert lock_hash(made()) != lock_hash(replace(made(), project=None))
    assert len(lock_hash(made())) == 64


def test_it_says_its_format_its_matrix_and_carries_the_request_along() -> None:
    text = lock_text(made())
    assert text.startswith("format: 1\ngenerator: provisioner ")
    assert f"matrix: {MATRIX.sha256}" in text
    assert (made().jobs, made().env, made().apt, made().command) == (REQUEST.jobs, REQUEST.env, REQUEST.apt, REQUEST.command)


def test_it_holds_no_address() -> None:
    stack = made().stack
    assert stack.index == "pypi"
    elsewhere = resolve(replace(REQUEST, variant="cu126"), MATRIX)
    assert elsewhere.index == "pytorch/cu126"  # symbolic; site.yaml maps it


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "stack.lock.yaml"
    path.write_text("generator: provisioner 9\nformat: 2\nnew: true\n", encoding="utf-8")
    with pytest.raises(
        LockError, match=r"stack.lock.yaml:2:1: made by a newer provisioner \(format 2; this one reads format 1\)"
    ):
        read_lock(path)


def test_every_mistake_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "stack.lock.yaml"
    path.write_text("format: 1\ngenerator: x\nmatrix: y\nstak: {}\npins: {packages: 3}\n", encoding="utf-8")
    with pytest.raises(LockError) as caught:
        read_lock(path)
    said = [str(problem).removeprefix(str(path)) for problem in caught.value.problems]
    assert any(text.startswith(":4:1: unknown key stak; did you mean stack?") for text in said)
    assert any(text.startswith(":5:") and "must be a list" in text for text in said)
    with pytest.raises(LockError, match="no such file"):
        read_lock(tmp_path / "none.yaml")


def test_what_is_not_known_reaches_the_lock() -> None:
    request = replace(REQUEST, packages=("torch==2.9.1", "our-own-package"), driver="580.95.05", allow=("nothing-of-that-name",))
    stack = resolve(request, MATRIX)
    assert stack.notes == ("our-own-package is not in the data: it goes along as it is, and nothing here says whether it fits",)
    assert "our-own-package is not in the data" in lock_text(lock(stack, request, Pins(why_not="not asked for"), MATRIX))
