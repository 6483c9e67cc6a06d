"""Each layer imports only to its right: cli → flows → report → doctor, proof → hosts, files → knowledge → stack → ground floor.

The edges stand beside it: they import the ground floor only, and only flows hands them in.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "provisioner"
#: From left to right; wings of one rank do not import each other.
RANKS = ({"cli"}, {"flows"}, {"report"}, {"doctor", "proof"}, {"hosts", "files"}, {"knowledge"}, {"stack"})
#: Folders of the ground floor.
GROUND = {"facts"}
#: What only edges may import, wherever the import stands.
IMPURE = {"docker", "fabric", "invoke", "paramiko", "pynvml", "requests", "socket", "subprocess", "urllib", "pypi_simple", "uv"}
#: What costs tens of milliseconds at every start.
HEAVY = {"docker", "fabric", "jinja2", "rich"}
MODULES = sorted(PACKAGE.rglob("*.py"))


def _wing(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 and parts[0] not in GROUND else "ground"


def _imports(path: Path) -> list[tuple[str, bool]]:
    """Each imported module by its dotted name, and whether the import runs when the module is loaded."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    late = {id(node) for outer in ast.walk(tree) if isinstance(outer, ast.FunctionDef) for node in ast.walk(outer)}
    typed = [outer for outer in ast.walk(tree) if isinstance(outer, ast.If) and "TYPE_CHECKING" in ast.unparse(outer.test)]
    late |= {id(node) for outer in typed for node in ast.walk(outer)}
    found: list[tuple[str, bool]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(alias.name, id(node) not in late) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import hides where it points"
            found.append((node.module or "", id(node) not in late))
    return found


def _rank(wing: str) -> int:
    return next((index for index, wings in enumerate(RANKS) if wing in wings), len(RANKS))


def _allowed(importer: str, imported: str) -> bool:
    if imported in {importer, "ground"}:
        return True
    if importer in {"ground", "edges"}:
        return False
    if imported == "edges":
        return importer == "flows"  # the core takes a Runner or an Engine; flows hands them in
    return _rank(importer) < _rank(imported)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_only_to_its_right(path: Path) -> None:
    importer = _wing(path)
    for name, _ in _imports(path):
        if not name.startswith("provisioner.") or (importer == "ground" and path.name == "__main__.py"):
            continue
        imported = name.split(".")[1]
        imported = imported if (PACKAGE / imported).is_dir() and imported not in GROUND else "ground"
        assert _allowed(importer, imported), f"{importer} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_only_edges_touch_the_world_and_nothing_heavy_is_loaded_at_start(path: Path) -> None:
    for name, at_load in _imports(path):
        top = name.split(".")[0]
        assert top not in IMPURE or _wing(path) == "edges", f"{path.name} imports {name}"
        assert top not in HEAVY or not at_load, f"{path.name} loads {name} at start"


def test_help_loads_nothing_heavy() -> None:
    script = (
        "import sys; from provisioner.cli import run; code = run(['--help']);"
        "heavy = sorted({'docker', 'fabric', 'jinja2', 'rich', 'paramiko', 'yaml'} & set(sys.modules));"
        "print('HEAVY', heavy, file=sys.stderr); sys.exit(code or bool(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for verb in ("resolve", "render", "up"):
        assert verb in done.stdout


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_grows_past_what_can_be_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, "split it"
