"""No fact stands in the code of the stack: no framework, no GPU, no version. Facts are rows."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import pytest

import provisioner.stack
from provisioner.resources import resource
from provisioner.stack.compiled import shipped_matrix

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

MATRIX = shipped_matrix()
FOLDER = resource("provisioner", "stack")
MODULES = sorted(FOLDER.glob("*.py"))

NAMES = {name.lower() for row in MATRIX.frameworks for name in (row.id, row.name, *row.companions)}
GPUS = {name.lower() for row in MATRIX.gpus for name in (row.name, *row.aliases)}
VERSIONS = {
    *(str(version) for row in MATRIX.variants for version in (row.version, row.cuda, row.cudnn, row.nccl) if version),
    *(python for row in MATRIX.variants for python in row.pythons),
    *(str(version) for row in MATRIX.cuda for version in (row.version, row.native_driver, row.min_driver) if version),
    *(str(version) for row in MATRIX.drivers for version in (row.branch, row.first, row.latest, row.max_cuda) if version),
    *(row.tag for row in MATRIX.variants if row.tag != "cpu"),
    *(row.id for row in MATRIX.systems),
}


def constants(path: Path) -> Iterator[tuple[int, str]]:
    """Every string constant of a module that is no docstring, with its line."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and isinstance(node.body[0].value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


def facts_in(text: str) -> set[str]:
    """The framework names, GPU names and versions that stand in `text` as words."""
    words = set(re.findall(r"[a-z0-9]+(?:[._-][a-z0-9]+)*", text.lower()))
    return (words & NAMES) | (words & VERSIONS) | ({text.lower()} & GPUS)


def test_the_search_finds_facts() -> None:
    assert facts_in("take torch 2.9.1") == {"torch", "2.9.1"}
    assert facts_in("NVIDIA B200") == {"nvidia b200"}
    assert facts_in("from driver 580 on") == {"580"}
    assert facts_in("build cu128") == {"cu128"}
    assert facts_in("nothing of the kind (222)") == set()


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.name)
def test_no_fact_stands_in_a_module(path: Path) -> None:
    assert [(line, found) for line, text in constants(path) if (found := facts_in(text))] == []


def test_every_module_is_looked_at() -> None:
    assert len(MODULES) > 10
    assert provisioner.stack.__file__ is not None
    assert FOLDER.samefile(provisioner.stack.__path__[0])
