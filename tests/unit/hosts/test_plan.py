"""A plan leaves out what is done, keeps what was not seen, and refuses before anything is changed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.errors import UsageError
from provisioner.facts import DriverFact, EngineFact, HostFacts, SystemFact
from provisioner.findings import Seen
from provisioner.hosts.actions import KEEP, RESTORE, SAME, WRITE
from provisioner.hosts.export import export_shell
from provisioner.hosts.plan import goal_of, plan, plan_fields, plan_text, step_checks
from provisioner.hosts.playbook import Playbook, load_playbook, read_playbook
from provisioner.hosts.ticket import plans_text
from provisioner.values import replace
from tests.unit.files.sample import BLACKWELL
from tests.unit.hosts.made import host

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.hosts.plan import Plan

TOOLKIT = load_playbook("container-toolkit")
IDS = [step.id for step in TOOLKIT.steps]


def planned(facts: HostFacts, **goal: str) -> Plan:
    return plan(TOOLKIT, facts, goal)


def refusals(facts: HostFacts, **goal: str) -> list[str]:
    return [f"{finding.id} | {finding.message} | {finding.remedies[0].text}" for finding in planned(facts, **goal).refusals]


def book(steps: str, goal: str = "{}") -> Playbook:
    return read_playbook(f"format: 1\nname: sample\nwhy: to test\ngoal: {goal}\nsteps:\n{steps}", "book.yaml")


def test_a_bare_host_gets_every_step_in_order() -> None:
    made = planned(host())
    assert [step.id for step in made.steps] == IDS
    assert made.refusals == ()
    assert not made.empty
    assert all(step.unseen == "not asked" for step in made.steps)
    install = next(step for step in made.steps if step.id == "packages")
    assert install.commands[-1].argv[-4:] == (
        "nvidia-container-toolkit=1.20.0-1",
        "nvidia-container-toolkit-base=1.20.0-1",
        "libnvidia-container-tools=1.20.0-1",
        "libnvidia-container1=1.20.0-1",
    )
    restart = next(step for step in made.steps if step.id == "docker-restart")
    assert restart.restarts == ("docker (running containers stop unless live-restore is on)",)
    assert restart.commands[0].argv == ("systemctl", "restart", "docker")


def test_what_is_done_is_left_out_and_the_plan_after_that_is_empty() -> None:
    done = planned(host(steps={**dict.fromkeys(IDS, Seen(True)), "cdi": Seen(False)}))
    assert [(step.id, step.unseen) for step in done.steps] == [("cdi", None)]
    assert planned(host(steps=dict.fromkeys(IDS, Seen(True)))).empty


def test_unseen_is_not_done() -> None:
    checks: dict[str, Seen[bool]] = dict.fromkeys(IDS, Seen(True))
    made = planned(host(steps={**checks, "cdi": Seen.unseen("permission denied")}))
    assert [(step.id, step.unseen) for step in made.steps] == [("cdi", "permission denied")]
    assert not made.empty
    assert "not seen: whether this is done already (permission denied)" in plan_text(made)


def test_nothing_left_needs_no_root() -> None:
    assert planned(host(steps=dict.fromkeys(IDS, Seen(True)), sudo=Seen(False), holds=Seen.unseen("x"))).empty


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"system": Seen(SystemFact(id="rocky", version="9.4", name="Rocky"))},
            "plan-refused | gpu01: operating system is rocky9.4; the playbook container-toolkit needs one of debian12, debian13",
        ),
        ({"system": Seen.unseen("no such file")}, "host-fact-unseen | gpu01: operating system could not be seen (no such file)"),
        ({"machine": Seen("riscv64")}, "plan-refused | gpu01: machine is riscv64"),
        (
            {"engine": Seen(None)},
            "there is no container engine; the playbook container-toolkit needs >=19.03 | install Docker Engine first",
        ),
        ({"engine": Seen(EngineFact(version="18.09.1"))}, "container engine is 18.09.1"),
        ({"engine": Seen(EngineFact(version="28.5.1", rootless=True))}, "rootless engine is true"),
        ({"engine": Seen.unseen("timed out")}, "host-fact-unseen | gpu01: container engine could not be seen (timed out)"),
        (
            {"driver": Seen(None)},
            "there is no NVIDIA driver; the playbook container-toolkit needs >=418.81.07 | install the NVIDIA driver first",
        ),
        ({"driver": Seen(DriverFact(version="390.157"))}, "NVIDIA driver is 390.157"),
        ({"driver": Seen.unseen("hung")}, "host-fact-unseen | gpu01: NVIDIA driver could not be seen (hung)"),
        ({"sudo": Seen(False)}, "plan-refused | gpu01: admin is not root and has no sudo without a password | log in as root"),
        (
            {"sudo": Seen.unseen("no sudo")},
            "host-fact-unseen | gpu01: whether commands can run as root could not be seen (no sudo)",
        ),
        (
            {"holds": Seen(("libnvidia-container1",))},
            "plan-refused | gpu01: libnvidia-container1 is on hold, and the step packages would change it",
        ),
        (
            {"holds": Seen.unseen("no apt-mark")},
            "host-fact-unseen | gpu01: which packages are on hold could not be seen (no apt-mark)",
        ),
    ],
)
def test_early_refusals(changes: dict[str, Any], said: str) -> None:
    told = refusals(host(**changes))
    assert any(said in line for line in told), told


def test_a_hold_on_what_stays_as_it_is_refuses_nothing() -> None:
    assert refusals(host(holds=Seen(("docker-ce",)))) == []
    same = host(holds=Seen(("libnvidia-container1",)), packages=Seen({"libnvidia-container1": "1.20.0-1"}))
    assert refusals(same) == []
    assert len(refusals(replace(same, packages=Seen.unseen("no dpkg")))) == 1


def test_a_step_that_takes_the_hold_away_first_may_change_it() -> None:
    step = "  - id: {0}\n    why: w\n    unless: ['false']\n    do: [{{packages: {{{1}: [abc]}}}}]\n    repeat: safe\n"
    freeing = book(step.format("free", "unhold") + step.format("change", "install"))
    facts = host(holds=Seen(("abc",)))
    assert plan(freeing, facts, {}).refusals == ()
    assert len(plan(book(step.format("change", "install") + step.format("free", "unhold")), facts, {}).refusals) == 1


def test_cdi_is_made_as_the_toolkit_of_the_goal_makes_it() -> None:
    assert planned(host()).steps[-1].action == "restart nvidia-cdi-refresh.service"
    assert planned(host(), toolkit="1.17.8").steps[-1].action == "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml"
    told = refusals(host(), toolkit="1.11.0")
    assert len(told) == 1
    assert "the step cdi has no way for this host: goal.toolkit is 1.11.0, not >=1.18" in told[0]


def test_an_unknown_condition_stops_the_search_for_a_variant() -> None:
    step = "  - {id: one, why: w, unless: ['false'], do: [{for: {flavour: open}, run: [a]}, {run: [b]}], repeat: safe}\n"
    assert plan(book(step), host(), {}).steps[0].action == "a"
    assert plan(book(step), host(driver=Seen(DriverFact(version="535.1", flavour="proprietary"))), {}).steps[0].action == "b"
    made = plan(book(step), host(driver=Seen.unseen("hung")), {})
    assert made.steps == ()
    assert "flavour could not be seen: hung" in made.refusals[0].message


def test_the_way_back_is_to_the_versions_that_were_there() -> None:
    made = planned(host(packages=Seen({"libnvidia-container1": "1.17.8-1", "nvidia-container-toolkit": "1.17.8-1"})))
    way = {step.id: step.way_back for step in made.steps}
    assert way["packages"] == (
        "remove nvidia-container-toolkit-base libnvidia-container-tools, "
        "install nvidia-container-toolkit=1.17.8-1 libnvidia-container1=1.17.8-1 again"
    )
    assert way["docker-restart"] == "nothing to undo"
    assert "put /etc/docker/daemon.json back as it was" in str(way["docker-runtime"])
    no_way_back = book("  - {id: one, why: w, unless: ['false'], do: [{run: [mkfs]}], repeat: once}\n")
    assert plan(no_way_back, host(), {}).steps[0].way_back is None
    assert "way back: NONE" in plan_text(plan(no_way_back, host(), {}))


def test_the_hash_names_exactly_this_plan() -> None:
    first = planned(host())
    assert first.hash == planned(host()).hash
    others = [
        planned(host(host="gpu02")),
        planned(host(), toolkit="1.19.1"),
        planned(host(steps={"certificates": Seen(True)})),
        planned(host(driver=Seen(None))),
        plan(replace(TOOLKIT, hash="0"), host(), {}),
    ]
    assert len({first.hash, *(other.hash for other in others)}) == 6


def test_the_fields_of_the_contract() -> None:
    fields = plan_fields(planned(host()))
    assert {"steps", "refusals", "plan"} <= set(fields)
    steps = fields["steps"]
    assert isinstance(steps, list)
    assert {"id", "why", "action", "restarts", "reboot", "way_back"} <= set(steps[0])


def test_the_text_for_a_change_ticket() -> None:
    text = plan_text(planned(host()))
    assert text.startswith(
        "Plan for gpu01: container-toolkit\n"
        "7 steps; restarts docker once; no reboot; 7 could not be checked and may be done already\n"
        "Host: Debian GNU/Linux 12 (bookworm), NVIDIA driver 580.95.05 (open modules), docker 28.5.1\n"
        "Goal: toolkit 1.20.0"
    )
    assert "apt-get install --yes" in text
    assert "--allow-downgrades" in text
    assert "| deb [signed-by=" in text, "a short file is shown"
    assert "BEGIN PGP" not in text, "a long one is named by its SHA-256"
    assert "check after:\n     grep -qs nvidia-container-runtime /etc/docker/daemon.json\n" in text
    assert "restarts: nothing" not in text
    assert "reboot: no" not in text
    assert text.rstrip().endswith("on the host: sudo bash host-setup.sh --dry-run, then without --dry-run")
    assert "To do it: provisioner export shell --os debian12 --playbook container-toolkit -o host-setup.sh\n" in text
    assert "--goal toolkit=1.19.1 -o host-setup.sh" in plan_text(planned(host(), toolkit="1.19.1"))
    assert "6. docker-restart: restart docker\n" in text
    assert max(map(len, text.splitlines())) <= 220
    refused = plan_text(planned(host(driver=Seen(None))))
    assert "REFUSED: gpu01: there is no NVIDIA driver" in refused
    assert refused.rstrip().endswith("Nothing of this may be done before that is settled."), "said again at the end"
    assert refused.count("REFUSED: gpu01: there is no NVIDIA driver") == 2
    assert "REFUSED, nothing may be done; 7 steps" in refused
    assert "To do it" not in refused
    assert "Nothing to do" in plan_text(planned(host(steps=dict.fromkeys(IDS, Seen(True)))))


def test_the_commands_of_a_ticket_are_what_a_shell_would_run() -> None:
    step = "  - {id: one, why: w, unless: ['false'], do: [{run: [printf, '%s|', \"a'b c\", '$HOME']}], repeat: safe}\n"
    long = " ".join(f"word{number}" for number in range(60))
    text = plan_text(plan(book(step.replace("'$HOME'", f"'$HOME', {', '.join(long.split())}")), host(), {}))
    typed = text.partition("as root:\n")[2].partition("   check after")[0]
    assert typed.count("\n") > 3
    done = subprocess.run(["sh", "-c", typed], capture_output=True, text=True, check=True)
    assert done.stdout == f"a'b c|$HOME|{long.replace(' ', '|')}|"


def test_a_reboot_is_said() -> None:
    text = plan_text(
        plan(book("  - {id: one, why: w, unless: ['false'], do: [{reboot: true}], repeat: once, reboot: true}\n"), host(), {})
    )
    assert "1 step; no restart; reboots once" in text
    assert "reboot: yes" in text


def test_hosts_with_equal_plans_share_a_text() -> None:
    done: dict[str, Seen[bool]] = dict.fromkeys(IDS, Seen(True))
    plans = {
        "gpu01": [planned(host())],
        "gpu02": [planned(host(host="gpu02", steps=done))],
        "gpu03": [planned(host(host="gpu03"))],
        "gpu04": [planned(host(host="gpu04", driver=Seen(None)))],
        "gpu05": [planned(host(host="gpu05", driver=Seen(None)))],
    }
    text = plans_text(plans)
    assert [line for line in text.splitlines() if line.startswith("Plan for")] == [
        "Plan for gpu01, gpu03: container-toolkit",
        "Plan for gpu02: container-toolkit",
        "Plan for gpu04, gpu05: container-toolkit",
    ]
    for entries in plans.values():
        assert entries[0].hash in text
    assert "Plan id of gpu03: " in text
    assert "REFUSED: there is no NVIDIA driver" in text, "a reason of several hosts names none of them"


def test_a_recording_of_facts_only_is_told() -> None:
    checks: dict[str, Seen[bool]] = dict.fromkeys(IDS, Seen.unseen("not in this recording"))
    assert "this recording holds facts only" in plan_text(planned(host(steps=checks)))
    assert "facts only" not in plan_text(planned(host(steps={**checks, "cdi": Seen(False)})))


@pytest.mark.parametrize("toolkit", ["1.20.0", "1.17.8"])
def test_plan_and_script_name_the_same_way_back(toolkit: str) -> None:
    script = export_shell(TOOLKIT, "debian12", {"toolkit": toolkit})
    for step in planned(host(), toolkit=toolkit).steps:
        function = script.partition(f"begin {step.id} ")[2].partition("local check")[0]
        assert str(step.way_back) in function.replace("'", ""), step.id
    last = planned(host(), toolkit=toolkit).steps[-1]
    assert last.way_back == f"rm -f /{'var/run' if toolkit == '1.20.0' else 'etc'}/cdi/nvidia.yaml"


def test_checks_are_filled_in_for_the_probe() -> None:
    checks = step_checks(TOOLKIT, {"toolkit": "1.19.1"})
    assert list(checks) == IDS
    assert checks["packages"][-1] == "libnvidia-container1=1.19.1-1"
    assert checks["signing-key"][:3] == ("sh", "-c", SAME)
    kernel = book("  - {id: one, why: w, unless: [test, -d, '/lib/modules/{host.kernel}'], do: [{run: [a]}], repeat: safe}\n")
    assert step_checks(kernel, {}) == {}
    assert step_checks(kernel, {}, host()) == {"one": ("test", "-d", "/lib/modules/6.1.0-21-amd64")}
    assert step_checks(kernel, {}, host(kernel=Seen.unseen("x"))) == {}


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        (["toolkit"], "is no goal"),
        (["tolkit=1"], "has no goal 'tolkit'"),
        (["toolkit=latest"], "is not a version"),
        (["toolkit=1.20.0 --force"], "not one plain word"),
        (["toolkit="], "not one plain word"),
        (["repository=https://mirror/$(id)"], "not one plain word"),
    ],
)
def test_a_wrong_goal_is_refused(texts: list[str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        goal_of(TOOLKIT, texts)


def test_the_goal_is_the_defaults_and_what_was_said() -> None:
    assert goal_of(TOOLKIT)["toolkit"] == "1.20.0"
    assert goal_of(TOOLKIT, ["toolkit=1.19.1"])["toolkit"] == "1.19.1"


def test_a_lock_is_a_goal_and_what_was_typed_goes_before_it() -> None:
    step = "  - {id: one, why: w, unless: ['false'], do: [{run: [a]}], repeat: safe}\n"
    driver = book(step, '{branch: "535", flavour: proprietary}')
    locked = replace(BLACKWELL, stack=replace(BLACKWELL.stack, driver_branch="580", kernel_modules=("open",)))
    assert goal_of(driver, lock=locked) == {"branch": "580", "flavour": "open"}
    assert goal_of(driver, ["branch=575"], lock=locked) == {"branch": "575", "flavour": "open"}
    assert goal_of(book(step), lock=locked) == {}  # a playbook takes the keys that it has


def _sh(script: str, *arguments: str, stdin: str = "") -> int:
    return subprocess.run(
        ["sh", "-c", script, "sh", *arguments], input=stdin.encode(), check=False, capture_output=True
    ).returncode


def test_files_are_written_kept_and_put_back_by_a_real_shell(tmp_path: Path) -> None:
    there, kept = tmp_path / "etc/a b/$x'.list", tmp_path / "backup/x.list"
    assert _sh(KEEP, str(there), str(kept)) == 0
    assert _sh(WRITE, str(there), "0640", stdin="new\n") == 0
    assert (there.read_text(), there.stat().st_mode & 0o777, list(there.parent.iterdir())) == ("new\n", 0o640, [there])
    digest = "7aa7a5359173d05b63cfd682e3c38487f3cb4f7f1d60659fe59fab1505977d4c"  # printf 'new\n' | sha256sum
    assert _sh(SAME, str(there), digest, "640") == 0
    assert _sh(SAME, str(there), digest, "644") == 1
    assert _sh(SAME, str(there), "0" * 64, "640") == 1
    assert _sh(SAME, str(tmp_path / "none"), digest, "640") != 0
    assert _sh(KEEP, str(there), str(kept)) == 0  # it is ours now, so what is kept stays: there was nothing
    assert _sh(RESTORE, str(there), str(kept)) == 0
    assert not there.exists()
    there.write_text("theirs\n")
    other = tmp_path / "backup/other"
    assert _sh(KEEP, str(there), str(other)) == 0
    assert _sh(WRITE, str(there), "0644", stdin="new\n") == 0
    assert _sh(RESTORE, str(there), str(other)) == 0
    assert there.read_text() == "theirs\n"
    assert _sh(RESTORE, str(there), str(tmp_path / "backup/never")) == 1
    assert _sh(WRITE, "/proc/none/x", "0644", stdin="x") != 0
