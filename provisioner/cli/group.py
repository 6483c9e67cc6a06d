"""The command `provisioner` itself: its verbs by name, each imported when it is called for."""

from __future__ import annotations

import importlib
import keyword

import click

import provisioner

#: Every verb; its module in this package has the same name, with `_` where that would shadow a keyword or a module.
VERBS = (
    "resolve",
    "explain",
    "lock",
    "render",
    "build",
    "test",
    "diagnose",
    "probe",
    "plan",
    "export",
    "mirror",
    "import",
    "matrix",
    "report",
    "up",
)


class _Lazy(click.Group):
    """A group that knows the names of its verbs and imports a verb when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in VERBS:
            return None
        module = f"{cmd_name}_" if keyword.iskeyword(cmd_name) else cmd_name
        verb: click.Command = importlib.import_module(f"provisioner.cli.{module}").command
        return verb


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 118},
    epilog="Exit codes: 0 ok, 1 it could not do its work, 2 usage, 3 a bad file, 4 no stack fits, 5 a host failed, "
    "6 the engine failed, 7 a fault was found, 8 unknown, 130 interrupted. Every verb has --json.",
)
@click.version_option(provisioner.__version__, message="%(prog)s %(version)s")
def group() -> None:
    """Resolve one consistent GPU stack, render its files, and prove it on hosts.

    Start with `provisioner up` (the shipped example), or `provisioner resolve torch --gpu h100 --driver 550`.
    """
