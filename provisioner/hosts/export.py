"""A playbook as one shell script for those who may not let a program touch their hosts.

The script does what `apply` does, by the same commands: each step is checked first (`unless`), done, and checked again (`then`).
It names nothing of a machine, a folder or a clock: the same playbook, system and goal give the same bytes.
"""

from __future__ import annotations

import re
import shlex
import textwrap
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Protocol

from provisioner.errors import ProvisionerError, UsageError
from provisioner.hosts.actions import action_text, commands_of, kept_as, then_of, unless_of, way_back_of
from provisioner.hosts.conditions import HOST_FACTS, HOST_WORDS, family_of, split_system
from provisioner.hosts.plan import goal_of
from provisioner.hosts.playbook import PLACEHOLDER, WORD, Playbook
from provisioner.hosts.script import MAIN, functions_for
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from provisioner.hosts.conditions import Condition
    from provisioner.hosts.playbook import Step, Variant

_MARK: Final = "\x00"  # stands around the key of a {host.KEY}; no playbook holds one
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_LINE: Final = re.compile("[^\x00-\x1f\x7f-\x9f\u2028\u2029]+")


class Proxies(Protocol):
    """The proxies of a site, each an address, or `${NAME}` for the variable that holds it."""

    @property
    def http(self) -> str | None:
        """For http."""

    @property
    def https(self) -> str | None:
        """For https."""

    @property
    def no(self) -> str | None:
        """Hosts that are reached without."""


@value
class _Export:
    """One export: what is known of the system when the script is made, and the goal."""

    playbook: Playbook
    os: str
    known: Mapping[str, str]
    goal: Mapping[str, str]

    def fill(self, text: str) -> str:
        """`text` with the goal filled in, and each fact of the host marked."""
        return PLACEHOLDER.sub(
            lambda match: self.goal[match[2]] if match[1] == "goal" else f"{_MARK}{match[2]}{_MARK}",
            text,
        )

    def rest(self, conditions: Mapping[str, Condition]) -> Mapping[str, Condition] | None:
        """The conditions that only the host can answer; None where one is answered by no already."""
        asked: dict[str, Condition] = {}
        for key, wanted in conditions.items():
            found = self.goal.get(key.removeprefix("goal.")) if key.startswith("goal.") else self.known.get(key)
            if found is None:
                asked[key] = wanted
            elif not wanted.holds(found):
                return None
        return asked


def export_shell(playbook: Playbook, os_id: str, goal: Mapping[str, str], *, proxies: Proxies | None = None) -> str:
    """The host set-up script of a playbook for one system (`debian12`); UsageError where it cannot be made for it."""
    made = _begin(playbook, os_id, goal)
    site = _proxies(proxies)
    needs = _needs(made)
    steps = "\n".join(_step(made, step) for step in playbook.steps)
    ask = _ask(needs + steps)
    main = _main(made, ask=bool(ask), needs=bool(needs), site=bool(site))
    parts = (_head(made), functions_for(ask + needs + steps + main), ask, site, needs, steps, main)
    return "\n".join(part for part in parts if part)


def _begin(playbook: Playbook, os_id: str, goal: Mapping[str, str]) -> _Export:
    goal = goal_of(playbook, [f"{key}={given}" for key, given in goal.items()])
    system = split_system(os_id)
    if system is None:
        raise UsageError(f"{os_id[:80]!r} is not a system", hint="such as debian12 or ubuntu24.04")
    known = {"os": os_id, "id": system[0], "version": system[1], "family": family_of(system[0])}
    made = _Export(playbook=playbook, os=os_id, known=known, goal=goal)
    for key, found in known.items():
        wanted = playbook.needs.get(key)
        if wanted is not None and not wanted.holds(found):
            raise UsageError(f"the playbook {playbook.name} is not for {os_id}", hint=f"it is for {wanted}")
    return made


def _word(text: str) -> str:
    """One word of bash. A $ in single quotes makes shellcheck ask whether it was meant, so it stands escaped in double ones."""
    if _MARK not in text and not re.search(r"['$`\\]", text):
        return shlex.quote(text)
    parts = text.split(_MARK)
    return '"' + "".join(_escaped(part) if index % 2 == 0 else f"${{host_{part}}}" for index, part in enumerate(parts)) + '"'


def _escaped(text: str) -> str:
    return re.sub(r'([\\"$`])', r"\\\1", text)


def _words(argv: Iterable[str]) -> str:
    return " ".join(map(_word, argv))


def _test(key: str, wanted: Condition) -> str:
    """The bash command that says whether a fact is as wanted."""
    if HOST_FACTS[key].ask is None:
        raise UsageError(f"a script cannot ask for {key}", hint="use provisioner plan and apply for this playbook")
    fact = f'"${{fact_{key}}}"'
    if wanted.range is None:
        return f"one_of {fact} {_words(wanted.values)}"
    return " && ".join(f"within {fact} {_word(sign)} {_word(bound.text)}" for sign, bound in wanted.range.bounds)


def _unmet(key: str, wanted: Condition) -> str:
    fact = HOST_FACTS[key]
    return f'unmet {_word(fact.called)} "${{fact_{key}}}" {_word(str(wanted))} {_word(fact.remedy)}'


def _ask(body: str) -> str:
    """The function that reads those facts of the machine that `body` uses."""
    facts = sorted(set(re.findall(r"\$\{fact_(\w+)\}", body)))
    words = sorted(set(re.findall(r"\$\{host_(\w+)\}", body)))
    lines = [f"  fact_{key}=$({HOST_FACTS[key].ask})" for key in facts]
    for key in words:
        lines.append(f"  host_{key}=$({HOST_WORDS[key]})")
        lines.append(f'  [[ ${{host_{key}}} =~ ^{WORD.pattern}$ ]] || refuse "the {key} of this machine is no plain word"')
    return "\n".join(["# What this machine is.", "ask() {", *lines, "}", ""]) if lines else ""


def _needs(made: _Export) -> str:
    asked = {key: wanted for key, wanted in (made.rest(made.playbook.needs) or {}).items() if key != "sudo"}  # root is checked
    if not asked:
        return ""
    lines = [f"  {{ {_test(key, wanted)}; }} ||\n    {_unmet(key, wanted)}" for key, wanted in asked.items()]
    return "\n".join(["# What must be there already.", "needs() {", *lines, "}", ""])


def _function(step: Step) -> str:
    return "step_" + step.id.replace("-", "_")


def _step(made: _Export, step: Step) -> str:
    variants = [(rest, variant) for variant in step.do if (rest := made.rest(variant.for_)) is not None]
    needs = made.rest(step.needs)
    if not variants or needs is None:
        raise UsageError(f"the step {step.id} of {made.playbook.name} has no way for {made.os} with this goal")
    lines = [
        f"begin {step.id} \\\n    {_word(step.why)} \\\n    {_word(_undo(made, step))}",
        *_guard(made, step),
        *(f"{{ {_test(key, wanted)}; }} || {_unmet(key, wanted)}" for key, wanted in needs.items()),
        *(['[[ $missing == no || $dry_run == yes ]] || stop "something is missing, see above"'] if needs else []),
        *_chain(made, step, variants),
        _after(made, step),
    ]
    return "\n".join([f"{_function(step)}() {{", *_indented(lines), "}", ""])


def _chain(made: _Export, step: Step, variants: Sequence[tuple[Mapping[str, Condition], Variant]]) -> list[str]:
    """The first variant that fits the machine; without a choice, the variant alone."""
    if not variants[0][0]:
        return _variant(made, step, variants[0][1])
    lines: list[str] = []
    for rest, variant in variants:
        tests = " && ".join(_test(key, wanted) for key, wanted in rest.items())
        head = f"{'elif' if lines else 'if'} {tests}; then" if tests else "else"
        lines += [head, *_indented(_variant(made, step, variant))]
        if not tests:
            return [*lines, "fi"]
    return [*lines, "else", "  stop 'there is no way to do it on this machine'", "fi"]


def _indented(lines: Iterable[str]) -> list[str]:
    """Each line two columns in; the content of a file, which follows its command in the same entry, stays where it is."""
    return [f"  {line}" for line in lines]


def _guard(made: _Export, step: Step) -> list[str]:
    unless = unless_of(step, made.fill)
    return [f"local check=({_words(unless)})", 'if holds "${check[@]}"; then', "  already", "  return", "fi"]


def _after(made: _Export, step: Step) -> str:
    then = then_of(step, made.fill)
    if step.reboot:
        return "reboot_first"  # what `then` asks holds only after it
    return 'confirm "${check[@]}"' if then == unless_of(step, made.fill) else f"confirm {_words(then)}"


def _variant(made: _Export, step: Step, variant: Variant) -> list[str]:
    """What one variant would do in a dry run, and its commands."""
    name = made.playbook.name
    would = f"would {_word(action_text(variant, name, made.fill))} {_word(', '.join(step.restarts))}"
    commands = [f"keep_file {_words((path, kept_as(path, name)))}" for path in dict.fromkeys(step.kept)]
    if variant.write:
        content = made.fill(variant.write.content)
        end = "END_OF_FILE"
        while end in content.splitlines():
            end += "_"
        commands.append(f"write_file {_words((variant.write.path, variant.write.mode))} <<'{end}'\n{content}{end}")
    elif not variant.reboot:
        commands += [_words(command.argv) for command in commands_of(variant, name, made.known["family"], made.fill)]
    return ["if [[ $dry_run == yes ]]; then", f"  {would}", "  return", "fi", *(f"attempt {command}" for command in commands)]


def _undo(made: _Export, step: Step) -> str:
    fitting = [variant for variant in step.do if made.rest(variant.for_) is not None]
    undo = next((variant for variant in step.undo if made.rest(variant.for_) is not None), None)
    return way_back_of(step, fitting, undo, made.playbook.name, made.fill) or "there is no way back"


def _proxies(proxies: Proxies | None) -> str:
    found = [(name, getattr(proxies, name)) for name in ("http", "https", "no") if getattr(proxies, name, None)]
    if not found:
        return ""
    lines: list[str] = []
    for name, address in found:
        secret = _VARIABLE.fullmatch(address)
        if secret:
            advice = f"holds the {name} proxy of the site; set it, and start with sudo --preserve-env={secret[1]}"
            lines.append(f'  export {name}_proxy="${{{secret[1]}:?{advice}}}"')
        elif _LINE.fullmatch(address):
            lines.append(f"  export {name}_proxy={_word(address)}")
        else:
            raise ProvisionerError(f"the {name} proxy is not one line of text")
    return "\n".join(["# The proxies of the site.", "use_proxies() {", *lines, "}", ""])


def _head(made: _Export) -> str:
    from provisioner import __version__

    book = made.playbook
    goal = [f"{key}={given}" for key, given in made.goal.items()]
    about = [
        f"Host set-up for {made.os}: {book.name}. Made by provisioner {__version__}; make it again rather than edit it.",
        f"playbook: {book.name}, SHA-256 {book.hash}",
        *(["goal: " + " ".join(goal)] if goal else []),
    ]
    reboots = "; 3: reboot, then run it again" if any(step.reboot for step in book.steps) else ""
    usage = [
        *textwrap.wrap(f"Host set-up for {made.os}: {book.why}", 100),
        "",
        "Run it as root. A step that is done already is left out, so it may run again at any time.",
        "",
        "  --dry-run  say what each step would do, and change nothing",
        "  --help     this text",
        "",
        "Steps:",
        *(f"  {step.id}{' (restarts ' + ', '.join(step.restarts) + ')' if step.restarts else ''}" for step in book.steps),
        "",
        f"Ends with 0: done; 1: a step failed or something is missing; 2: wrong arguments{reboots}.",
    ]
    return "\n".join(
        [
            "#!/usr/bin/env bash",
            *(f"# {line}" for line in about),
            "set -euo pipefail",
            "export LC_ALL=C",
            "umask 022",
            "",
            f"readonly made_for={_word(made.os)} count={len(book.steps)}",
            "dry_run=no missing=no step='' undo='' number=0 changed=0 kept=0",
            "",
            "usage() {",
            "  printf 'usage: %s [--dry-run] [--help]\\n\\n' \"${0##*/}\"",
            "  cat <<'END'",
            *usage,
            "END",
            "}",
            "",
        ]
    )


def _main(made: _Export, *, ask: bool, needs: bool, site: bool) -> str:
    calls = [
        *(["ask"] if ask else []),
        *(["needs", _MISSING] if needs else []),
        *(["[[ $dry_run == yes ]] || use_proxies"] if site else []),
        *(_function(step) for step in made.playbook.steps),
    ]
    return MAIN.replace("  CALLS", "\n".join(_indented(calls)))


_MISSING: Final = '[[ $missing == no || $dry_run == yes ]] || refuse "something is missing, see above; nothing was changed"'
