"""Write the tables of numbers in provisioner/knowledge from collected facts: the same facts give the same bytes.

    python -m tools.build_knowledge --facts FOLDER [--to provisioner/knowledge]

FOLDER holds xid.yaml and errors.yaml. Written are xids, sxids, cuda_errors and nvml_errors .yaml: one row a number, so that
every number that a driver or a library can print has an answer.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ACTIONS = {
    "IGNORE": "informational: follow the other errors",
    "IGNORE (sympathetic)": "a consequence of another error: follow that one",
    "INVESTIGATE_LINK_SI": "have the signal quality of the link looked at",
    "INVESTIGATE_SW": "look for a fault of the driver or of the firmware, and update them",
    "INVESTIGATE_SW_USER": "look for a fault of the application or of its libraries",
    "N/A Informational only regarding another Xid": "informational: follow the Xid before it",
    "SYMPATHETIC_REPORT_SOLO": "follow the other errors; report it when it stands alone",
    "Solo: RESTART_FM Not Solo: IGNORE (follow other Xid)": "alone: restart Fabric Manager; else follow the other Xid",
}
_XID_CLASS = {"gpu-reset": "hardware", "reboot": "hardware", "support": "hardware", "app": "application", "ignore": "harmless"}


def _xids(facts: Mapping[str, Any]) -> list[dict[str, object]]:
    actions = {entry["id"]: entry["meaning"] for entry in facts["actions"]} | _ACTIONS
    rows = []
    for entry in facts["xids"]:
        row = {"code": entry["code"], "name": entry["mnemonic"], "kind": _XID_CLASS.get(entry["severity"], entry["severity"])}
        row["says"] = entry.get("meaning") or ""
        row["action"] = actions.get(entry["immediate"], "") if entry["immediate"] else ""
        row["then"] = actions.get(entry["investigate"], "") if entry["investigate"] else ""
        rows.append(row)
    return rows


def _sxids(facts: Mapping[str, Any]) -> list[dict[str, object]]:
    kinds = {(True, True): "fatal", (False, True): "fatal", (True, False): "may-be-fatal", (False, False): "non-fatal"}
    rows = []
    for entry in facts["sxids"]:
        kind = kinds[entry["potential_fatal"], entry["always_fatal"]]
        if kind == "non-fatal" and entry["gpud_event"] == "fatal":
            kind = "may-be-fatal"
        rows.append({"code": entry["code"], "name": entry["name"], "kind": kind})
    return rows


def _errors(entries: Sequence[Mapping[str, Any]]) -> list[dict[str, object]]:
    return [
        {
            "code": entry["code"],
            "name": entry["name"],
            "kind": entry.get("class", ""),
            "says": entry.get("cause", ""),
            "action": entry.get("remedy", ""),
        }
        for entry in entries
    ]


def _text(rows: Sequence[Mapping[str, object]], source: str) -> str:
    dumped = [
        yaml.dump(
            {key: entry for key, entry in row.items() if entry != ""},
            Dumper=yaml.CSafeDumper,
            default_flow_style=True,
            sort_keys=False,
            allow_unicode=True,
            width=10_000,
        ).strip()
        for row in rows
    ]
    head = "# Made by `python -m tools.build_knowledge`.\nformat: 1\n"
    return head + yaml.safe_dump({"source": source}, width=10_000) + "rows:\n" + "".join(f"  - {line}\n" for line in dumped)


def build(folder: Path) -> Mapping[str, str]:
    """File name → its text, from the facts in `folder`."""
    xid, errors = (
        yaml.load((folder / name).read_text(encoding="utf-8"), Loader=yaml.CSafeLoader) for name in ("xid.yaml", "errors.yaml")
    )
    sources, named = xid["sources"], errors["sources"]
    return {
        "xids.yaml": _text(_xids(xid), sources["xid_doc"]),
        "sxids.yaml": _text(_sxids(xid), sources["gpud_sxid"]),
        "cuda_errors.yaml": _text(_errors(errors["cuda_runtime"]), named["driver_types"]),
        "nvml_errors.yaml": _text(_errors(errors["nvml"]), named["nvml_h"]),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Write the files; exit 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--facts", type=Path, required=True, metavar="FOLDER", help="the collected facts")
    parser.add_argument("--to", type=Path, default=Path("provisioner/knowledge"), help="the folder to write into")
    options = parser.parse_args(argv)
    for name, text in build(options.facts).items():
        (options.to / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
