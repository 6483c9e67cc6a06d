"""From what the user typed to the values that the arrows take: matrix, request, site, hosts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from provisioner.errors import RequestError, UsageError
from provisioner.values import replace, value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.facts import HostFacts
    from provisioner.files.site import Site
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.request import Request


@value
class Asked:
    """The options of `resolve` as they were typed; None and () are what was not."""

    requirements: tuple[str, ...] = ()
    gpu: tuple[str, ...] = ()
    driver: str | None = None
    python: str | None = None
    os_: str | None = None
    platform: str | None = None
    variant: str | None = None
    image: str | None = None
    facts: Path | None = None
    request_file: Path | None = None
    site: Path | None = None
    allow: tuple[str, ...] = ()
    prefer: str | None = None
    offline: bool = False


@value
class Gathered:
    """A request with the site it is for, and what has to be said about where it came from."""

    request: Request
    named_site: Site | None = None  # None: no site file was named, and the user has none
    said: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()  # whose facts the request was made of
    unseen: str | None = None  # why the question cannot be answered: nothing was named and this machine cannot say

    @property
    def site(self) -> Site:
        """The site; one without mirrors where none was named. Only what asks for it loads what it is made of."""
        from provisioner.files.site import Site

        return self.named_site or Site()


def matrix_with(overlay_file: Path | None) -> Matrix:
    """The shipped matrix, with the rows that `matrix refresh` wrote for this user, and those of an overlay on top."""
    from provisioner.stack.compiled import shipped_matrix

    matrix = shipped_matrix()
    own = own_rows()
    for path in filter(None, (own if own.is_file() else None, overlay_file)):
        from provisioner.decode import read_text
        from provisioner.errors import MatrixError
        from provisioner.stack.matrix import overlay

        # rows that were refreshed before the tool was updated do not undo what came with the update
        matrix = overlay(matrix, read_text(path, MatrixError), str(path), newer=path == own)
    return matrix


def own_rows() -> Path:
    """The file of rows that `matrix refresh --write` keeps where the tool is installed."""
    from provisioner.resources import data_folder

    return data_folder() / "matrix.yaml"


def site_of(path: Path | None) -> Site:
    """The site that was named, else the user's own, else one without mirrors."""
    from provisioner.files.site import Site

    return _named_site(path) or Site()


def _named_site(path: Path | None) -> Site | None:
    """The site that was named, else the user's own, else None."""
    from provisioner.resources import config_folder

    own = config_folder() / "site.yaml"
    if path is None and not own.is_file():
        return None
    from provisioner.files.site import load_site

    return load_site(path or own)


def read_request(path: Path) -> Request:
    """request.yaml, decoded; a lock in its place is told apart, since it is the next file that everyone has."""
    from provisioner.decode import decode, read_text
    from provisioner.stack.request import Request
    from provisioner.values import Problem

    text = read_text(path, RequestError)
    if "\nstack:" in text and "\npins:" in text:
        hint = f"render it: provisioner render {path} --to DIR"
        raise RequestError([Problem(file=str(path), message="this is a lock, and a request is wanted here")], hint=hint)
    return decode(text, str(path), Request, RequestError)


def gather(asked: Asked, matrix: Matrix) -> Gathered:
    """The request that flags, file and facts make together: flags replace fields of the file, facts fill what is free.

    With neither a GPU nor facts, this machine is looked at, and that is said.
    """
    from provisioner.stack.request import Request

    base = read_request(asked.request_file) if asked.request_file else Request()
    typed = {
        "packages": asked.requirements,
        "gpus": asked.gpu,
        "driver": asked.driver,
        "python": asked.python,
        "os": asked.os_,
        "platform": asked.platform,
        "variant": asked.variant,
        "image": asked.image,
        "allow": asked.allow,
        "prefer": asked.prefer,
    }
    for name, entry in typed.items():
        texts = (entry,) if isinstance(entry, str) else entry or ()
        if any(not text.strip() for text in texts):  # a variable that is not set, and never a free choice
            raise UsageError(f"{name} is given and empty", hint="name it, or leave the option out")
    if base.pool and asked.gpu:
        base = replace(base, pool=())
    elif base.pool and asked.driver:
        base = replace(base, pool=tuple(replace(member, driver=asked.driver) for member in base.pool))
    request = replace(base, **{name: entry for name, entry in typed.items() if entry})
    site = _named_site(asked.site)
    if asked.facts is not None:
        request, said, hosts = _with_facts(request, asked, matrix)
        return Gathered(request=request, named_site=site, said=said, hosts=hosts)
    if not request.gpus and not request.pool:
        return _with_this_machine(request, site, matrix)
    return Gathered(request=request, named_site=site)


#: A request, what is said of where it came from, and the hosts whose facts it was made of.
_Filled = tuple["Request", tuple[str, ...], tuple[str, ...]]


def _with_facts(request: Request, asked: Asked, matrix: Matrix) -> _Filled:
    """Facts of hosts, recordings of hosts, or pasted nvidia-smi, fill the fields that are free."""
    from provisioner.decode import read_text

    path = asked.facts
    if path is None:
        return request, (), ()
    if str(path).startswith("replay:"):
        return _of_hosts(request, _replayed(Path(str(path).removeprefix("replay:"))), matrix, str(path))
    source = "standard input" if str(path) == "-" else str(path)
    text = sys.stdin.read() if str(path) == "-" else read_text(path, RequestError)
    if text.lstrip().startswith("{") or text.lstrip().startswith("format:"):
        from provisioner.facts import read_facts

        return _of_hosts(request, read_facts(text, source), matrix, source)
    from provisioner.facts import gpus_from_nvidia_smi

    gpus, driver, _ = gpus_from_nvidia_smi(text)
    if not gpus:
        message = f"{source} is neither facts.json nor an output of nvidia-smi that names a GPU"
        raise UsageError(message, hint="paste the whole output of `nvidia-smi`, or of `nvidia-smi -L`")
    names = tuple(dict.fromkeys(gpu.name for gpu in gpus))
    if cut := [name for name in names if name.endswith("...")]:
        hint = "paste `nvidia-smi -L`, or `nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv`"
        raise UsageError(f"{source}: nvidia-smi cut the name {cut[0]!r}, which may be several products", hint=hint)
    changes: dict[str, object] = {} if request.gpus else {"gpus": names}
    if driver and request.driver == "any":
        changes["driver"] = driver
    told = f"{source}: {', '.join(names)}" + (f", driver {driver}" if driver else ", no driver version in it")
    return replace(request, **changes), (told,), ()


def _of_hosts(request: Request, facts: Sequence[HostFacts], matrix: Matrix, source: str) -> _Filled:
    from provisioner.stack.request import request_of_facts

    filled = request_of_facts(facts, matrix, request)
    hosts = () if request.gpus or request.pool else tuple(host.host for host in facts)
    many = f": {len(facts)} hosts of {len(filled.pool)} kinds" if filled.pool and not request.pool else ""
    return filled, (f"GPUs and driver are those of {source}{many}",), hosts


def _replayed(folder: Path) -> tuple[HostFacts, ...]:
    """The facts in a recording, or in every recording that a folder holds (as `probe --record` writes them), by their names."""
    from provisioner.hosts.probe import probe
    from provisioner.hosts.recording import ReplayRunner

    inside = sorted(path.parent for path in folder.glob("*/recording.yaml")) if folder.is_dir() else []
    if (folder / "recording.yaml").is_file() or not inside:
        return (probe(ReplayRunner(folder, host=folder.name)),)
    return tuple(probe(ReplayRunner(path, host=path.name)) for path in inside)


def _with_this_machine(request: Request, site: Site | None, matrix: Matrix) -> Gathered:
    """Nothing was named: the GPUs of this machine, said plainly, or why it cannot say."""
    from provisioner.edges.local import LocalRunner
    from provisioner.hosts.probe import probe
    from provisioner.stack.request import request_of_facts

    facts = probe(LocalRunner(), ("system", "machine", "glibc", "gpus", "driver", "virtualization"))
    if not facts.gpus.known or not facts.gpus.found:
        why = facts.gpus.why_not or "it has no NVIDIA GPU that a driver reports"
        return Gathered(request=request, named_site=site, unseen=f"no GPU was named, and this machine cannot say one: {why}")
    names = ", ".join(dict.fromkeys(gpu.name for gpu in facts.gpus.found))
    said = (f"no GPU was named: this machine's are used ({names})",)
    return Gathered(request=request_of_facts((facts,), matrix, request), named_site=site, said=said)
