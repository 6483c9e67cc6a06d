"""The bash functions that an exported script is made of. Only those that a script calls are written into it."""

from __future__ import annotations

import re
from typing import Final

from provisioner.hosts.actions import KEEP, WRITE

#: Name → text, in the order in which they stand in the script.
FUNCTIONS: Final = {
    "say": """\
say() { printf '%s\\n' "$@"; }
""",
    "refuse": """\
# refuse TEXT...: stops before anything was changed.
refuse() {
  printf '%s: %s\\n' "${0##*/}" "$*" >&2
  exit 1
}
""",
    "one_of": """\
# one_of TEXT WORD...: whether TEXT is one of the words.
one_of() {
  local text=$1 word
  shift
  for word in "$@"; do
    [[ $text == "$word" ]] && return 0
  done
  return 1
}
""",
    "within": """\
# within VERSION SIGN BOUND: compares two versions; what is no version is within nothing.
within() {
  [[ $1 =~ ^[0-9] ]] || return 1
  local first
  first=$(printf '%s\\n%s\\n' "$1" "$3" | sort -V | sed -n 1p)
  case $2 in
    '>=') [[ $first == "$3" ]] ;;
    '<=') [[ $first == "$1" ]] ;;
    '>') [[ $1 != "$3" && $first == "$3" ]] ;;
    '<') [[ $1 != "$3" && $first == "$1" ]] ;;
    '==') [[ $1 == "$3" ]] ;;
    '!=') [[ $1 != "$3" ]] ;;
  esac
}
""",
    "unmet": """\
# unmet WHAT ACTUAL WANTED REMEDY: notes that this machine lacks something.
unmet() {
  missing=yes
  printf 'NOT MET: %s is %s, and %s is needed\\n         what to do: %s\\n' "$1" "$2" "$3" "$4" >&2
}
""",
    "begin": """\
# begin ID WHY UNDO: announces a step.
begin() {
  step=$1
  undo=$3
  number=$((number + 1))
  printf '\\n[%s/%s] %s\\n      why: %s\\n' "$number" "$count" "$1" "$2"
}
""",
    "holds": """\
# holds COMMAND...: whether a read-only check ends with 0.
holds() { "$@" </dev/null >/dev/null 2>&1; }
""",
    "already": """\
already() {
  kept=$((kept + 1))
  say "      already so"
}
""",
    "would": """\
# would ACTION RESTARTS: what the step would do.
would() {
  say "      would do: $1"
  [[ -z $2 ]] || say "      restarts: $2"
  say "      way back: $undo"
}
""",
    "stop": """\
# stop REASON...: ends a step that failed.
stop() {
  {
    printf '\\n%s: the step %s failed: %s\\n' "${0##*/}" "$step" "$*"
    printf 'What to do: see the lines above, put it right, and run this script again; what is done already is left out.\\n'
    printf 'To undo this step: %s\\n' "$undo"
  } >&2
  exit 1
}
""",
    "attempt": """\
# attempt COMMAND...: runs it, or ends the step.
attempt() {
  local code=0
  "$@" || code=$?
  ((code == 0)) || stop "$1 ended with code $code"
}
""",
    "confirm": """\
# confirm COMMAND...: the check after a step.
confirm() {
  holds "$@" || stop "it ran, and its check does not hold afterwards: $*"
  changed=$((changed + 1))
  say "      done"
}
""",
    "reboot_first": """\
reboot_first() {
  say "" "Reboot this machine now, and run this script again: the rest follows then."
  exit 3
}
""",
    "write_file": """\
# write_file PATH MODE: writes standard input to a file, whole or not at all.
write_file() (
  """
    + WRITE.replace(" && ", " &&\n    ")
    + """
)
""",
    "keep_file": """\
# keep_file PATH COPY: keeps the file as it is now, once.
keep_file() (
  """
    + KEEP.replace(" || {", " ||\n    {").replace(" && if", " &&\n      if")
    + """
)
""",
}

#: What stands at the end; CALLS are the functions in their order.
MAIN: Final = """\
main() {
  local argument system
  for argument in "$@"; do
    case $argument in
      --dry-run) dry_run=yes ;;
      --help | -h)
        usage
        exit 0
        ;;
      *)
        usage >&2
        exit 2
        ;;
    esac
  done
  # shellcheck source=/dev/null
  system=$(. /etc/os-release && printf '%s' "${ID:-}${VERSION_ID:-}") || refuse "this machine has no /etc/os-release"
  [[ $system == "$made_for" || $system == "$made_for".* ]] ||
    refuse "this script was made for $made_for, and this is $system; make one for it: provisioner export shell --os $system"
  if [[ $dry_run == yes ]]; then
    say "Dry run: nothing is changed."
    ((EUID == 0)) || say "Not root: what only root may read counts as not done."
  elif ((EUID != 0)); then
    refuse "run it as root: sudo bash $0"
  fi
  CALLS
  if [[ $dry_run == yes ]]; then
    say "" "Nothing was changed. Done already: $kept of $count steps."
    [[ $missing == no ]] || refuse "something is missing, see NOT MET above; without --dry-run nothing would be done"
  else
    say "" "Done: changed by $changed of $count steps, $kept were done already."
  fi
}

main "$@"
"""


def functions_for(body: str) -> str:
    """The functions that `body` calls, and those that they call."""
    needed: set[str] = set()
    waiting = [body]
    while waiting:
        text = waiting.pop()
        for name, function in FUNCTIONS.items():
            if name not in needed and re.search(rf"(?<![\w-]){name}(?![\w-])", text):
                needed.add(name)
                waiting.append(function)
    return "\n".join(text for name, text in FUNCTIONS.items() if name in needed)
