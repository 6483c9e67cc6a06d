"""Launchers: how the step of a job reaches the stack on a node. One function each; a new launcher is a new function.

A launch says what must be there before the step starts, how it is made when it is not, what the script exports, and the words
between srun's own options and the program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal

from provisioner.files.quoting import SecretFile, Variable, Word
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable

    from provisioner.stack.request import Launcher

_SUBMITTED = Variable(name="SLURM_SUBMIT_DIR")
_WORKSPACE = "/workspace"


@value
class Target:
    """What is launched: the stack's name, where the site keeps such things, the Python, and the job's mounts."""

    name: str
    folder: str
    python: str
    gpus: bool
    mounts: tuple[str, ...]
    requirements: tuple[str | Word, ...]  # the arguments of pip that install the stack


@value
class Launch:
    """How a step starts. `needs` must pass `test -f` or `test -x`, else the script says `make` and ends."""

    needs: Word
    test: Literal["-f", "-x"]
    make: tuple[tuple[str | Word, ...], ...]
    exports: Mapping[str, Word]
    srun: tuple[Word, ...] = ()  # further options of srun
    prefix: tuple[Word, ...] = ()  # the words before the program
    smoke: str  # the smoke script as the step sees it


def _word(*parts: str | Variable | SecretFile) -> Word:
    return Word(parts=parts)


def _place(target: Target, suffix: str) -> Word:
    """Where the stack lies: in the site's folder, or below the folder that the job was submitted from."""
    if target.folder.startswith("/"):
        return _word(f"{target.folder.rstrip('/')}/{target.name}{suffix}")
    below = "" if target.folder == "." else f"{target.folder.removeprefix('./').rstrip('/')}/"
    return _word(_SUBMITTED, f"/{below}{target.name}{suffix}")


def venv(target: Target) -> Launch:
    """A virtual environment on a file system that the nodes share."""
    folder = f"{target.folder}/{target.name}"
    return Launch(
        needs=_place(target, "/bin/python"),
        test="-x",
        make=(
            (f"python{target.python}", "-m", "venv", folder),
            (f"{folder}/bin/pip", "install", *target.requirements),
        ),
        exports={
            "PATH": _word(*_place(target, "/bin:").parts, Variable(name="PATH")),
            "PYTHONNOUSERSITE": _word("1"),  # ~/.local must not shadow the environment
        },
        smoke="provisioner/smoke.py",
    )


def apptainer(target: Target) -> Launch:
    """An Apptainer image. The submit folder is /workspace; the home folder stays outside, with its ~/.local."""
    image = _place(target, ".sif")
    binds = (_word(_SUBMITTED, f":{_WORKSPACE}"), *(_word(mount) for mount in target.mounts))
    return Launch(
        needs=image,
        test="-f",
        make=(("apptainer", "build", f"{target.folder}/{target.name}.sif", f"docker-daemon://{target.name}:latest"),),
        exports={},
        prefix=(
            _word("apptainer"),
            _word("exec"),
            *((_word("--nv"),) if target.gpus else ()),
            _word("--no-home"),
            *(word for bind in binds for word in (_word("--bind"), bind)),
            _word("--pwd"),
            _word(_WORKSPACE),
            image,
        ),
        smoke="/opt/provisioner/smoke.py",
    )


def pyxis(target: Target) -> Launch:
    """An Enroot image by Slurm's Pyxis plugin. Its options stand at srun: at sbatch the script itself would run inside."""
    image = _place(target, ".sqsh")
    return Launch(
        needs=image,
        test="-f",
        make=(("enroot", "import", "-o", f"{target.folder}/{target.name}.sqsh", f"dockerd://{target.name}:latest"),),
        exports={},
        srun=(
            _word("--container-image=", *image.parts),
            _word("--container-mounts=", _SUBMITTED, ",".join((f":{_WORKSPACE}", *target.mounts))),
            _word(f"--container-workdir={_WORKSPACE}"),
            _word("--no-container-mount-home"),
        ),
        smoke="/opt/provisioner/smoke.py",
    )


LAUNCHERS: Mapping[Launcher, Callable[[Target], Launch]] = {"apptainer": apptainer, "pyxis": pyxis, "venv": venv}
