"""Options that several verbs share, and the values they become."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Callable

    Function = Callable[..., Any]
    Tell = Callable[[str], None]


class _File(click.Path):
    """A file or folder by its name. An empty one is a variable that was not set, and not the folder one happens to be in."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401 - click's
        """The path; the command line is wrong where it is empty."""
        if value == "":
            self.fail("it is given and empty; name it, or leave it out", param, ctx)
        return super().convert(value, param, ctx)


FILE = _File(path_type=Path)
_MACHINES = {"amd64": "linux/amd64", "x86_64": "linux/amd64", "arm64": "linux/arm64", "aarch64": "linux/arm64"}
PLATFORMS = click.Choice(["linux/amd64", "linux/arm64", *_MACHINES])


@value
class Common:
    """What every verb takes: how to print, how hosts are reached, which matrix answers."""

    json: bool = False
    force: bool = False
    matrix: Path | None = None
    inventory: Path | None = None
    ssh_config: Path | None = None
    known_hosts: Path | None = None
    accept_new_host_keys: bool = False
    fingerprints: Path | None = None


_COMMON = (
    click.option("--json", is_flag=True, help="Print the answer as one JSON object."),
    click.option("--force", is_flag=True, help="Overwrite files that the tool did not write."),
    click.option("--matrix", type=FILE, metavar="FILE", help="Rows on top of the shipped compatibility matrix."),
    click.option("--inventory", type=FILE, metavar="FILE", help="hosts.yaml (an example: examples/hosts.yaml)."),
    click.option("--ssh-config", type=FILE, metavar="FILE", help="Read this instead of ~/.ssh/config."),
    click.option("--known-hosts", type=FILE, metavar="FILE", help="Read this instead of ~/.ssh/known_hosts."),
    click.option(
        "--accept-new-host-keys", is_flag=True, help="Record unknown host keys, and say so; a changed key is never accepted."
    ),
    click.option(
        "--fingerprints",
        type=FILE,
        metavar="FILE",
        help="What new host keys must be: on each line `gpu01 SHA256:…`, or what ssh-keygen -lf prints for a known_hosts file.",
    ),
)


def _stack(function: Function, options: tuple[Callable[[Function], Function], ...]) -> Function:
    for option in reversed(options):
        function = option(function)
    return function


def common(function: Function) -> Function:
    """Add the options of every verb, and hand them to the verb as `common: Common`."""

    @functools.wraps(function)
    def verb(**given: Any) -> Any:  # noqa: ANN401 - a verb's own options and result
        names = Common.__dataclass_fields__
        return function(common=Common(**{name: given.pop(name) for name in names}), **given)

    return _stack(verb, _COMMON)


_REQUEST = (
    click.argument("requirements", nargs=-1, metavar="[REQUIREMENT...]"),
    click.option("--gpu", multiple=True, metavar="NAME|sm_XX|none", help="A kind of GPU: h100; may be repeated."),
    click.option("--driver", metavar="VERSION|BRANCH|any|upgrade", help="The driver that the hosts have; any; or upgrade."),
    click.option("--python", metavar="X.Y", help="The Python of the environment."),
    click.option("--os", "os_", metavar="ID", help="The hosts' system: ubuntu22.04, debian12."),
    click.option("--platform", type=PLATFORMS, help="The machine that will run it."),
    click.option("--variant", metavar="TAG", help="Hold this build variant: cu128, cpu."),
    click.option("--image", metavar="REF", help="Hold this base image."),
    click.option("--facts", type=click.Path(path_type=Path, allow_dash=True), help="facts.json or pasted nvidia-smi."),
    click.option("--request", "request_file", type=FILE, metavar="FILE", help="request.yaml; flags replace its fields."),
    click.option("--site", type=FILE, metavar="FILE", help="site.yaml: mirrors, proxies, CA, Slurm."),
    click.option("--allow", multiple=True, metavar="RULE", help="Override one rule, visibly."),
    click.option("--prefer", type=click.Choice(["native"]), help="native: rather an older release than a compatibility mode."),
    click.option("--offline", is_flag=True, help="Ask no index and no registry."),
)


def request(function: Function) -> Function:
    """Add the options that make a request; the verb gets them as one mapping `asked`."""

    @functools.wraps(function)
    def verb(**given: Any) -> Any:  # noqa: ANN401 - a verb's own options and result
        from provisioner.flows.inputs import Asked

        asked = {name: given.pop(name) for name in Asked.__dataclass_fields__}
        asked["platform"] = _MACHINES.get(asked["platform"], asked["platform"])
        return function(asked=Asked(**asked), **given)

    return _stack(verb, _REQUEST)


_GOAL = (
    click.option("--playbook", multiple=True, metavar="NAME", help="Playbooks; container-toolkit when none is named."),
    click.option("--goal", multiple=True, metavar="stack.lock.yaml|KEY=VALUE", help="What it shall have."),
)


def goal(function: Function) -> Function:
    """Add the options that say what a host shall become."""
    return _stack(function, _GOAL)


_PROOF = (
    click.option("--on", multiple=True, metavar="HOST", help="Where: a name, user@address[:port], or local (the default)."),
    click.option("--tag", metavar="REF", help="The image's name; one made from the lock when left out."),
    click.option("--engine", type=click.Choice(["docker", "podman"]), default="docker", show_default=True),
)


def proof(function: Function) -> Function:
    """Add the options of `build` and `test`."""
    return _stack(function, _PROOF)


def pairs(given: object, option: str) -> tuple[tuple[str, str], ...]:
    """KEY=VALUE texts as pairs; a usage error for one without `=`."""
    found: list[tuple[str, str]] = []
    for text_ in given if isinstance(given, tuple | list) else ():
        key, sign, rest = str(text_).partition("=")
        if not sign or not key:
            raise click.UsageError(f"{option} {text_!r} is not KEY=VALUE")
        found.append((key, rest))
    return tuple(found)


def text(given: object) -> str | None:
    """An option's text, None when it was not given."""
    return str(given) if given is not None else None


def network(given: object) -> Literal["none", "host"] | None:
    """The network of RUN steps."""
    return "none" if given == "none" else "host" if given == "host" else None
