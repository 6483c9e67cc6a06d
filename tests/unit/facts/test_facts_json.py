"""facts.json: what is written is read again; what is wrong is told with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.errors import RequestError
from provisioner.facts import FACTS, HostFacts, facts_data, facts_json, facts_of, read_facts
from provisioner.findings import Seen
from provisioner.hosts.probe import probe
from provisioner.hosts.recording import ReplayRunner

_RECORDINGS = Path(__file__).parents[2] / "recordings"


def _recorded() -> tuple[HostFacts, ...]:
    return tuple(probe(ReplayRunner(folder, host=folder.name)) for folder in sorted(_RECORDINGS.iterdir()))


def test_what_is_written_is_read_again() -> None:
    hosts = _recorded()
    assert len(hosts) >= 2
    assert read_facts(facts_json(hosts), "facts.json") == hosts


_REASONS = st.dictionaries(st.sampled_from(sorted(FACTS)), st.text(max_size=40))


@given(_REASONS, st.dictionaries(st.text(max_size=20), st.booleans()))
def test_reasons_and_steps_survive(reasons: dict[str, str], steps: dict[str, bool]) -> None:
    found: dict[str, Seen[Any]] = {name: Seen.unseen(why) for name, why in reasons.items()}
    facts = facts_of("gpu01", found, {name: Seen(holds) for name, holds in steps.items()})
    assert read_facts(facts_json((facts,)), "facts.json") == (facts,)


def test_absent_and_unseen_and_not_asked_stay_apart() -> None:
    facts = facts_of("gpu01", {"toolkit": Seen(None), "driver": Seen.unseen("permission denied")})
    assert facts_data(facts) == {"host": "gpu01", "toolkit": {"found": None}, "driver": {"why_not": "permission denied"}}
    assert facts.kernel == Seen.unseen("not asked")


def test_the_form_is_that_of_the_contract() -> None:
    data = json.loads(facts_json(_recorded()))
    assert data["format"] == 1
    assert set(data["hosts"][0]["gpus"]) == {"found"}


@pytest.mark.parametrize(
    ("text", "places"),
    [
        ("[]", ["1:1: the file must be a mapping", "1:1: format is missing"]),
        ('{"format": 2, "hosts": []}', ["1:12: made by a newer provisioner (format 2; this one reads format 1)"]),
        ('{"format": 1}', ["1:1: hosts is missing"]),
        ('{"format": 1, "hosts": {}}', ["1:24: hosts must be a list"]),
        ('{"format": 1, "hosts": [{"kernel": {"found": "6.8"}}]}', ["1:25: host is missing"]),
        ('{"format": 1, "hosts": [{"host": "a", "kernal": {"found": "6.8"}}]}', ["1:39: unknown key kernal"]),
        ('{"format": 1, "hosts": [{"host": "a", "kernel": {}}]}', ['1:49: kernel must be {"found": …} or {"why_not": …}']),
        (
            '{"format": 1, "hosts": [{"host": "a", "memory_mib": {"found": "much"}, "nouveau": {"found": 3}}]}',
            ["1:63: memory_mib must be a whole number", "1:93: nouveau must be true or false"],
        ),
        ('{"format": 1, "hosts": [{"host": "a", "host": "b"}]}', ["1:39: host stands here twice"]),
        ("format: 1\nhosts: &a [*a]", ["2:8: a host must be a mapping"]),
        ("", ["empty"]),
        ("{", ["not valid YAML"]),
    ],
)
def test_every_mistake_has_its_place(text: str, places: list[str]) -> None:
    with pytest.raises(RequestError) as caught:
        read_facts(text, "facts.json")
    message = caught.value.message
    assert [place for place in places if place not in message] == []
    assert message.startswith("facts.json:")
