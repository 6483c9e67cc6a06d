"""Where a run is kept: beside what it rendered, and in the user's state folder for `provisioner report`."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from provisioner.errors import UsageError
from provisioner.flows.output import write_file
from provisioner.report.run import Run, answer, markdown
from provisioner.resources import state_folder

if TYPE_CHECKING:
    from pathlib import Path

FORMATS = {"md": "report.md", "json": "report.json"}


def keep(run: Run, folder: Path) -> tuple[Path, ...]:
    """Write report.md and report.json into `folder`, and the same with the journal into the run's own folder."""
    texts = {"report.md": markdown(run), "report.json": answer(run).json()}
    for name, text in texts.items():
        write_file(folder / name, text, force=True)
    own = state_folder() / "runs" / run.id
    journal = "".join(json.dumps({"run": run.id, **_plain_stage(stage)}, ensure_ascii=False) + "\n" for stage in run.stages)
    for name, text in {**texts, "journal.jsonl": journal}.items():
        write_file(own / name, text, force=True)
    return tuple(folder / name for name in texts)


def _plain_stage(stage: object) -> dict[str, object]:
    from provisioner.report.answer import plain

    whole: dict[str, object] = plain(stage)
    return whole


def kept(run_id: str | None, form: str) -> str:
    """The report of a run that was kept, the newest when none is named. UsageError when there is none."""
    runs = state_folder() / "runs"
    found = sorted(path.name for path in runs.iterdir() if path.is_dir()) if runs.is_dir() else []
    if not found:
        raise UsageError("no run was kept yet", hint="provisioner up makes one")
    if run_id is not None and run_id not in found:
        raise UsageError(f"there is no run {run_id}", hint=f"the newest are {', '.join(found[-3:])}")
    path = runs / (run_id or found[-1]) / FORMATS[form]
    try:
        return path.read_text(encoding="utf-8")
    except OSError as failure:
        raise UsageError(f"cannot read {path}: {failure.strerror}") from failure
