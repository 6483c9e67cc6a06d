"""A broken overlay through the command line: exit 3, every mistake at once with its place, no traceback, nothing written."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from provisioner.cli import run

if TYPE_CHECKING:
    from pathlib import Path

HEAD = "schema: 1\ncollected: '2026-12-01'\n"
SAID = "source: [torch_listing], verified: source"


def build(version: str = "'9.9.9'", more: str = "", said: str = SAID) -> str:
    """A row of `variants` of torch, on one line."""
    return (
        f"- {{framework: torch, version: {version}, tag: cu128, platform: linux/amd64, index: pypi, published: seen, "
        f"cuda: '12.8', pythons: ['3.12'], {said}{more}}}\n"
    )


#: Every kind of mistake in one file. Lines count from 1; the row of line 4 is the first.
ROWS = (
    build(more=", colour: red"),  # 4: unknown key
    build(more=", tag: cu126"),  # 5: repeated key
    build("12.10"),  # 6: a number without quotes
    build(said="verified: source"),  # 7: no source at all
)
REST = (
    "systems:\n",  # 8
    "- {id: plan9, name: Plan 9, family: debian, libc: glibc, glibc: '2.40', source: [nowhere], verified: source}\n",  # 9
    "images:\n",  # 10
    f"- {{repository: python, os: beos, python: '3.12', tags: {{slim: x}}, platforms: [linux/amd64], {SAID}}}\n",  # 11: its os
    "packages:\n",  # 12
    f"- {{package: ring-a, version: '1', date: '2026-01-01', requires: {{ring-b: '>=1'}}, {SAID}}}\n",  # 13
    f"- {{package: ring-b, version: '1', date: '2026-01-01', requires: {{ring-a: '>=1'}}, {SAID}}}\n",  # 14: a circle
    "sources: &all\n",  # 15
    "- *all\n",  # 16: a circle of YAML
)


def _refused(text: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    path = folder / "overlay.yaml"
    path.write_text(text, encoding="utf-8")
    target = folder / "stack.lock.yaml"
    assert run(["lock", "--offline", "torch", "--gpu", "h100", "--matrix", str(path), "-o", str(target)]) == 3
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "Traceback" not in captured.err
    assert "a bug in provisioner" not in captured.err
    assert [entry.name for entry in folder.iterdir()] == ["overlay.yaml"]
    return captured.err.removeprefix("provisioner: ").replace(f"{path}:", "").strip().splitlines()


def test_every_kind_of_mistake_is_told_at_once_with_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _refused(HEAD + "variants:\n" + "".join(ROWS) + "".join(REST), tmp_path, capsys)
    expected = [
        (r"4:\d+: unknown key colour", 1),
        (r"5:\d+: tag stands here twice", 1),
        (r"6:31: write \"12\.10\" in quotes", 1),
        (r"7:3: source is missing", 1),
        (r"9:3: systems plan9: source nowhere is not in sources", 0),  # the sources of this file cannot be read: it may be there
        (r"11:3: images .*: os beos is not in systems", 1),
        (r"13:3: packages ring-a.*: needs itself: ring-a -> ring-b -> ring-a", 1),
        (r"14:3: packages ring-b.*: needs itself: ring-b -> ring-a -> ring-b", 1),
        (r"16:3: anchors and aliases are not used here", 1),
    ]
    for pattern, times in expected:
        assert sum(re.match(pattern, line) is not None for line in said) == times, (pattern, said)
    assert len(said) == sum(times for _, times in expected)


def test_rows_that_can_be_read_are_told_too_where_they_point_nowhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _refused(HEAD + "variants:\n" + "".join(ROWS[:1]) + "".join(REST[:4]), tmp_path, capsys)
    assert [line.split(" ", 1)[0].split(":")[0] for line in said] == ["4", "6", "8"]
    assert said[1].endswith("systems plan9: source nowhere is not in sources")


def test_dangling_references_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = _refused(HEAD + "".join(REST[:7]), tmp_path, capsys)
    assert len(said) == 4
    assert all(re.match(r"\d+:3: ", line) for line in said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        pytest.param(
            HEAD + "sources:\n- &a {id: a, document: b}\n" + "- *a\n" * 1_900_000, r"5:3: anchors and aliases", id="aliases"
        ),
        pytest.param(
            HEAD + "".join(f"x{at}: &a{at} [{f'*a{at - 1}, ' * 9 if at else 1}]\n" for at in range(30)),
            r"4:10: anchors",
            id="bomb",
        ),
        pytest.param(HEAD + "variants: " + "[" * 4_900_000 + "]" * 4_900_000, r"3:\d+: not valid YAML: .*nesting", id="lists"),
        pytest.param(HEAD + "variants: " + "{a: " * 100_000 + "}" * 100_000, r"3:\d+: not valid YAML: .*nesting", id="mappings"),
        pytest.param(HEAD + "variants:\n" + "- " * 1_000_000 + "a\n", r"4:\d+: not valid YAML: .*nesting", id="blocks"),
    ],
)
def test_ten_megabytes_of_aliases_or_nesting(text: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = _refused(text, tmp_path, capsys)
    assert len(lines) < 60
    assert any(re.match(said, line) for line in lines), lines


def test_a_file_that_is_larger_is_not_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "larger than 10 MB" in _refused(HEAD + "#" * 10_000_001, tmp_path, capsys)[0]
