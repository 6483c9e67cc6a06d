"""environment.yml and pixi.toml: conda's packages as far as they have wheels of a known name, and the pip packages beside them.

Conda builds are other files than wheels: the request asks for the wheels of the same release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

from provisioner.errors import RequestError
from provisioner.files.importing import requirements
from provisioner.files.importing.found import Notes, table, texts, toml

if TYPE_CHECKING:
    import yaml

    from provisioner.files.importing.found import Found

#: Conda's name → the distribution's.
_NAMES = {"pytorch": "torch", "pytorch-gpu": "torch", "tensorflow-gpu": "tensorflow"}
#: Packages that are parts of a stack: the answer has them, or brings them itself.
_PARTS = {"cudatoolkit", "cuda-toolkit", "cuda-version", "cuda", "cuda-runtime", "cudnn", "nccl"}
_TOOLS = {"pip", "setuptools", "wheel", "conda", "mamba"}
_SPEC = re.compile(r"(?:(?P<channel>[\w./-]+)::)?(?P<name>[A-Za-z0-9._-]+)\s*(?P<rest>.*)")
_ONE = r"(?:==|>=|<=|~=|!=|>|<|=)?\s*[0-9][A-Za-z0-9.*+!_-]*"
_BOUNDS = re.compile(rf"{_ONE}(?:\s*,\s*{_ONE})*")
#: A platform of conda → ours; the others run no container of ours.
_PLATFORMS = {"linux-64": "linux/amd64", "linux-aarch64": "linux/arm64"}


def read_environment(file: str, text: str) -> Found:
    """What an environment.yml asks for; RequestError with every place where it is no YAML of that form."""
    import yaml

    from provisioner.decode import Decoder

    decoder, notes = Decoder(file), Notes(file, text)
    node = decoder.compose(text)
    if node is not None and not isinstance(node, yaml.MappingNode):
        decoder.note(node, "an environment is a mapping with the key dependencies")
    entries: list[yaml.Node] = []
    for key, child in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value != "dependencies":
            continue
        if isinstance(child, yaml.SequenceNode):
            entries += child.value
        else:
            decoder.note(child, "dependencies must be a list")
    for entry in entries:
        line = entry.start_mark.line + 1
        if isinstance(entry, yaml.ScalarNode):
            _spec(entry.value, notes, line)
        elif not _pip_list(entry, notes):
            decoder.note(entry, "a dependency is a text, or pip: with a list of texts")
    if decoder.problems:
        raise RequestError(decoder.problems)
    return notes.found()


def _pip_list(entry: yaml.Node, notes: Notes) -> bool:
    """The packages under `pip:`; whether it has that form."""
    import yaml

    pairs = entry.value if isinstance(entry, yaml.MappingNode) else []
    if len(pairs) != 1 or pairs[0][0].value != "pip" or not isinstance(pairs[0][1], yaml.SequenceNode):
        return False
    lines = pairs[0][1].value
    for node in lines:
        if isinstance(node, yaml.ScalarNode):
            _pip(node.value, notes, node.start_mark.line + 1)
    return all(isinstance(node, yaml.ScalarNode) for node in lines)


def _pip(text: str, notes: Notes, line: int) -> None:
    inner = requirements.read(notes.file, text)
    notes.packages += inner.packages
    notes.variants += [variant for variant in inner.variants if variant not in notes.variants]
    for one in inner.said:
        notes.say(one.message, line)


def _spec(text: str, notes: Notes, line: int) -> None:
    """One package as conda writes it: NAME, NAME=1.2, NAME=1.2.3=build, NAME>=1.2."""
    match = _SPEC.fullmatch(text.partition("#")[0].strip())
    if match is None:
        notes.say(f"{text[:80]!r} is no package that is understood here, and is left out", line)
        return
    _package(match["name"].lower(), match["rest"].strip(), notes, line)


def _package(name: str, bounds: str, notes: Notes, line: int | str) -> None:
    version, _, build = bounds.lstrip("= ").partition("=") if re.match(r"={1,2}\s*\d", bounds) else (bounds, "", "")
    if name == "python":
        notes.python(version, line)
    elif name == "pytorch-cuda" and re.fullmatch(r"\d+\.\d+", version):
        notes.variants.append(f"cu{version.replace('.', '')}")
    elif name in _PARTS or name == "pytorch-cuda":
        notes.say(f"{name} {version} is left out: the answer brings its own; hold one with cuda: or cudnn: in the request", line)
    elif name in _TOOLS:
        return
    elif bounds not in {"", "*"} and not _BOUNDS.fullmatch(version):
        notes.say(f"{name} {bounds[:80]!r} is no version that is understood here, and the package is left out", line)
    else:
        if build and ("cpu" in build or "cuda" in build):
            notes.say(f"{name}: the conda build {build} is not taken over: hold a build with variant:", line)
        wheel = _NAMES.get(name, name)
        if wheel != name:
            notes.say(f"{name} is asked for as the wheel {wheel}", line)
        notes.requirement(f"{wheel}{_as_pip(bounds, version)}", line)


def _as_pip(bounds: str, version: str) -> str:
    """`=1.2` of conda is any 1.2; `==1.2.3` and a version of three numbers are exact; other bounds are as in pip."""
    if bounds in {"", "*"}:
        return ""
    if not re.match(r"=|\d", bounds):
        return bounds
    exact = bounds.startswith("==") or len(version.split(".")) > 2  # noqa: PLR2004 - major, minor, patch
    return f"=={version}" if exact or "*" in version else f"=={version}.*"


def read_pixi(file: str, text: str) -> Found:
    """What a pixi.toml asks for; RequestError where the file is no TOML."""
    whole, notes = toml(text, file), Notes(file, text)
    platforms = texts((table(whole, "workspace") or table(whole, "project")).get("platforms"))
    ours = [_PLATFORMS[name] for name in platforms if name in _PLATFORMS]
    if len(ours) == 1:
        notes.fields["platform"] = ours[0]
    elif ours:
        notes.say(f"it is for {' and '.join(ours)}: add platform: to the request to hold one", "platforms")
    for name, wanted in table(whole, "dependencies").items():
        bounds = wanted if isinstance(wanted, str) else table(whole, "dependencies", name).get("version", "*")
        _package(name.lower(), str(bounds).strip(), notes, f"{name} =")
    for name, wanted in table(whole, "pypi-dependencies").items():
        _pypi(name, wanted, notes)
    for address in texts(table(whole, "pypi-options").get("extra-index-urls")):
        notes.index(address, address)
    if cuda := table(whole, "system-requirements").get("cuda"):
        notes.say(f"system-requirements: cuda {cuda} speaks of the driver: name it with driver: in the request", "cuda")
    for name in ("feature", "target", "environments"):
        if table(whole, name):
            notes.say(f"[{name}] is not taken over: {', '.join(table(whole, name))}", f"[{name}")
    return notes.found()


def _pypi(name: str, wanted: object, notes: Notes) -> None:
    if isinstance(wanted, str):
        notes.requirement(name + ("" if wanted == "*" else wanted), f"{name} =")
        return
    if not isinstance(wanted, Mapping) or any(key in wanted for key in ("path", "git", "url")):
        notes.say(f"{name} comes from elsewhere, which is not taken over", f"{name} =")
        return
    extras = f"[{','.join(texts(wanted.get('extras')))}]" if wanted.get("extras") else ""
    bounds = str(wanted.get("version", "*"))
    notes.requirement(name + extras + ("" if bounds == "*" else bounds), f"{name} =")
    if isinstance(index := wanted.get("index"), str):
        notes.index(index, index)
