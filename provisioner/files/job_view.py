"""What a batch script says: every decision of it, made here; the template only spells it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.files.image_view import Catalogue, Pair, has_gpus, image_name
from provisioner.files.launchers import LAUNCHERS, Launch, Target
from provisioner.files.packages import pip_arguments
from provisioner.files.quoting import SecretFile, Variable, Word, sh
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provisioner.files.site import Site, SlurmSite
    from provisioner.stack.lock import Lock
    from provisioner.stack.request import Job


@value
class JobView:
    """One batch script. `directives` in the order that sites use."""

    header: str
    summary: tuple[str, ...]
    login_shell: bool
    directives: tuple[Pair, ...]
    modules: tuple[str, ...]
    gpus: bool
    launch: Launch
    exports: tuple[tuple[str, Word], ...]
    make: tuple[str, ...]
    command: tuple[str | Word, ...]


def job_view(job: Job, lock: Lock, site: Site, rows: Catalogue, header: str) -> JobView:
    """The view of `job`; the lock has passed `check_lock`."""
    stack = lock.stack
    gpus = job.gpus_per_node if job.gpus_per_node is not None else int(has_gpus(stack))
    target = Target(
        name=image_name(stack),
        folder=site.slurm.image_folder,
        python=stack.python,
        gpus=gpus > 0,
        mounts=job.mounts,
        requirements=(*_pip_words(lock, site, rows.indexes), "-r", "requirements.txt"),
    )
    launch = LAUNCHERS[job.launcher](target)
    command: tuple[str | Word, ...] = job.command or ("python", launch.smoke)
    return JobView(
        header=header,
        summary=_summary(lock, rows, gpus),
        login_shell=bool(site.slurm.modules),
        directives=_directives(job, gpus, site.slurm),
        modules=site.slurm.modules,
        gpus=gpus > 0,
        launch=launch,
        exports=tuple(launch.exports.items()),
        make=tuple(sh(words) for words in launch.make),
        command=(*launch.srun, *launch.prefix, *command),
    )


def _summary(lock: Lock, rows: Catalogue, gpus: int) -> tuple[str, ...]:
    stack = lock.stack
    on = f"CUDA {stack.cuda}" if gpus else "the CPU"
    driver = f", driver {stack.min_driver} or newer on the node" if gpus and stack.min_driver else ""
    return (f"{rows.framework.name} {stack.version} ({stack.variant}) on {on}{driver}.",)


def _pip_words(lock: Lock, site: Site, indexes: Mapping[str, str | None]) -> tuple[str | Word, ...]:
    """The arguments of pip as a user types them on a login node: a secret address is the variable that holds it."""
    words = [word for flag in pip_arguments(lock, site, indexes, in_build=False) for word in flag]
    return tuple(_typed(word) for word in words)


def _typed(word: str | Word) -> str | Word:
    if isinstance(word, str):
        return word
    return Word(parts=tuple(Variable(name=part.id) if isinstance(part, SecretFile) else part for part in word.parts))


def _directives(job: Job, gpus: int, slurm: SlurmSite) -> tuple[Pair, ...]:
    """The options of sbatch, in the order that sites use: name, nodes, tasks, CPUs, memory, GPUs, time, output, account."""
    kind = f"{slurm.gpu_type}:" if slurm.gpu_type else ""
    # --gres counts per node and holds on every release and SelectType; the others need select/cons_tres.
    option, count = {
        "gres": ("gres", f"gpu:{kind}{gpus}"),
        "gpus-per-node": ("gpus-per-node", f"{kind}{gpus}"),
        "gpus": ("gpus", f"{kind}{gpus * job.nodes}"),
    }[slurm.gpu_request]
    options: Mapping[str, object] = {
        "job-name": job.name,
        "nodes": job.nodes,
        "ntasks": 1,
        "cpus-per-task": job.cpus_per_gpu * max(gpus, 1),
        "mem": job.mem,
        option: count if gpus else None,
        "time": job.time,
        "output": "%x-%j.out",
        "partition": slurm.partition,
        "account": slurm.account,
        "qos": slurm.qos,
        "constraint": slurm.constraint,
    }
    return tuple(Pair(name=name, text=str(text)) for name, text in options.items() if text is not None)
