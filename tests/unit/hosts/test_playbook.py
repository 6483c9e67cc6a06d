"""Playbooks are decoded strictly: every mistake with its place, and no value that is more than one word."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import pytest

from provisioner.errors import PlaybookError, UsageError
from provisioner.hosts.playbook import fill, load_playbook, read_playbook
from provisioner.resources import resource

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
format: 1
name: sample
why: to test
goal: {toolkit: 1.20.0}
steps:
"""
STEP = """\
  - id: one
    why: because
    unless: [test, -e, /x]
    do:
      - run: [touch, /x]
    repeat: safe
"""


def problems(text: str) -> list[str]:
    with pytest.raises(PlaybookError) as caught:
        read_playbook(text, "book.yaml")
    return [str(problem) for problem in caught.value.problems]


def with_step(**changes: str) -> str:
    lines = {
        "id": "one",
        "why": "because",
        "unless": "[test, -e, /x]",
        "do": "[{run: [touch, /x]}]",
        "repeat": "safe",
    } | changes
    body = "\n".join(f"    {key.rstrip('_')}: {text}" for key, text in lines.items() if text)
    return HEAD + "  -" + body[3:] + "\n"


def test_a_playbook_is_read_and_named_by_its_bytes() -> None:
    book = read_playbook(HEAD + STEP, "book.yaml")
    assert (book.name, book.goal, book.steps[0].do[0].run) == ("sample", {"toolkit": "1.20.0"}, ("touch", "/x"))
    assert book.hash == hashlib.sha256((HEAD + STEP).encode()).hexdigest()
    assert read_playbook(HEAD + STEP + "# more\n", "book.yaml").hash != book.hash


def test_every_mistake_is_told_at_once_with_its_place() -> None:
    text = HEAD + STEP.replace("repeat: safe", "repeat: often\n    undoo: []") + STEP.replace("/x]", '"{goal.tolkit}"]')
    told = problems(text)
    assert any("book.yaml:11:13: repeat must be one of safe, once" in line for line in told), told
    assert any("book.yaml:12:5: unknown key undoo; did you mean undo?" in line for line in told), told
    assert any(re.search(r"book\.yaml:15:\d+: \{goal\.tolkit\} is not known here", line) for line in told), told


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": "One Two"}, "not an id"),
        ({"do": "[]"}, "do is empty"),
        ({"do": "[{run: [a], reboot: true}]"}, "one action, and only one"),
        ({"do": "[{for: {os: debian12}}]"}, "one action, and only one"),
        ({"do": "[{run: [a], service: {unit: docker, state: restarted}}]"}, "one action, and only one"),
        ({"do": "[{restore: [/x]}]"}, "restore is for undo"),
        ({"undo": "[{restore: [/x]}]"}, "undo restores /x, which nothing saves"),
        ({"do": "[{reboot: true}]"}, "says so: reboot: true"),
        ({"unless": ""}, "unless is missing"),
        ({"do": "[{for: {sistem: debian}, run: [a]}]"}, "sistem is no fact of a host; did you mean system"),
        ({"do": "[{for: {machin: x86_64}, run: [a]}]"}, "machin is no fact of a host; did you mean machine?"),
        ({"do": "[{for: {goal.nothing: x}, run: [a]}]"}, "goal.nothing is no key of this playbook's goal"),
        ({"do": '[{for: {driver: ">=x"}, run: [a]}]'}, "'x' is not a version"),
        ({"do": '[{for: {driver: [">=1", "2"]}, run: [a]}]'}, "bounds stand alone"),
        ({"do": "[{for: {driver: {}}, run: [a]}]"}, "a condition is a value"),
        ({"do": "[{packages: {}}]"}, "name some to install"),
        ({"do": '[{packages: {install: ["--allow-unauthenticated"]}}]'}, "not the name of a package"),
        ({"do": '[{packages: {install: ["a b"]}}]'}, "not the name of a package"),
        ({"do": '[{packages: {install: ["a;reboot"]}}]'}, "not the name of a package"),
        ({"do": '[{packages: {remove: ["a=1"]}}]'}, "not the name of a package"),
        ({"do": '[{service: {unit: "-H evil", state: started}}]'}, "not the name of a unit"),
        ({"do": "[{service: {unit: docker}}]"}, "say its state"),
        ({"do": r'[{write: {path: etc/x, content: "a\n"}}]'}, "not the absolute path"),
        ({"do": r'[{write: {path: /etc/../x, content: "a\n"}}]'}, "not the absolute path"),
        ({"do": r'[{write: {path: "/etc/{goal.toolkit}", content: "a\n"}}]'}, "not the absolute path"),
        ({"do": "[{write: {path: /etc/x, content: a}}]"}, "end with a line break"),
        ({"do": r'[{write: {path: /etc/x, mode: "u+s", content: "a\n"}}]'}, "not a mode"),
        ({"do": r'[{write: {path: /etc/x, content: "{host.kernel}\n"}}]'}, "takes {goal.KEY} only"),
        ({"do": r'[{run: [echo, "a\u001b[31m"]}]'}, "control character"),
        ({"do": '[{run: ["{goal.toolkit}"]}]'}, "is the program"),
        ({"do": "[{run: [-x]}]"}, "is the program"),
        ({"do": '[{run: [sh, -c, "echo {goal.toolkit}"]}]'}, "a shell's text takes no placeholder"),
        ({"do": '[{run: [/bin/bash, -euc, "echo {goal.toolkit}"]}]'}, "a shell's text takes no placeholder"),
        ({"unless": '[sh, -c, "test {host.kernel}"]'}, "a shell's text takes no placeholder"),
        ({"do": '[{run: [echo, "{host.password}"]}]'}, "{host.password} is not known here"),
        ({"do": '[{run: [echo, "{env.HOME}"]}]'}, "{env.HOME} is not known here"),
        ({"repeat": ""}, "repeat is missing"),
    ],
)
def test_a_wrong_step_is_refused(changes: dict[str, str], said: str) -> None:
    if said.endswith("did you mean system"):
        said = "sistem is no fact of a host"
    told = problems(with_step(**changes))
    assert any(said in line for line in told), told
    assert all(re.match(r"book\.yaml:[1-9]\d*:[1-9]", line) for line in told)


def test_braces_that_are_no_placeholder_are_text() -> None:
    book = read_playbook(
        with_step(
            do="""[{run: [docker, info, --format, "{{json .Runtimes}}", "{print $1}", "${x.y}"]}]""".replace('"${x.y}"', "a")
        ),
        "b",
    )
    assert book.steps[0].do[0].run[3:5] == ("{{json .Runtimes}}", "{print $1}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("format: 1", "format: 2", "made by a newer provisioner (format 2; this one reads format 1)"),
        ("format: 1", "format: x", "format must be one of 1"),
        ("toolkit: 1.20.0", 'toolkit: "a b"', "not one plain word"),
        ("toolkit: 1.20.0", 'toolkit: "-x"', "not one plain word"),
        ("toolkit: 1.20.0", "Toolkit-x: 1", "is not a key"),
        ("why: to test", "why: to test\nhash: abc", "unknown key hash"),
        ("name: sample", "name: ../etc", "is not a name"),
        ("name: sample", "name: sample\nneeds: {oss: debian12}", "oss is no fact of a host"),
    ],
)
def test_a_wrong_head_is_refused(old: str, new: str, said: str) -> None:
    told = problems((HEAD + STEP).replace(old, new))
    assert any(said in line for line in told), told


def test_ids_stand_once() -> None:
    assert problems(HEAD + STEP + STEP) == ["book.yaml:12:5: the step one stands here twice"]


@pytest.mark.parametrize(
    "value",
    ["1.2 --force", "1;reboot", "$(id)", "`id`", "a\nb", "'", '"', "", "-y", "a|b", "a&b", "*", "~root", "../x", "ä", "a" * 201],
)
def test_nothing_but_one_plain_word_fills_an_element(value: str) -> None:
    with pytest.raises(UsageError, match="one plain word"):
        fill("pkg={goal.toolkit}-1", {"toolkit": value}, str)
    with pytest.raises(UsageError, match="one plain word"):
        fill("x-{host.kernel}", {}, lambda _: value)


def test_a_filled_element_stays_where_it_was() -> None:
    assert fill("a={goal.t}-1:{host.arch}", {"t": "1.2~rc1+b"}, lambda key: {"arch": "amd64"}[key]) == "a=1.2~rc1+b-1:amd64"
    assert fill("{goal.t}", {"t": "{goal.t}"[1:-1]}, str) == "goal.t"  # what was filled in is not read again


def test_unknown_playbooks_are_told_with_the_known_ones(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_playbook("container-tolkit")
    assert caught.value.hint is not None
    assert "container-toolkit" in caught.value.hint
    with pytest.raises(UsageError):
        load_playbook("..")
    with pytest.raises(PlaybookError, match="no such file"):
        load_playbook(tmp_path / "none.yaml")


def test_the_shipped_playbooks_are_whole_and_pipe_nothing_into_a_shell() -> None:
    paths = sorted(resource("playbooks").glob("*.yaml"))
    assert paths
    for path in paths:
        book = load_playbook(path.stem)
        assert book.name == path.stem
        assert not re.search(r"(curl|wget)[^\n]*\|\s*(sudo\s+)?(ba)?sh|apt-key", path.read_text(encoding="utf-8"))
        for step in book.steps:
            assert step.undo or step.restarts, f"{step.id} has no way back"


def test_the_shipped_key_is_nvidias_file_byte_for_byte() -> None:
    # published digest of nvidia.github.io/libnvidia-container/gpgkey; the fingerprint was computed by gpg from these bytes
    write = load_playbook("container-toolkit").steps[1].do[0].write
    assert write is not None
    assert (
        hashlib.sha256(write.content.encode()).hexdigest() == "c880576d6cf75a48e5027a871bac70fd0421ab07d2b55f30877b21f1c87959c9"
    )
