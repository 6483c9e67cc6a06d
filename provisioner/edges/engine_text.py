"""What docker and podman print, and what it means: pure functions on their output, shared by both engines.

The texts were taken from docker 20.10, 26.1 and 28.2 and buildx 0.13; the tests hold them.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from provisioner.engines import ImageFacts
from provisioner.errors import BuildFailed, EngineError, EngineMissing, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

TAIL_LINES = 30
#: The longest line of an output that is shown again, and the longest name of a step, in characters.
_LINE, _STEP = 300, 80
_REFERENCE = re.compile(r"[A-Za-z0-9\[][A-Za-z0-9._:/@\[\]-]{0,400}")

_INSTALL = (
    "install an engine with BuildKit: docker.io and docker-buildx (Debian 13, Ubuntu), "
    "or docker-ce and docker-buildx-plugin from Docker's own repository"
)
#: What docker says when its daemon cannot be used, what that is, and what to do.
_MISSING: tuple[tuple[str, str, str], ...] = (
    (
        r"permission denied while trying to connect|PermissionError|dial unix \S+: connect: permission denied",
        "this user may not use the Docker daemon's socket",
        "add the user to the group docker (usermod -aG docker USER, then log in again), or use a rootless engine",
    ),
    (
        (
            r"Cannot connect to the Docker daemon|error during connect|failed to connect to the docker API|"
            r"Error while fetching server API version|Connection aborted|ConnectionRefusedError|No such file or directory'\)"
        ),
        "the Docker daemon does not answer",
        "start it (systemctl start docker) or point DOCKER_HOST at one that runs; its log: journalctl -u docker",
    ),
    (
        r"client version \S+ is too (?:new|old)",
        "the docker client and the daemon do not speak the same API version",
        "set DOCKER_API_VERSION to what the daemon supports, or update the older of the two",
    ),
    (
        (
            r"unknown command: docker buildx|'buildx' is not a docker command|unknown flag: --(?:load|progress)|"
            r"unknown shorthand flag.*buildx|BuildKit is enabled but the buildx component is missing"
        ),
        "docker has no buildx, so it cannot build with BuildKit",
        "install its plugin: docker-buildx (Debian 13, Ubuntu) or docker-buildx-plugin (Docker's own repository)",
    ),
)
#: Why builds and pulls fail most often, and what to do; the first that matches is given as hint.
_HINTS: tuple[tuple[str, str], ...] = (
    (
        (
            r"no such host|server misbehaving|i/o timeout|connection refused|network is unreachable|"
            r"Temporary failure in name resolution|Failed to establish a new connection|NewConnectionError"
        ),
        "that address cannot be reached from there: name mirrors and proxies in site.yaml (registries, indexes, wheels, proxies)",
    ),
    (
        r"x509|certificate verify failed|CERTIFICATE_VERIFY_FAILED|self[- ]signed certificate",
        "the site's own certificate authority is not trusted there: name it in site.yaml (ca_bundle)",
    ),
    (r"no space left on device", "free space where the engine keeps its data (docker system df, docker system prune)"),
    (
        r"toomanyrequests|pull rate limit",
        "the registry limits anonymous pulls: log in (docker login) or name a mirror in site.yaml",
    ),
    (
        r"pull access denied|unauthorized|authentication required|denied: requested access",
        "log in to the registry on that host (docker login), and check the reference",
    ),
    (
        r"manifest unknown|manifest for \S+ not found|/\S+:\S+: not found$",
        "check the reference and its tag; a mirror may lack it",
    ),
    (r"THESE PACKAGES DO NOT MATCH THE HASHES", "a mirror serves another file than the lock names: compare it, then lock again"),
    (r"exit code: 137|signal: killed|Killed", "the build ran out of memory: give it more, or compile with fewer jobs (MAX_JOBS)"),
)
#: What BuildKit puts before the reason, one layer of its own at a time.
_WRAPPING = re.compile(
    r"^(?:failed to solve(?: with frontend \S+)?: |rpc error: code = \w+ desc = |"
    r"failed to create LLB definition: |failed to compute cache key: )+"
)


def checked_reference(reference: str) -> str:
    """`reference`, when it has the form of an image reference or id and cannot be taken for an option; UsageError otherwise."""
    if not _REFERENCE.fullmatch(reference):
        raise UsageError(f"{reference!r} is not an image reference", hint="write it as registry/name:tag or name@sha256:…")
    return reference


def missing(host: str, program: str, code: int, text: str) -> EngineMissing | None:
    """EngineMissing when `text`, printed with exit code `code`, says that there is no usable engine; None otherwise."""
    if code == 127:  # noqa: PLR2004 - what a shell or env says of a program that is not there; in a container the text is another
        if re.search(rf"\b{re.escape(program)}['\u2019]?: (?:(?:command )?not found|No such file or directory)", text):
            return EngineMissing(f"{host}: no {program} command", hint=_INSTALL)
        return None
    for pattern, what, remedy in _MISSING:
        if found := re.search(rf"^.*(?:{pattern}).*$", text, re.MULTILINE):
            return EngineMissing(f"{host}: {what} ({last_line(found.group())})", hint=remedy)
    return None


def hint_for(text: str) -> str | None:
    """What to do about the failure that `text` tells of, when it is a common one."""
    return next((remedy for pattern, remedy in _HINTS if re.search(pattern, text, re.MULTILINE)), None)


def last_line(text: str) -> str:
    """The line that says why: the last one that is neither empty nor the advice to read the help."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not re.match(r"(?:Run|See) 'docker", line.strip())]
    line = lines[-1] if lines else "it said nothing"
    return re.sub(r"^(?:docker: )?(?:ERROR: |Error: )?(?:Error response from daemon: )?", "", line)


def engine_error(host: str, what: str, text: str) -> EngineError:
    """EngineError that says `what` was tried on `host`, and the reason that `text` ends with."""
    return EngineError(f"{host}: {what}: {last_line(text)}", hint=hint_for(text))


def build_failed(host: str, tag: str, output: str) -> BuildFailed:
    """BuildFailed from buildx's plain progress: the cause first, then the step, and the end of the output as its tail.

    A step can be a page long, and buildx prints it each time that it speaks of it. Here it stands once, cut to one line.
    """
    # buildx repeats the end of the failing step's log between two rules, headed ` > [2/5] RUN …:`
    found = re.search(r"^-{6}\n > (\[.+?\].*?|\S.*?):\n(.*?)^-{6}$", output, re.MULTILINE | re.DOTALL)
    step = _cut(re.sub(r"--(?:mount|network|security)=\S+ +", "", found[1]), _STEP) if found else ""
    reason = _WRAPPING.sub("", last_line(output))
    ended = re.fullmatch(r'process ".*" did not complete successfully: (exit code: \d+.*|.{0,80})', reason, re.DOTALL)
    cause = _cause(found[2]) if found and ended else None
    what = f"{cause} ({ended[1]}, at {step})" if ended and cause else f"{_cut(reason)}{f' (at {step})' if step else ''}"
    shown = output[: found.start()] if found and ended else output
    lines = [_cut(line) for line in shown.splitlines() if not re.match(r'#\d+ ERROR: process "', line)]
    return BuildFailed(f"{host}: the build of {tag} failed: {what}", tail="\n".join(lines[-TAIL_LINES:]), hint=hint_for(output))


def _cause(log: str) -> str | None:
    """The line of a step's log that says why it failed: the last that speaks of an error, else the last; None for no log.

    A line that is meant for programs (`PROVISIONER-SMOKE {"…`) is not one.
    """
    lines = [text for line in log.splitlines() if (text := re.sub(r"^\d+\.\d+ ", "", line).strip()) and ' {"' not in text]
    errors = [line for line in lines if re.search(r"error|fatal|cannot|^E: |^fail |not found|killed", line, re.IGNORECASE)]
    return _cut(" ".join((errors or lines or [""])[-1].split())) or None


def build_lines(tell: Callable[[str], None]) -> Callable[[str], None]:
    """`tell` for the progress of a build: long lines are cut, and what buildx repeats after a failure is left to BuildFailed."""
    ended = False

    def told(line: str) -> None:
        nonlocal ended
        ended = ended or line.rstrip() == "------"
        if not ended and not re.match(r'#\d+ ERROR: process "', line):
            tell(_cut(line))

    return told


def _cut(line: str, longest: int = _LINE) -> str:
    return line if len(line) <= longest else f"{line[:longest]} …"


def pushed_digest(output: str) -> str | None:
    """The digest in the last line of `docker push`: `1: digest: sha256:… size: 528`."""
    found = re.findall(r"digest: (sha256:[0-9a-f]{64})", output)
    return found[-1] if found else None


def image_facts(text: str) -> ImageFacts:
    """The facts in the JSON of `docker image inspect`, which is a list with one object; ValueError when it is not."""
    documents = json.loads(text)
    if not isinstance(documents, list) or len(documents) != 1:
        raise ValueError("not the JSON of one image")
    return facts_of(documents[0])


def facts_of(attributes: Mapping[str, Any]) -> ImageFacts:
    """The facts in one object of `docker image inspect`, the same that the engine's API sends."""
    config: Mapping[str, Any] = attributes.get("Config") or {}
    identity = str(attributes["Id"])
    architecture = "/".join(filter(None, (attributes.get("Os"), attributes.get("Architecture"), attributes.get("Variant"))))
    return ImageFacts(
        id=identity if ":" in identity else f"sha256:{identity}",  # podman leaves the algorithm out
        tags=tuple(attributes.get("RepoTags") or ()),
        digests=tuple(attributes.get("RepoDigests") or ()),
        platform=architecture,
        user=config.get("User") or "",
        labels=dict(config.get("Labels") or {}),
        env=dict(entry.partition("=")[::2] for entry in config.get("Env") or ()),
        entrypoint=tuple(config.get("Entrypoint") or ()),
        command=tuple(config.get("Cmd") or ()),
        size=int(attributes.get("Size") or 0),
    )


def is_absent(text: str) -> bool:
    """Whether `text` says that the engine does not have an image or container."""
    return (
        re.search(r"no such (?:image|container|object)|image not known|no container with name", text, re.IGNORECASE) is not None
    )
