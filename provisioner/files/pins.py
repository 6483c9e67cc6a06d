"""The whole dependency set of a stack, pinned with hashes: what uv is asked, and what its answer means. Pure; an edge runs uv.

The framework and its companions come from the variant's index and from nowhere else, everything else never from there. That keeps
a build of the same version with another CUDA out of the set, and a stranger's package of the same name too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Protocol

from provisioner.errors import CommandTimedOut, NoStackError, ProvisionerError, UsageError
from provisioner.files.site import DEFAULT_INDEX, NO_INDEX, Site, index_address, read_address, secrets_of
from provisioner.stack.lock import Pin, Pins, Refusal
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from provisioner.commands import Completed
    from provisioner.stack.lock import Stack

#: The oldest C library of which wheels are asked for when the image's is not known, and the newest that uv has a name for.
_GLIBC, _NEWEST = (2, 17), (2, 40)
_MACHINES = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
_NAME = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)")
_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)", re.MULTILINE)
_EXACT = re.compile(r"[A-Za-z0-9._-]+(\[[^\]]*\])?\s*==\s*[A-Za-z0-9.]+")  # one version, without a local part
_HASH = re.compile(r"--hash=(sha\d+:[0-9a-f]+)")
_ADDRESS = re.compile(r"(?:https?|file)://[^\s)`'\"]+")


class Compile(Protocol):
    """`uv pip compile` on the text of a pyproject.toml (`edges.uv.Uv`)."""

    def __call__(
        self,
        project: str,
        options: tuple[str, ...],
        *,
        ca: str | None = ...,
        variables: Mapping[str, str] = ...,
        secrets: tuple[str, ...] = ...,
    ) -> Completed:
        """Run it and say what it did."""
        ...


@value
class Places:
    """Where uv looks. `framework`: the address of the variant's index, where that is not the default; `default` None: uv's own.

    A site that must not ask any other index than its own has `alone`: then there is no default beside what is named here.
    """

    framework: str | None = None
    default: str | None = None
    links: tuple[str, ...] = ()
    alone: bool = False


@value
class Around:
    """What surrounds the question: the site, the matrix's addresses of indexes, and the environment that secrets are read from.

    `glibc` is the version in the image, empty where it is not known.
    """

    site: Site
    indexes: Mapping[str, str | None]
    environment: Mapping[str, str] = field(default_factory=dict)
    glibc: tuple[int, ...] = ()
    offline: bool = False


def pin(stack: Stack, companions: Collection[str], around: Around, compile_: Compile) -> Pins:
    """The pins of `stack.packages` and of all that they need, with hashes; why there are none where no index answers.

    `companions` are the packages that belong to the framework. NoStackError with the resolver's reason when the packages do not
    fit together; ProvisionerError when uv cannot do its work.
    """
    own = frozenset(map(normal, (stack.framework, *companions)))
    where = places(stack, around)
    # A folder of wheels can hold several builds of one release; an index of a variant has only its own.
    if stack.index != DEFAULT_INDEX and where.framework is None:
        exact = tuple(
            f"{one}+{stack.variant}" if normal(name_of(one)) in own and _EXACT.fullmatch(one) else one for one in stack.packages
        )
        try:
            return _checked(_compiled(exact, stack, own, where, around, compile_), stack)
        except NoStackError:  # builds for arm64 had no suffix for years
            pass
    return _checked(_compiled(stack.packages, stack, own, where, around, compile_), stack)


def _compiled(
    wanted: tuple[str, ...], stack: Stack, own: frozenset[str], where: Places, around: Around, compile_: Compile
) -> Pins:
    proxies = around.site.proxies
    named = (("HTTP_PROXY", proxies.http), ("HTTPS_PROXY", proxies.https), ("NO_PROXY", proxies.no))
    variables = {name: read_address(text, around.environment) for name, text in named if text}
    while True:
        try:
            done = compile_(
                project_text(wanted, stack.python, own, where),
                options(stack, around.glibc, offline=around.offline),
                ca=around.site.ca_pem,
                variables=variables,
                secrets=secrets_of(around.site, around.environment),
            )
        except CommandTimedOut:
            return Pins(why_not="the resolver did not finish in its time")
        if not done.ok:
            return _failed(done.stderr, stack, where)
        found = read(done.stdout, stack, own)
        # A companion that only another package asks for came from the default index: ask for it by name, then it has its own.
        asked = {normal(name_of(one)) for one in wanted}
        strays = tuple(entry.name for entry in found if normal(entry.name) in own - asked)
        if not strays or where.framework is None:
            return Pins(packages=found, hashed=all(entry.hashes for entry in found))
        wanted = (*wanted, *strays)


def _checked(pins: Pins, stack: Stack) -> Pins:
    """The pins, unless the build that was found says that it is another variant than the stack's."""
    for entry in pins.packages:
        _, plus, tag = entry.version.partition("+")
        if plus and normal(entry.name) == normal(stack.framework) and tag != stack.variant:
            fact = f"{entry.name} {entry.version} is what is served, and the stack needs the build {stack.variant}"
            refusal = Refusal(rule="packages", finding="build-not-published", fact=fact)
            raise NoStackError(f"the build is not there: {fact}", [refusal], hint=f"check where the site says {stack.index} is")
    return pins


def places(stack: Stack, around: Around) -> Places:
    """Where uv looks for this stack at this site; ProvisionerError when nobody says where the variant's index is."""
    site = around.site
    default = index_address(site, DEFAULT_INDEX, around.indexes.get(DEFAULT_INDEX))
    framework = NO_INDEX
    if stack.index != DEFAULT_INDEX:
        found = index_address(site, stack.index, around.indexes.get(stack.index))
        if found is None:
            raise ProvisionerError(
                f"nobody says where the index {stack.index} is",
                hint=f"name its address in the site file: indexes: {{{stack.index}: https://…}}",
            )
        framework = found
    return Places(
        framework=None if framework == NO_INDEX else read_address(framework, around.environment),
        default=None if default in {None, NO_INDEX} else read_address(str(default), around.environment),
        links=tuple(read_address(place, around.environment) for place in site.wheels),
        alone=default == NO_INDEX,
    )


def project_text(wanted: Sequence[str], python: str, own: Collection[str], where: Places) -> str:
    """The pyproject.toml that asks for `wanted`: per-package indexes can be said nowhere else. JSON strings are TOML strings."""
    lines = ["[project]", 'name = "request"', 'version = "0"', f"requires-python = {json.dumps(f'=={python}.*')}"]
    lines += [f"dependencies = {_toml(list(wanted))}", "[tool.uv]"]
    if where.links:
        lines.append(f"find-links = {_toml(list(where.links))}")
    if where.alone and where.framework is None:
        lines.append("no-index = true")
        return "\n".join(lines) + "\n"
    # Without a default of its own uv would ask the one that it brings. The first place of wheels can stand in for it, and where
    # there is none the variant's index has to serve everything.
    stand_in = where.alone and not where.links
    default = where.default or (where.links[0] if where.alone and where.links else None)
    if where.framework is not None and not stand_in:
        lines.append("[tool.uv.sources]")
        named = dict.fromkeys(normal(name_of(one)) for one in wanted)
        lines += [f'{_toml(name)} = {{ index = "framework" }}' for name in named if name in own]
    if where.framework is not None:
        lines += ["[[tool.uv.index]]", 'name = "framework"', f"url = {_toml(where.framework)}"]
        lines.append("default = true" if stand_in else "explicit = true")
    if default is not None:
        lines += ["[[tool.uv.index]]", 'name = "default"', f"url = {_toml(default)}", "default = true"]
        lines += ['format = "flat"'] if where.default is None else []
    return "\n".join(lines) + "\n"


def _toml(thing: str | list[str]) -> str:
    return json.dumps(thing, ensure_ascii=False)


def options(stack: Stack, glibc: tuple[int, ...] = (), *, offline: bool = False) -> tuple[str, ...]:
    """The options of `uv pip compile`. Nothing is built: that would run the code of packages on this machine, and for it."""
    known = max(_GLIBC, min(glibc[:2], _NEWEST)) if len(glibc) > 1 else (2, 28)
    wheels = known if known == _GLIBC or known >= (2, 31) else ((2, 28) if known >= (2, 28) else _GLIBC)
    platform = f"{_MACHINES[stack.platform]}-manylinux_{wheels[0]}_{wheels[1]}"
    words = ["--quiet", "--generate-hashes", "--no-header", "--no-annotate", "--no-build"]
    words += ["--python-version", stack.python, "--python-platform", platform]
    return (*words, *(["--offline"] if offline else []))


def read(output: str, stack: Stack, own: Collection[str]) -> tuple[Pin, ...]:
    """The pins in a requirements.txt, each with the symbolic index that it came from by construction."""
    starts = list(_PIN.finditer(output))
    ends = [start.start() for start in starts[1:]] + [len(output)] * bool(starts)
    return tuple(
        Pin(
            name=start[1],
            version=start[2],
            hashes=tuple(sorted(_HASH.findall(output[start.end() : end]))),
            index=stack.index if normal(start[1]) in own else DEFAULT_INDEX,
        )
        for start, end in zip(starts, ends, strict=True)
    )


def silent(index: str) -> str:
    """How `why_not` begins where an index does not answer."""
    return f"the package index {index} does not answer"


def normal(name: str) -> str:
    """The one spelling of a package's name (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement: str) -> str:
    """The name in a requirement such as `torch==2.9.1`; ProvisionerError when there is none."""
    match = _NAME.match(requirement)
    if match is None:
        raise ProvisionerError(f"{requirement[:80]!r} is not a requirement (such as torch==2.9.1)")
    return match[1]


def _failed(stderr: str, stack: Stack, where: Places) -> Pins:
    """Why there are no pins, when it is a matter of reach; NoStackError when the packages do not fit together.

    A lock holds no address, so the indexes are called by their symbolic names.
    """
    failing = re.search(rf"Failed to (?:fetch|query)[^\n]*?({_ADDRESS.pattern})", stderr)
    if failing or re.search(r"error sending request|Request failed after|dns error|client error \(Connect\)", stderr):
        address = failing[1] if failing else ""
        index = stack.index if where.framework and address.startswith(where.framework.rstrip("/")) else DEFAULT_INDEX
        return Pins(why_not=f"{silent(index)}: {_cause(stderr)}")
    if re.search(r"network (?:was|is) disabled|network connectivity is disabled", stderr):
        return Pins(why_not="the indexes were not asked (offline), and uv's cache does not have everything")
    if refused := re.search(rf"({_ADDRESS.pattern})[^\n]*lack of valid authentication credentials \((\d+ [A-Za-z ]+)\)", stderr):
        # uv goes on as if the index had no such package; nobody knows whether it has
        framework = re.sub("//[^/]*@", "//", where.framework or "").rstrip("/")  # uv names it without user and password
        index = stack.index if framework and refused[1].rstrip("/") == framework else DEFAULT_INDEX
        return Pins(why_not=f"{silent(index)}: {refused[refused.lastindex or 0]}: it takes a name and password, from netrc")
    if source := re.search(r"[Bb]ecause (?!request\b)(\S+?)(?:==\S+)? has no usable wheels", stderr):
        return Pins(why_not=f"{source[1]} is published as source only for this platform, and nothing is built to lock")
    if "No solution found" in stderr:
        reason = _reason(stderr)
        refusal = Refusal(rule="packages", finding="packages-do-not-fit", fact=reason)
        absent = re.search(r"there is no version of|was not found in", reason)
        hint = "check name and version; a mirror may lack it" if absent else "loosen one of the requirements that are named"
        raise NoStackError(f"the packages do not fit together: {reason}", [refusal], hint=hint)
    if "Building source distributions is disabled" in stderr:  # our own project: uv could not read what it depends on
        raise UsageError("one of these is not a requirement: " + ", ".join(stack.packages), hint="write it as torch==2.9.1")
    raise ProvisionerError(f"uv cannot lock: {_cause(stderr)}", hint="try `uv pip compile` with the same requirements")


def _cause(stderr: str) -> str:
    """The innermost cause that uv names, without addresses."""
    lines = [re.sub(r"^(?:error|cause|Caused by):\s*", "", line.strip()) for line in stderr.splitlines()]
    causes = [line for line in lines if line and not line.startswith("hint:")]
    return _ADDRESS.sub("…", causes[-1] if causes else "it gave no reason")[:300]


def _reason(stderr: str) -> str:
    """The resolver's reason in our words: `request` is the name that we gave the project."""
    text = " ".join(
        line.strip() for line in stderr.splitlines() if line.strip() and not line.strip().startswith(("hint", "error:"))
    )
    text = re.sub(r"^(?:cause: |╰─▶ |\u00d7 )+", "", text)
    text = re.sub(r"\b(your project|request) depends on", "the request asks for", text)
    text = re.sub(
        r",? ?(?:and )?we can conclude that (?:your requirements|your project's requirements) are unsatisfiable\.?$", "", text
    )
    return _ADDRESS.sub("…", text)[:800]
