"""Debian packages unpacked into the cache: nothing is installed, and no service of theirs is started.

The mirror is the one that this machine's apt uses, and apt's own configuration (proxies, certificates) stays in force;
source list and package lists are private, so the system's are neither read nor changed.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.testbed.folders import cached, cached_path
from tests.testbed.processes import program, run
from tests.testbed.require import MissingPartError, may_fetch

if TYPE_CHECKING:
    from collections.abc import Sequence

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_SUITES = ("bookworm", "trixie", "forky", "sid", "stable", "oldstable", "testing", "unstable")


def release() -> tuple[str, str]:
    """This machine's distribution and release, as (debian, bookworm)."""
    fields = dict(
        line.rstrip().replace('"', "").split("=", 1)
        for line in Path("/etc/os-release").read_text(encoding="utf-8").splitlines()
        if "=" in line
    )
    return fields.get("ID", ""), fields.get("VERSION_CODENAME", "")


def mirror() -> str:
    """The address of the Debian mirror that this machine's apt uses."""
    listed = run([program("apt-get", "apt"), "indextargets", "--format", "$(RELEASE) $(SITE)", "Created-By: Packages"])
    for line in listed.stdout.splitlines():
        suite, _, site = line.partition(" ")
        if suite in _SUITES:
            return site
    raise MissingPartError("apt is configured with no Debian mirror here")


def unpacked(part: str, suite: str, packages: Sequence[str]) -> Path:
    """The folder that holds these packages of a suite, unpacked; fetched once, where the part is required."""
    recipe = {"suite": suite, "packages": sorted(packages)}
    if not may_fetch(part) and not cached_path("debian", recipe).is_dir():
        raise MissingPartError(f"{', '.join(packages)} not fetched yet: .venv/bin/python -m tests.testbed {part}")
    return cached("debian", recipe, lambda folder: _fetch(folder, suite, packages))


def _fetch(folder: Path, suite: str, packages: Sequence[str]) -> None:
    if not KEYRING.is_file():
        raise MissingPartError(f"no {KEYRING}: apt-get install debian-archive-keyring")
    private = folder / ".apt"
    (private / "lists" / "partial").mkdir(parents=True)
    (private / "sources.list").write_text(f"deb [signed-by={KEYRING}] {mirror()} {suite} main\n", encoding="utf-8")
    options = {
        "Dir::Etc::sourcelist": private / "sources.list",
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": private / "lists",
        "Dir::Cache::archives": private,
        "Dir::Cache::pkgcache": "",
        "Dir::Cache::srcpkgcache": "",
        "APT::Sandbox::User": "root",
    }
    apt = [
        program("apt-get", "apt"),
        "-q",
        *(word for key, text in options.items() for word in ("-o", f"{key}={text}")),
    ]
    run([*apt, "update"])
    # `download` writes into the working folder, hence the shell.
    run(["sh", "-c", 'cd "$0" && exec "$@"', str(private), *apt, "download", *packages])
    for package in sorted(private.glob("*.deb")):
        run([program("dpkg", "dpkg"), "-x", str(package), str(folder)])
    run(["rm", "-r", str(private)])
