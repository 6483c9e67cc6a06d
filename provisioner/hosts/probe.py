"""probe: everything that is asked of a host in one round trip.

One POSIX sh program runs the texts of the asked FACTS rows and the checks of playbook steps. Each is a section between two lines
that begin with a marker that nothing on the host can know. Each runs in a process group of its own with a deadline of its own: a
nvidia-smi that hangs in the kernel is left behind, not waited for. What the user may not see is tried again with `sudo -n`.
"""

from __future__ import annotations

import re
import secrets
import shlex
from typing import TYPE_CHECKING, Any

from provisioner.commands import TIMEOUTS, Command, Completed
from provisioner.errors import CommandFailed, UsageError
from provisioner.facts import FACTS, Fact, HostFacts, facts_of
from provisioner.findings import Seen
from provisioner.hosts.sections import (
    LATE,
    MISSING,
    NOT_RECORDED,
    OTHER,
    OTHER_GOAL,
    PROBE,
    ROOTLESS,
    SKIPPED,
    Section,
    digest_of,
    split,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from provisioner.commands import Runner

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/lib/wsl/lib"
#: Seconds at the end of the probe in which no section begins, so that the last one can end.
_RESERVE = TIMEOUTS["section"] + 5
_STEP = re.compile(r"[a-z0-9][a-z0-9_-]*")
_TIMED_OUT = 124  # as timeout(1) says it

# $1: the marker. A clock ticks once a second and wakes `wait`: that is how a shell keeps deadlines without timeout(1). What is
# due gets TERM, a second later KILL, and after another second it is left behind. An interrupted `wait` shows a code above 128
# while the process is still there, running or not yet collected.
_HEAD = r"""
mark=$1 tick=0 root='' code=''
export LC_ALL=C PATH="$PATH:@path@"
if command -v setsid >/dev/null 2>&1; then own=setsid; else own=''; fi
if [ "$(id -u)" = 0 ]; then root=root; fi
trap 'tick=$((tick+1))' ALRM
( while sleep 1; do kill -ALRM $$ || exit; done ) >/dev/null 2>&1 &
clock=$! pid=''
# told to end, because the connection is gone or the time is over: what it runs has a session of its own and ends with it
trap '{ kill -KILL "-$pid" || kill -KILL "$pid"; kill "$clock"; } 2>/dev/null; exit 143' TERM HUP INT
frame() {
  printf '\n%s %s %s %s\n' "$mark" "$@"
  printf '\n%s %s %s %s\n' "$mark" "$@" >&2
}
section() {
  name=$1 limit=$2 state=run
  shift 2
  if [ "$tick" -ge @budget@ ]; then code=skipped; frame end "$name" skipped; return; fi
  frame begin "$name" -
  begun=$tick
  $own "$@" </dev/null &
  pid=$!
  while :; do
    seen=$tick
    wait "$pid"
    code=$?
    if [ "$seen" = "$tick" ] || [ "$code" -le 128 ] || ! kill -0 "$pid"; then break; fi
    if [ "$((tick-begun))" -lt "$limit" ]; then continue; fi
    limit=$((tick-begun+1))
    case $state in
      run) state=term; kill -TERM "-$pid" || kill -TERM "$pid" ;;
      term) state=killed; kill -KILL "-$pid" || kill -KILL "$pid" ;;
      *) break ;;
    esac
  done 2>/dev/null
  if [ "$state" != run ]; then code=late; kill -KILL "-$pid" 2>/dev/null; fi
  frame end "$name" "$code"
}
fact() {
  section "fact/$1" "$2" sh -c "$4"
  case $3$root$code in
    rootsudo0|rootsudo127|rootsudolate|rootsudoskipped) ;;
    rootsudo*) section "fact/$1" "$2" sudo -n sh -c "$4" ;;
  esac
}
may() {
  fact sudo "$1" '' "$2"
  case $root$code in 0) root=sudo ;; esac
}
step() {
  name=step/$1 limit=$2
  shift 2
  case $root in
    root) section "$name" "$limit" sh -c 'exec "$@" >/dev/null' sh "$@" ;;
    sudo) section "$name" "$limit" sudo -n sh -c 'exec "$@" >/dev/null' sh "$@" ;;
    *) frame end "$name" rootless ;;
  esac
}
"""
_TAIL = 'kill "$clock" 2>/dev/null\n:\n'


def probe(runner: Runner, asks: Sequence[str] | None = None, *, steps: Mapping[str, Sequence[str]] | None = None) -> HostFacts:
    """The facts of a host: the rows `asks` of FACTS (None: all that put no load on a GPU), and whether `steps` hold.

    `steps` maps an id to a read-only argv that ends with 0 when it holds; it is run as root. Raises what the runner raises, and
    CommandFailed when the host's shell does not run the program.
    """
    names = [name for name, row in FACTS.items() if row.cost != "load"] if asks is None else list(asks)
    unknown = [name for name in names if name not in FACTS]
    if unknown:
        raise UsageError(f"there is no fact {unknown[0]!r}", hint=f"known: {', '.join(FACTS)}")
    rows = [FACTS[name] for name in names]
    checks = dict(steps or {})
    marker = f"probe-{secrets.token_hex(16)}"
    done = runner.run(probe_command(rows, checks, marker))
    sections = split(marker, done)
    if not sections:
        tail = (done.stderr or done.stdout)[-500:].strip()
        raise CommandFailed(runner.host, f"its shell does not run the probe: {tail or f'exit {done.exit}'}", tail=tail)
    return facts_of(
        runner.host,
        {row.id: read_fact(row, sections.get(f"fact/{row.id}")) for row in rows},
        {name: read_step(sections.get(f"step/{name}")) for name in checks},
    )


def probe_command(rows: Iterable[Fact], steps: Mapping[str, Sequence[str]], marker: str) -> Command:
    """The command that asks for `rows` and `steps`; the names of its sections follow the marker, for a replay to read."""
    rows = list(rows)
    names = [f"fact/{row.id}" for row in rows] + [f"step/{name}={digest_of(argv)}" for name, argv in steps.items()]
    argv = ("sh", "-c", probe_script(rows, steps), PROBE, marker, *names)
    return Command(argv=argv, timeout=TIMEOUTS["probe"])


def probe_script(rows: Sequence[Fact], steps: Mapping[str, Sequence[str]]) -> str:
    """The program. Whether root can be had is asked first where something needs it."""
    head = _HEAD.replace("@path@", _PATH).replace("@budget@", f"{TIMEOUTS['probe'] - _RESERVE:.0f}")
    needs_root = bool(steps) or any(row.root for row in rows)
    sudo = FACTS["sudo"]
    lines = [f"may {sudo.seconds:.0f} {shlex.quote(sudo.script)}"] if needs_root or sudo in rows else []
    for row in (row for row in rows if row.id != "sudo"):
        lines += [f"fact {row.id} {row.seconds:.0f} {'root' if row.root else 'user'} {shlex.quote(row.script)}"]
    for name, argv in steps.items():
        if not _STEP.fullmatch(name) or not argv:
            raise UsageError(f"{name!r} is not the id of a step with a check")
        lines.append(f"step {name} {TIMEOUTS['section']:.0f} {shlex.join(argv)}")
    return f"{head}{chr(10).join(lines)}\n{_TAIL}"


def read_fact(row: Fact, section: Section | None) -> Seen[Any]:
    """The fact that a section holds, or why it was not seen."""
    if section is None:
        return Seen.unseen("the probe ended before it was asked")
    if section.end == MISSING:
        return Seen.unseen(NOT_RECORDED)
    if section.end == SKIPPED:
        return Seen.unseen("the probe ran out of time before it was asked")
    if section.end == LATE:
        if row.partial:
            return row.parse(Completed(exit=_TIMED_OUT, stdout=section.stdout, stderr=section.stderr))
        return Seen.unseen(f"it did not answer within {row.seconds:g} s")
    return row.parse(Completed(exit=int(section.end), stdout=section.stdout, stderr=section.stderr))


def read_step(section: Section | None) -> Seen[bool]:
    """Whether the check of a step held. A program that is not there is a no."""
    if section is None:
        return Seen.unseen("the probe ended before it was asked")
    if section.end in _UNSEEN:
        return Seen.unseen(_UNSEEN[section.end])
    if section.end == ROOTLESS or (section.end != "0" and section.stderr.startswith("sudo: ")):
        return Seen.unseen("its check needs root, and sudo wants a password")
    return Seen(section.end == "0")


_UNSEEN = {
    MISSING: NOT_RECORDED,
    OTHER: OTHER_GOAL,
    SKIPPED: "the probe ran out of time before it was asked",
    LATE: f"its check did not answer within {TIMEOUTS['section']:g} s",
}
