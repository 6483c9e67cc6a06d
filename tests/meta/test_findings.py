"""Every finding that the code can make has a row in the registry, and every row is made somewhere."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from provisioner.knowledge.registry import registry
from provisioner.knowledge.said import smoke_words

PACKAGE = Path(__file__).parents[2] / "provisioner"
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)+")


def _strings() -> set[str]:
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
        found |= {text for text in constants if isinstance(text, str)}
    return found


def _made() -> set[str]:
    """Ids in the places where a finding is made: `finding="…"`, `finding("…")`, `refuse(rule, "…")`."""
    found: set[str] = set()
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            position = {"finding": 0, "refuse": 1}.get(name)
            arguments = [node.args[position]] if position is not None and len(node.args) > position else []
            arguments += [keyword.value for keyword in node.keywords if keyword.arg == "finding"]
            found |= {
                argument.value for argument in arguments if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
            }
    return {text for text in found if _ID.fullmatch(text)}


def _said() -> set[str]:
    """Ids that the smoke test takes from what engines and frameworks say."""
    return {row.id for row in (*smoke_words().start, *smoke_words().run)}


def test_every_finding_that_is_made_has_a_row() -> None:
    assert (_made() | _said()) - set(registry()) == set()


def test_every_row_is_made_somewhere() -> None:
    assert set(registry()) - _strings() - _said() == set()


def test_ids_are_kebab_case_and_rows_say_where_they_come_from() -> None:
    for row in registry().values():
        assert _ID.fullmatch(row.id)
        assert row.means.endswith(".")
        assert row.source
