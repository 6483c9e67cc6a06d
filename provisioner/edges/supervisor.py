"""The small POSIX shell program around every command that runs on a host, so that none outlives who asked for it.

The command gets a session of its own, exactly the bytes of its input, and a watcher. The watcher ends the whole process group,
with TERM and then with KILL, when its own input ends before the command does (the connection was cut, the client is gone or has
closed it) or when the time is over. A command that leaves a long input unread hides a cut from it: then the time ends it.
Needed on the host: `sh` (dash, bash and busybox are tested), `dd`, `head`, `sleep`.

The program and the argv travel over standard input: the one text that the user's login shell sees must mean the same to bash,
zsh, fish and csh, and no argument belongs into the process list twice.
"""

from __future__ import annotations

import math
import shlex
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Seconds that a process group has between TERM and KILL.
GRACE = 2

# fd 3: what the client sends after this program; 4 and 7: the real output and errors; 6: lines to the watcher, which is the last
# block. The shells' own remarks ("Terminated") go nowhere. `setsid` forks when its caller leads a group, and in there nobody
# does; where it is missing, job control makes the group.
_PROGRAM = r"""
exec 3<&0 4>&1 7>&2 </dev/null 2>/dev/null
if command -v setsid; then own=setsid; else own=; fi >/dev/null
{
  sh -c 'sleep "$1" & echo clock $! >&6; wait; echo late >&6' sh "$limit" >/dev/null 3<&- 4>&- 7>&- &
  sh -c 'echo feeder $$ >&6
    head -c "$1" <&3; exec >/dev/null; while read -r _; do :; done <&3; echo gone >&6' sh "$n" 4>&- 7>&- | {
    test -n "$own" || set -m
    $own sh -c 'echo group $$ >&6; exec 3<&- 4>&- 6>&- 7>&- && exec "$@"' sh "$@" >&4 2>&7
    echo exit $? >&6
  }
} 6>&1 | {
  exec 3<&- 4>&- 7>&-
  stop() {
    kill -TERM "-$group" || kill -TERM "$group"
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
      kill -0 "-$group" || return
      sleep 0.1 || { sleep 1; break; }
    done
    kill -KILL "-$group" || kill -KILL "$group"
  }
  group='' clock='' feeder='' gone='' over='' code=143
  until test -n "$over" && test -n "$clock" && test -n "$feeder"; do
    read -r word number || break
    case $word in
      clock) clock=$number ;;
      feeder) feeder=$number ;;
      group) group=$number ;;
      exit) code=$number over=1 ;;
      *) gone=1 ;;
    esac
    if test -n "$gone" && test -n "$group" && test -z "$over"; then stop; over=1; fi
  done
  for pid in $clock $feeder; do kill -KILL "$pid"; done
  exit "$code"
}
"""


def boot(argv: Sequence[str], size: int, seconds: float, *, sudo: bool = False) -> tuple[str, bytes]:
    """What starts `argv` with `size` bytes of input and `seconds` of time: the text for a shell, and the bytes to send first.

    The input itself follows those bytes. The sender keeps the stream open for as long as the command may run. With `sudo` all of
    this runs as root: a user may not end what sudo started. The clock here is the later one, for a client that is gone.
    """
    program = f"n={size} limit={math.ceil(seconds) + 1}\nset -- {shlex.join(argv)}\n{_PROGRAM}".encode()
    prefix = "sudo -n -- " if sudo else ""
    return f"""exec {prefix}sh -c 'eval "$(dd bs=1 count={len(program)} 2>/dev/null || echo exit 127)"'""", program
