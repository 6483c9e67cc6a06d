"""Answers and reports: exit codes over hosts, errors as answers, and texts of hosts that stay texts."""

from __future__ import annotations

import json

from provisioner.errors import BuildFailed, HostKeyError, RequestError
from provisioner.findings import CheckResult, Finding, Remedy
from provisioner.report.answer import Answer, of_error, worst
from provisioner.report.run import HostReport, Run, Stage, answer, markdown, stage_line
from provisioner.report.text import brief, findings
from provisioner.values import Problem

OK, FAULT, UNKNOWN = Answer(verdict="ok"), Answer(verdict="fault"), Answer(verdict="unknown")


def test_the_exit_over_hosts_is_the_first_of_the_contract() -> None:
    engine, host = of_error(BuildFailed("x")), of_error(HostKeyError("a", "changed"))
    assert worst({"a": OK, "b": UNKNOWN}) == ("unknown", 8)
    assert worst({"a": OK, "b": UNKNOWN, "c": FAULT}) == ("fault", 7)
    assert worst({"a": FAULT, "b": host})[1] == 5
    assert worst({"a": host, "b": engine, "c": FAULT})[1] == 6
    assert worst({"a": OK}) == ("ok", 0)


def test_an_error_is_an_answer_with_its_places_and_its_exit() -> None:
    told = json.loads(
        of_error(RequestError([Problem(file="r.yaml", line=3, column=1, message="unknown key x")], hint="h")).json()
    )
    assert (told["exit"], told["verdict"], told["error"]["kind"]) == (3, "unknown", "request-error")
    assert told["findings"][0]["evidence"] == [{"file": "r.yaml", "line": 3, "text": "unknown key x"}]
    assert told["findings"][0]["remedies"][0]["text"] == "h"


def test_the_tail_of_a_build_is_evidence() -> None:
    told = of_error(BuildFailed("step 3 failed", tail="E: no space left"))
    assert told.findings[0].evidence[0].text == "E: no space left"
    assert told.code == 6


def test_the_exit_of_a_run_is_that_of_its_first_failed_stage() -> None:
    stages = (
        Stage(name="probe", status="passed"),
        Stage(name="build", status="failed", exit=6),
        Stage(name="test", status="not-run"),
    )
    run = Run(id="1", generator="g", stages=stages)
    assert run.exit == 6
    assert json.loads(answer(run).json())["stages"][1] == {
        "name": "build",
        "status": "failed",
        "seconds": 0.0,
        "exit": 6,
        "says": [],
    }
    assert answer(Run(id="1", generator="g", stages=stages[:1])).code == 0


def test_what_a_host_says_stays_in_its_cell() -> None:
    hostile = "x | y\n## Owned\n<script>[a](http://b)"
    host = HostReport(
        host="h",
        facts=(("gpus", hostile),),
        checks=(CheckResult(name="L1", layer="library", status="fail", message=hostile),),
        findings=(Finding(id="smoke-failed", severity="error", message=hostile, remedies=(Remedy(text=hostile),)),),
    )
    text = markdown(Run(id="1", generator="g", hosts=(host,)))
    assert not any(line.startswith("## Owned") for line in text.splitlines())
    assert "<script>" not in text
    assert "x \\| y" in text


def test_a_recording_is_called_one() -> None:
    run = Run(id="1", generator="g", said=("this is a recording",), hosts=(HostReport(host="replay:x", recording=True),))
    assert "this is a recording" in markdown(run)
    assert "a recording, not a machine" in markdown(run)


def test_a_stage_that_was_not_run_shows_no_time() -> None:
    assert " s" not in stage_line(Stage(name="test", status="not-run", seconds=0))
    assert "0.5 s" in stage_line(Stage(name="lock", status="passed", seconds=0.5))


def test_findings_show_their_remedies_and_their_evidence() -> None:
    from provisioner.findings import Because, Evidence

    entry = Finding(
        id="arch-not-in-build",
        severity="error",
        message="no code",
        evidence=(Evidence(file="f", line=2, text="t"),),
        because=(Because(fact="fact", source="row: doc; other"),),
        remedies=(Remedy(text="do it", commands=("pip install x",)),),
        ask=("nvidia-smi",),
    )
    text = findings([entry])
    for part in (
        "error: no code [arch-not-in-build]",
        "| f:2: t",
        "fact [row: doc and 1 more]",
        "* do it",
        "pip install x",
        "nvidia-smi",
    ):
        assert part in text
    assert brief(Because(fact="f", source="s")) == "f [s]"
