"""pyproject.toml: the project's dependencies, and the indexes that uv takes them from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from provisioner.files.importing.found import Notes, table, texts, toml

if TYPE_CHECKING:
    from provisioner.files.importing.found import Found

#: Tables of other tools that hold dependencies in a form of their own.
_OTHERS = (("tool", "poetry", "dependencies"), ("tool", "pdm", "dev-dependencies"), ("tool", "pixi", "dependencies"))


def read(file: str, text: str) -> Found:
    """What the project asks for; RequestError where the file is no TOML."""
    whole, notes = toml(text, file), Notes(file, text)
    project = table(whole, "project")
    for requirement in texts(project.get("dependencies")):
        notes.requirement(requirement, requirement)
    if isinstance(bounds := project.get("requires-python"), str):
        notes.python(bounds, "requires-python")
    if "dependencies" in (texts(project.get("dynamic"))):
        notes.say("its dependencies are made by its build (dynamic), so they are not here", "dynamic")
    extras = table(project, "optional-dependencies")
    if extras:
        notes.say(f"extras are not taken over: {', '.join(extras)}", "optional-dependencies")
    if groups := table(whole, "dependency-groups"):
        notes.say(f"dependency groups are not taken over: {', '.join(groups)}", "dependency-groups")
    for names in _OTHERS:
        if table(whole, *names):
            notes.say(f"[{'.'.join(names)}] is not read: only [project] is", f"[{'.'.join(names)}")
    _indexes(table(whole, "tool", "uv"), project, notes)
    return notes.found()


def _indexes(uv: Mapping[str, Any], project: Mapping[str, Any], notes: Notes) -> None:
    """The indexes that the sources name; those that nothing is taken from by name are the site's matter."""
    entries = uv.get("index")
    listed = [entry for entry in entries if isinstance(entry, Mapping)] if isinstance(entries, list) else []
    by_name = {str(entry.get("name")): str(entry.get("url")) for entry in listed}
    asked = {requirement.partition("[")[0].strip() for requirement in texts(project.get("dependencies"))}
    used: set[str] = set()
    for name, source in table(uv, "sources").items():
        for choice in source if isinstance(source, list) else [source]:
            if not isinstance(choice, Mapping):
                continue
            index, marker = choice.get("index"), choice.get("marker")
            if isinstance(index, str) and index in by_name:
                used.add(index)
                if marker and isinstance(source, list):
                    notes.say(f"{name} comes from several indexes by marker; nothing here decides: {index} where {marker}", index)
                    continue
                notes.index(by_name[index], by_name[index])
            else:
                place = ", ".join(key for key in choice if key != "marker")
                notes.say(f"{name} comes from elsewhere ({place}), which is not taken over", name)
    for name, address in by_name.items():
        if name not in used and asked:
            notes.index(address, address)
