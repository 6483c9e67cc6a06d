"""facts.json: what hosts said.

`{"found": …}` is a fact that was seen, `{"why_not": …}` one that was not; what nobody asked stays out.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import re
import typing
from typing import TYPE_CHECKING, Any, get_args

import yaml

from provisioner.decode import Decoder, encode, is_newer
from provisioner.errors import RequestError
from provisioner.facts.records import HostFacts
from provisioner.facts.table import FACTS, NOT_ASKED, facts_of
from provisioner.findings import Seen

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

#: What JSON leaves as it is and YAML, which reads it again, refuses or folds. Such characters stand only within texts.
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def facts_data(facts: HostFacts) -> dict[str, Any]:
    """The facts of one host as plain data, in the order of its fields."""
    data: dict[str, Any] = {"host": facts.host}
    for name in FACTS:
        seen: Seen[object] = getattr(facts, name)
        if seen.why_not != NOT_ASKED:
            data[name] = _plain(seen)
    if facts.steps:
        data["steps"] = {step: _plain(seen) for step, seen in facts.steps.items()}
    return data


def facts_json(facts: Sequence[HostFacts]) -> str:
    """The text of facts.json."""
    text = json.dumps({"format": 1, "hosts": [facts_data(host) for host in facts]}, ensure_ascii=False, indent=2)
    return _UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text) + "\n"


def read_facts(text: str, source: str) -> tuple[HostFacts, ...]:
    """The hosts of a facts.json; RequestError with every mistake and its place."""
    decoder = Decoder(source)
    root = decoder.compose(text)
    hosts: list[HostFacts] = []
    if root is not None:
        pairs = _pairs(root, "the file", ("format", "hosts"), decoder)
        _check_format(root, pairs, decoder)
        listed = pairs.get("hosts")
        if listed is None:
            decoder.note(root, "hosts is missing")
        elif isinstance(listed, yaml.SequenceNode):
            hosts = [_host(node, decoder) for node in listed.value]
        else:
            decoder.note(listed, "hosts must be a list")
    if decoder.problems:
        raise RequestError(decoder.problems, hint="facts.json is what `provisioner probe HOST -o facts.json` writes")
    return tuple(hosts)


def _plain(seen: Seen[Any]) -> dict[str, Any]:
    return {"found": _whole(seen.found)} if seen.known else {"why_not": seen.why_not}


def _whole(found: object) -> Any:  # noqa: ANN401 - plain data of any shape
    """What was found as plain data, with every field of its records: who reads the file need not know our defaults."""
    if dataclasses.is_dataclass(found) and not isinstance(found, type):
        return {entry.name: _whole(getattr(found, entry.name)) for entry in dataclasses.fields(found)}
    if isinstance(found, tuple):
        return [_whole(entry) for entry in found]
    return encode(found)


def _check_format(root: yaml.Node, pairs: Mapping[str, yaml.Node], decoder: Decoder) -> None:
    node = pairs.get("format")
    text = node.value if isinstance(node, yaml.ScalarNode) else ""
    if node is None:
        decoder.note(root, "format is missing")
    elif is_newer(text):
        decoder.note(node, f"made by a newer provisioner (format {text[:9]}; this one reads format 1)")
    elif text != "1":
        decoder.note(node, "format must be 1")


def _host(node: yaml.Node, decoder: Decoder) -> HostFacts:
    pairs = _pairs(node, "a host", ("host", "steps", *FACTS), decoder)
    name = decoder.read(pairs["host"], str, "host") if "host" in pairs else decoder.note(node, "host is missing")
    kinds = _kinds()
    found = {key: _seen(child, kinds[key], key, decoder) for key, child in pairs.items() if key in kinds}
    steps = {}
    if "steps" in pairs:
        entries = pairs["steps"]
        names = (
            [key.value for key, _ in entries.value if isinstance(key, yaml.ScalarNode)]
            if isinstance(entries, yaml.MappingNode)
            else []
        )
        steps = {key: _seen(child, bool, key, decoder) for key, child in _pairs(entries, "steps", names, decoder).items()}
    return facts_of(str(name), found, steps)


def _seen(node: yaml.Node, kind: Any, where: str, decoder: Decoder) -> Seen[Any]:  # noqa: ANN401 - a type
    pairs = _pairs(node, where, ("found", "why_not"), decoder)
    if len(pairs) != 1:
        decoder.note(node, f'{where} must be {{"found": …}} or {{"why_not": …}}')
        return Seen.unseen(NOT_ASKED)
    if "why_not" in pairs:
        return Seen.unseen(str(decoder.read(pairs["why_not"], str, where)))
    return Seen(decoder.read(pairs["found"], kind, where))


def _pairs(node: yaml.Node, where: str, known: Sequence[str], decoder: Decoder) -> Mapping[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        decoder.note(node, f"{where} must be a mapping")
        return {}
    found: dict[str, yaml.Node] = {}
    for key, child in node.value:
        text = key.value if isinstance(key, yaml.ScalarNode) else ""
        if text not in known:
            decoder.note(key, f"unknown key {text}")
        elif text in found:
            decoder.note(key, f"{text} stands here twice")
        else:
            found[text] = child
    return found


@functools.cache
def _kinds() -> Mapping[str, Any]:
    """Field → the type of what was found."""
    hints = typing.get_type_hints(HostFacts)
    return {field.name: get_args(hints[field.name])[0] for field in dataclasses.fields(HostFacts) if field.name in FACTS}
