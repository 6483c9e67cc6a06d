"""uv, which resolves the whole set of packages: started with a project of its own in a folder of its own, on this machine.

uv brings its default index itself, and reads the user's own uv.toml; nothing here names a registry.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, cast

from provisioner.commands import TIMEOUTS, Command, Completed
from provisioner.edges.variables import with_variables
from provisioner.errors import ProvisionerError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provisioner.commands import Runner

_NONE: Mapping[str, str] = {}


class Uv:
    """`uv pip compile`, callable as `files.pins.Compile` wants it."""

    def __init__(self, runner: Runner, *, timeout: float = TIMEOUTS["lock"]) -> None:
        """Start uv by `runner`, which must be of this machine: the project lies in a temporary folder."""
        self._runner = runner
        self._timeout = timeout

    def __call__(
        self,
        project: str,
        options: tuple[str, ...],
        *,
        ca: str | None = None,
        variables: Mapping[str, str] = _NONE,
        secrets: tuple[str, ...] = (),
    ) -> Completed:
        """Compile `project`, the text of a pyproject.toml. `ca` are certificates in PEM form, trusted beside the usual ones.

        CommandTimedOut when it takes too long; ProvisionerError when there is no uv.
        """
        with tempfile.TemporaryDirectory(prefix="provisioner-uv-") as name:  # 0700: addresses in the project may be secret
            folder = Path(name)
            (folder / "pyproject.toml").write_text(project, encoding="utf-8")
            environment = {"UV_PYTHON_DOWNLOADS": "never", **variables}
            if ca:
                (folder / "ca.pem").write_text(usual_certificates() + ca, encoding="utf-8")
                environment["SSL_CERT_FILE"] = str(folder / "ca.pem")
            argv, stdin = with_variables(
                (program(), "--directory", name, "pip", "compile", "pyproject.toml", *options), b"", environment
            )
            return self._runner.run(Command(argv=argv, stdin=stdin, timeout=self._timeout, secrets=secrets))


def program() -> str:
    """The path of uv, which is installed with this tool; ProvisionerError when somebody removed it."""
    import uv

    try:
        return uv.find_uv_bin()
    except FileNotFoundError as failure:
        raise ProvisionerError("uv is not installed beside this tool, and it is what locks", hint="pip install uv") from failure


def usual_certificates() -> str:
    """The certificates that programs on this machine trust, as PEM text: SSL_CERT_FILE, else OpenSSL's own bundle."""
    bundle = cast("str | None", ssl.get_default_verify_paths().cafile)  # None where there is no such file
    if bundle is None:
        return ""
    text = Path(bundle).read_text(encoding="utf-8", errors="replace")
    return text if text.endswith("\n") else f"{text}\n"
