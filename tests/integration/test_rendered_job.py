"""Rendered batch scripts in a real Slurm: accepted, run, and ended with the exit code of their step."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import pytest

from provisioner.files.render import render
from provisioner.files.site import Site, SlurmSite
from provisioner.stack.request import Job
from provisioner.values import replace
from tests.unit.files.sample import BLACKWELL, CPU, ROWS

if TYPE_CHECKING:
    from pathlib import Path

    from provisioner.stack.lock import Lock
    from tests.testbed.slurm import Slurm


def _script(lock: Lock, job: Job, slurm: SlurmSite, folder: Path) -> Path:
    path = folder / f"{job.name}.sbatch"
    text = render(replace(lock, jobs=(job,)), Site(slurm=slurm), ROWS).files[path.name].text
    path.write_text(text, encoding="utf-8")
    return path


def _run(slurm: Slurm, script: Path) -> tuple[int, str]:
    """The exit code of the job, and what it printed."""
    done = slurm.command("sbatch", "--wait", "--parsable", str(script))
    return done.returncode, (slurm.folder / f"{script.stem}-{done.stdout.strip()}.out").read_text(encoding="utf-8")


@pytest.mark.parametrize("form", ["gres", "gpus-per-node", "gpus"])
@pytest.mark.parametrize("kind", [None, "a100"])
@pytest.mark.parametrize("launcher", ["apptainer", "venv"])
def test_every_way_to_ask_for_gpus_is_accepted(slurm: Slurm, tmp_path: Path, form: str, kind: str | None, launcher: str) -> None:
    site = SlurmSite(gpu_request=form, gpu_type=kind, partition=slurm.partition)  # type: ignore[arg-type]  # of the parameters
    job = Job(name="train", gpus_per_node=2, launcher=launcher)  # type: ignore[arg-type]  # of the parameters

    done = slurm.command("sbatch", "--test-only", str(_script(BLACKWELL, job, site, tmp_path)))

    assert done.returncode == 0, done.stderr


def test_sbatch_reads_a_quoted_value_as_it_was(slurm: Slurm, tmp_path: Path) -> None:
    account = 'project "a#1" \\ x'
    script = _script(CPU, Job(name="held"), SlurmSite(account=account), tmp_path)

    number = slurm.command("sbatch", "--hold", "--parsable", str(script)).stdout.strip()
    shown = slurm.command("scontrol", "show", "job", number).stdout
    slurm.command("scancel", number)

    assert f"Account={account}" in shown


@pytest.mark.parametrize("code", [0, 3])
def test_a_job_runs_in_its_environment_and_ends_as_its_step_does(slurm: Slurm, tmp_path: Path, code: int) -> None:
    environment = tmp_path / "envs" / "torch-2.13.0-cpu" / "bin"
    environment.mkdir(parents=True)
    (environment / "python").symlink_to(sys.executable)
    program = f"import os, sys; print('in', sys.argv[1:], os.environ['OMP_NUM_THREADS']); sys.exit({code})"
    job = Job(name="run", cpus_per_gpu=3, mem="100M", command=("python", "-c", program, "it's $HOME", "#"), launcher="venv")

    ended, said = _run(slurm, _script(CPU, job, SlurmSite(image_folder=str(tmp_path / "envs")), tmp_path))

    assert ended == code, said
    assert """in ["it's $HOME", '#'] 3\n""" in said
    assert re.search(r"^JobId=\d+ JobName=run$", said, re.MULTILINE)


def test_what_is_missing_is_said_with_how_to_make_it(slurm: Slurm, tmp_path: Path) -> None:
    ended, said = _run(slurm, _script(CPU, Job(name="missing", mem="100M"), SlurmSite(), tmp_path))

    assert ended == 1
    assert "torch-2.13.0-cpu.sif is not there." in said
    assert "  apptainer build ./torch-2.13.0-cpu.sif docker-daemon://torch-2.13.0-cpu:latest\n" in said


def test_a_node_that_shows_no_gpu_ends_the_job_early(slurm: Slurm, tmp_path: Path) -> None:
    (tmp_path / "torch-2.13.0-cu130.sif").touch()
    job = Job(name="no-gpu", mem="100M")

    ended, said = _run(slurm, _script(BLACKWELL, job, SlurmSite(image_folder=str(tmp_path)), tmp_path))

    assert ended == 1
    assert f"error: the driver shows this job no GPU on {slurm.node}." in said
    assert f"sbatch --exclude={slurm.node} no-gpu.sbatch" in said
