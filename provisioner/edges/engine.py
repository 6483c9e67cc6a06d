"""Engines: the docker command through a Runner, for every remote action and for builds; the docker SDK on the local socket.

The SDK has no BuildKit, and its `ssh://` would be a second SSH stack beside ours; hence the command. A build's context goes in
on standard input, so nothing is written on the host.
"""

from __future__ import annotations

import contextlib
from secrets import token_hex
from typing import TYPE_CHECKING

from provisioner.commands import TIMEOUTS, Command
from provisioner.edges.engine_text import (
    build_failed,
    build_lines,
    checked_reference,
    engine_error,
    image_facts,
    is_absent,
    missing,
    pushed_digest,
)
from provisioner.edges.variables import with_variables
from provisioner.engines import NOT_STARTED, BuildOptions, Image, RunOptions
from provisioner.errors import EngineError, ProvisionerError
from provisioner.values import replace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from provisioner.commands import Completed, Runner
    from provisioner.engines import Engine, Gpus, ImageFacts, Mount, Tell

NOT_FOUND = 127
LABEL = "io.gpu-provisioner.run"
_BUILD = BuildOptions()
_RUN = RunOptions()
_GPU_ARGUMENTS: dict[Gpus, tuple[str, ...]] = {
    "none": (),
    "gpus": ("--gpus", "all"),
    "cdi": ("--device", "nvidia.com/gpu=all"),
}


def engine_on(runner: Runner, program: str = "docker") -> Engine:
    """The engine on the host of `runner`: the SDK for this machine's docker, the command for everything else."""
    from provisioner.edges.engine_sdk import SdkEngine, local_address

    if runner.host == "local" and program == "docker" and not local_address().startswith("ssh://"):
        return SdkEngine(runner)
    return CommandEngine(runner, program)


def container_name() -> str:
    """A name that no other run has: what is left of a run can be told, and removed, by it."""
    return f"provisioner-{token_hex(6)}"


class CommandEngine:
    """The engine behind the docker command on the host of a Runner."""

    def __init__(self, runner: Runner, program: str = "docker") -> None:
        """Use `program` (docker or podman) on the host of `runner`."""
        self._runner = runner
        self._program = program

    @property
    def host(self) -> str:
        """The host it runs on."""
        return self._runner.host

    def build(self, context: bytes, tag: str, options: BuildOptions = _BUILD, *, tell: Tell | None = None) -> Image:
        """Build with buildx; see `engines.Engine`."""
        # By variable and not by option, which buildx before 0.10 does not know: an attestation carries the time of the build,
        # and the same tree would get another id each time.
        argv = ("env", "BUILDX_NO_DEFAULT_ATTESTATIONS=1", self._program, *build_argv(checked_reference(tag), options))
        carried = {variable: options.secrets[name] for variable, name in secret_variables(options.secrets)}
        argv, stdin = with_variables(argv, context, carried)
        command = Command(argv=argv, stdin=stdin, timeout=options.timeout, secrets=tuple(options.secrets.values()))
        done = self._runner.run(command, tell=build_lines(tell) if tell else None)
        if not done.ok:
            output = _joined(done)
            raise missing(self.host, self._program, done.exit, output) or build_failed(self.host, tag, output)
        facts = self.inspect(tag)
        if facts is None:
            raise EngineError(f"{self.host}: {tag} was built and is not among the engine's images", hint="docker buildx ls")
        built = Image(reference=tag, id=facts.id)
        return replace(built, digest=self._push(tag, tell)) if options.push else built

    def _push(self, tag: str, tell: Tell | None) -> str | None:
        done = self._docker("push", tag, timeout=TIMEOUTS["push"], tell=tell)
        if not done.ok:
            raise engine_error(self.host, f"cannot push {tag}", _joined(done))
        return pushed_digest(done.stdout)

    def run(self, image: str, argv: tuple[str, ...], options: RunOptions = _RUN, *, tell: Tell | None = None) -> Completed:
        """Run in a container; see `engines.Engine`."""
        name = container_name()
        command = Command(
            argv=(self._program, *run_argv(checked_reference(image), argv, options, name)),
            stdin=options.stdin,
            timeout=options.timeout,
        )
        try:
            done = self._runner.run(command, tell=tell)
        except BaseException:  # a time-out, a cut, Ctrl-C: the client is dead, its container is not
            with contextlib.suppress(ProvisionerError):
                self._docker("rm", "--force", name)
            raise
        if done.exit in {NOT_STARTED, NOT_FOUND}:
            if absent := missing(self.host, self._program, done.exit, done.stderr):
                raise absent
            if is_absent(done.stderr):
                raise no_image(self.host, image)
        return done

    def inspect(self, image: str) -> ImageFacts | None:
        """Look at an image; see `engines.Engine`."""
        done = self._docker("image", "inspect", checked_reference(image))
        if done.ok:
            return image_facts(done.stdout)
        if is_absent(done.stderr):
            return None
        raise engine_error(self.host, f"cannot look at the image {image}", _joined(done))

    def pull(self, reference: str, *, tell: Tell | None = None) -> ImageFacts:
        """Fetch an image; see `engines.Engine`."""
        done = self._docker("pull", checked_reference(reference), timeout=TIMEOUTS["download"], tell=tell)
        if not done.ok:
            raise engine_error(self.host, f"cannot pull {reference}", _joined(done))
        facts = self.inspect(reference)
        if facts is None:
            raise EngineError(f"{self.host}: {reference} was pulled and is not among the engine's images")
        return facts

    def tag(self, image: str, reference: str) -> None:
        """Name an image; see `engines.Engine`."""
        done = self._docker("image", "tag", checked_reference(image), checked_reference(reference))
        if not done.ok:
            raise engine_error(self.host, f"cannot name {image} {reference}", _joined(done))

    def save(self, reference: str, path: str) -> None:
        """Write an image to a file; see `engines.Engine`."""
        done = self._docker("image", "save", "--output", path, checked_reference(reference), timeout=TIMEOUTS["download"])
        if not done.ok:
            raise engine_error(self.host, f"cannot save {reference} to {path}", _joined(done))

    def remove(self, image: str) -> None:
        """Remove an image; see `engines.Engine`."""
        done = self._docker("image", "rm", checked_reference(image))
        if not done.ok and not is_absent(done.stderr):
            raise engine_error(self.host, f"cannot remove the image {image}", _joined(done))

    def close(self) -> None:
        """Close the runner's connection."""
        self._runner.close()

    def _docker(self, *arguments: str, timeout: float = TIMEOUTS["quick"], tell: Tell | None = None) -> Completed:
        done = self._runner.run(Command(argv=(self._program, *arguments), timeout=timeout), tell=tell)
        if not done.ok and (absent := missing(self.host, self._program, done.exit, _joined(done))):
            raise absent
        return done


def build_argv(tag: str, options: BuildOptions) -> tuple[str, ...]:
    """The arguments of the build, which reads its context from standard input."""
    words = ["buildx", "build", "--load", "--progress=plain", "--tag", tag]
    if options.network:
        words += ["--network", "default" if options.network == "bridge" else options.network]
    if options.platform:
        words += ["--platform", options.platform]
    for name, text in options.args.items():
        words += ["--build-arg", f"{name}={text}"]
    for name, text in options.labels.items():
        words += ["--label", f"{name}={text}"]
    for variable, name in secret_variables(options.secrets):
        words += ["--secret", f"id={name},env={variable}"]
    return (*words, "-")


def secret_variables(ids: Iterable[str]) -> list[tuple[str, str]]:
    """The environment variable that carries each secret to buildx, and the secret's id."""
    return [(f"PROVISIONER_SECRET_{number}", name) for number, name in enumerate(ids)]


def run_argv(image: str, argv: tuple[str, ...], options: RunOptions, name: str) -> tuple[str, ...]:
    """The arguments of `docker run`: nothing that the program does not need."""
    words = ["run", "--rm", "--pull", "never", "--name", name, "--label", f"{LABEL}={name}"]
    words += ["--network", options.network, "--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--read-only"]
    # what it prints is read here; a container that does not stop printing would fill the host's disk
    words += ["--pids-limit", str(options.pids), "--log-driver", "none"]
    for folder in options.tmpfs:
        # exec: compilers such as Triton load what they have just written there
        words += ["--tmpfs", f"{folder}:{TMPFS}"]
    words += _GPU_ARGUMENTS[options.gpus]
    for flag, text in (("--user", options.user), ("--workdir", options.workdir)):
        words += [flag, text] if text else []
    for flag, count in (("--memory", options.memory), ("--shm-size", options.shm)):
        words += [flag, str(count)] if count else []
    for variable, text in options.env.items():
        words += ["--env", f"{variable}={text}"]
    for mount in options.mounts:
        words += ["--mount", mount_text(mount)]
    if options.stdin:
        words.append("--interactive")
    # The image's entry point would stand before argv, and those of some images print banners.
    return (*words, "--entrypoint", argv[0], image, *argv[1:])


TMPFS = "rw,exec,nosuid,nodev,mode=1777"


def mount_text(mount: Mount) -> str:
    """A mount as docker's option writes it: one CSV record, hence the quotes."""
    fields = ["type=bind", f"source={mount.source}", f"target={mount.target}", *(["readonly"] if mount.read_only else [])]
    return ",".join('"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text for text in fields)


def no_image(host: str, image: str) -> EngineError:
    """EngineError for an image that is not there."""
    return EngineError(
        f"{host}: no image {image}", hint=f"build it (provisioner build) or fetch it (docker pull {image}) there first"
    )


def _joined(done: Completed) -> str:
    return f"{done.stdout}{done.stderr}"
