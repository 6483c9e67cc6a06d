"""No hostile text changes what a file means: it is read back as it was, or refused with a sentence."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from provisioner.errors import ProvisionerError
from provisioner.files.quoting import Variable, Word, df, sbatch, sh
from provisioner.files.render import render
from provisioner.files.site import Site, SlurmSite
from provisioner.stack.lock import Pins
from provisioner.stack.request import Job
from provisioner.values import replace
from tests.unit.files.sample import BLACKWELL, CPU, ROWS

if TYPE_CHECKING:
    from collections.abc import Sequence

# fmt: off
NASTY = (
    "'", '"', "`", "$(reboot)", "${HOME}", "\\", "\\\n", "\n", "\r", "\t", "\0", "#", ";", "&&", "|", ">x", "~", "*", "?",
    "# hadolint ignore=DL3000", "{{ it.base }}", "{% raw %}", "<<EOF", "--mount=type=bind", "FROM scratch", "\nRUN reboot",
    "#SBATCH --gres=gpu:8", "\n#SBATCH --x=y", "%j", "=", ":", ",", " ", "  ", "ä", "\N{HANGUL SYLLABLE GA}", "\u2028", "\u202e",
    "\x1b[31m", "\ud800", "--", "-", "@", "$HOME", "[a]", "!", "\ufeff",
)
# fmt: on
TEXTS = st.lists(st.one_of(st.sampled_from(NASTY), st.text(max_size=6)), max_size=6).map("".join)
WORDS = st.lists(TEXTS, min_size=1, max_size=4).map(tuple)
RELAXED = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow])


def _bash(words: Sequence[str]) -> list[str]:
    """The words that bash makes of quoted ones."""
    script = "printf '%s\\0' " + " ".join(words)
    done = subprocess.run(["bash", "-c", script], capture_output=True, check=True, env={"HOME": "/expanded", "LC_ALL": "C.UTF-8"})
    return done.stdout.decode("utf-8", "surrogateescape").split("\0")[:-1]


def _refused(text: str) -> bool:
    return (
        re.search("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u061c\u202a-\u202e\u2066-\u2069\ud800-\udfff]", text) is not None
    )


def _sbatch_words(line: str) -> list[str]:
    """A #SBATCH line as sbatch reads it (Slurm 24.11, src/sbatch/opt.c, _get_argument)."""
    words: list[str] = []
    rest = line.removeprefix("#SBATCH")
    while rest.strip() and not rest.lstrip().startswith("#"):
        rest = rest.lstrip()
        word, quote, index = "", "", 0
        while index < len(rest) and (quote or not rest[index].isspace()):
            character = rest[index]
            if character == "\\":
                index += 1
                word += rest[index]
            elif quote and character == quote:
                quote = ""
            elif not quote and character in "'\"":
                quote = character
            elif not quote and character == "#":
                return [*words, word]
            else:
                word += character
            index += 1
        assert not quote, "an unmatched quote is fatal"
        words.append(word)
        rest = rest[index:]
    return words


def _dockerfile(text: str) -> list[tuple[str, str]]:
    """(instruction, rest), read as BuildKit does: comments go, then lines are joined."""
    lines = [line for line in text.split("\n") if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", "")
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.split("\n") if line.strip()]


def _dockerfile_value(quoted: str) -> str:
    """What BuildKit makes of a double-quoted value: a backslash escapes itself, quotes and $; a bare $ would expand."""
    assert quoted[0] == quoted[-1] == '"'
    body = quoted[1:-1]
    assert re.fullmatch(r'(?:\\[\\"$]|[^\\"$])*', body, re.DOTALL), "something would end the quotes or expand"
    return re.sub(r"\\(.)", r"\1", body, flags=re.DOTALL)


@RELAXED
@given(WORDS)
def test_words_of_a_shell_come_back(words: tuple[str, ...]) -> None:
    assume(not any(map(_refused, words)))
    assert _bash([sh(word) for word in words]) == list(words)
    assert _bash([sh(Word(parts=(Variable(name="HOME"), word))) for word in words]) == [f"/expanded{word}" for word in words]


@RELAXED
@given(TEXTS)
def test_values_come_back_or_are_refused(text: str) -> None:
    for quote, read in ((df, _dockerfile_value), (sbatch, lambda quoted: "".join(_sbatch_words(f"#SBATCH {quoted}")))):
        try:
            quoted = quote(text)
        except ProvisionerError:
            assert _refused(text)
        else:
            assert not _refused(text)
            assert read(quoted) == text
            assert "\n" not in quoted


@RELAXED
@given(env=TEXTS, command=WORDS, why=TEXTS, excludes=TEXTS, framework=TEXTS)
def test_a_dockerfile_keeps_its_instructions(env: str, command: tuple[str, ...], why: str, excludes: str, framework: str) -> None:
    plain = _dockerfile(render(CPU, Site(), ROWS).files["Dockerfile"].text)
    lock = replace(
        CPU,
        stack=replace(CPU.stack, excludes=(excludes,)),
        pins=Pins(why_not=why),
        env={"GREETING": env},
        command=command,
    )
    try:
        text = render(lock, Site(), replace(ROWS, framework=replace(ROWS.framework, name=framework))).files["Dockerfile"].text
    except ProvisionerError:
        # A lock refuses more in a variable: what cannot be printed, such as a code point that this Python does not know.
        assert any(map(_refused, (env, *command, why, excludes, framework))) or not env.isprintable()
        return
    hostile = _dockerfile(text)
    variables = [rest for name, rest in hostile if name == "ENV" and rest.startswith("GREETING=")]
    assert [name for name, rest in hostile if not rest.startswith("GREETING=")] == [name for name, _ in plain]
    assert [_dockerfile_value(rest.partition("=")[2]) for rest in variables] == [env]
    assert json.loads(hostile[-1][1]) == list(command)
    labels = {rest.partition("=")[0]: rest.partition("=")[2] for name, rest in hostile if name == "LABEL"}
    assert json.loads(_dockerfile_value(labels["io.gpu-provisioner.lock"]))["env"] == {"GREETING": env}
    same = {"FROM", "RUN", "COPY", "USER", "WORKDIR"}
    assert [entry for entry in hostile if entry[0] in same] == [entry for entry in plain if entry[0] in same]


@RELAXED
@given(
    command=WORDS,
    mount=TEXTS,
    partition=TEXTS,
    account=TEXTS,
    constraint=TEXTS,
    folder=TEXTS,
    launcher=st.sampled_from(("apptainer", "pyxis", "venv")),
)
def test_a_batch_script_keeps_its_options_and_its_step(
    command: tuple[str, ...], mount: str, partition: str, account: str, constraint: str, folder: str, launcher: str
) -> None:
    try:
        site = Site(slurm=SlurmSite(partition=partition, account=account, constraint=constraint, image_folder=folder))
        job = Job(name="train", command=command, mounts=(f"{mount}:/data",), launcher=launcher)  # type: ignore[arg-type]  # sampled
        text = render(replace(BLACKWELL, jobs=(job,)), site, ROWS).files["train.sbatch"].text
    except (ProvisionerError, ValueError):
        return
    checked = subprocess.run(["bash", "-n"], input=text.encode(), capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr
    read = [_sbatch_words(line) for line in text.split("\n") if line.startswith("#SBATCH")]
    assert [len(words) for words in read] == [1] * 11
    assert read[-3:] == [[f"--partition={partition}"], [f"--account={account}"], [f"--constraint={constraint}"]]
    assert [words[0].partition("=")[0] for words in read[:8]] == [
        *("--job-name", "--nodes", "--ntasks", "--cpus-per-task", "--mem", "--gres", "--time", "--output"),
    ]
    step = text.replace("\\\n", " ").rstrip("\n").split("\n")[-1]
    words = _bash([step.replace("srun ", "", 1)])
    assert words[-len(command) :] == list(command)
    assert [line for line in text.split("\n") if line.startswith("srun ")] == [
        'srun --cpus-per-task="${SLURM_CPUS_PER_TASK:-1}" \\'
    ]


@RELAXED
@given(WORDS)
def test_requirements_hold_requirements_only(packages: tuple[str, ...]) -> None:
    try:
        text = render(replace(CPU, stack=replace(CPU.stack, packages=packages)), Site(), ROWS).files["requirements.txt"].text
    except ProvisionerError:
        return
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    assert lines == list(packages)
    assert all(re.match(r"[A-Za-z0-9]", line) and not re.search(r"\s-|\s#", line) for line in lines)
    assert shlex.split(" ".join(lines)) or not lines
