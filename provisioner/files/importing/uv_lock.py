"""uv.lock: what the project itself asks for, at the versions that were locked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from provisioner.files.importing.found import Notes, table, toml

if TYPE_CHECKING:
    from provisioner.files.importing.found import Found

_OWN = ("virtual", "editable", "directory")


def read(file: str, text: str) -> Found:
    """The direct dependencies with their locked versions; RequestError where the file is no TOML."""
    whole, notes = toml(text, file), Notes(file, text)
    listed = whole.get("package")
    packages = [entry for entry in listed if isinstance(entry, Mapping)] if isinstance(listed, list) else []
    if isinstance(bounds := whole.get("requires-python"), str):
        notes.python(bounds, "requires-python")
    roots = [entry for entry in packages if any(kind in table(entry, "source") for kind in _OWN)]
    if not roots:
        notes.say("no project of its own is in it, so what is asked for is not known: give the pyproject.toml")
    for root in roots:
        wanted = root.get("dependencies")
        for dependency in wanted if isinstance(wanted, list) else ():
            if isinstance(dependency, Mapping):
                _locked(dependency, packages, roots, notes)
        if table(root, "optional-dependencies") or table(root, "dev-dependencies"):
            notes.say(f"extras and groups of {root.get('name')} are not taken over", "-dependencies]")
    return notes.found()


def _locked(
    dependency: Mapping[str, Any], packages: list[Mapping[str, Any]], roots: list[Mapping[str, Any]], notes: Notes
) -> None:
    name = str(dependency.get("name"))
    found = [entry for entry in packages if entry.get("name") == name and entry not in roots]
    if "version" in dependency:
        found = [entry for entry in found if entry.get("version") == dependency["version"]]
    versions = [str(entry.get("version")) for entry in found]
    place = f'name = "{name}"'
    if any(entry in roots for entry in packages if entry.get("name") == name):
        return  # another member of the workspace
    extras = dependency.get("extra")
    words = f"{name}[{','.join(map(str, extras))}]" if isinstance(extras, list) and extras else name
    if len(versions) != 1:
        notes.say(f"{name} is locked at {', '.join(versions) or 'no version'}, by platform; its version stays open", place)
        notes.requirement(words, place)
        return
    marker = dependency.get("marker")
    notes.requirement(f"{words}=={versions[0]}" + (f" ; {marker}" if marker else ""), place)
    if isinstance(registry := table(found[0], "source").get("registry"), str):
        notes.index(registry, place, quiet=True)
