"""Lock and site into a tree of files: pure, and the same bytes every time.

A generated file starts with the tool that made it, the template, and the SHA-256 of the lock: nothing of the machine, the folder
or the clock. The lock itself stands in the tree as it is, so `sha256sum stack.lock.yaml` answers what the headers say; the smoke
script and the host's script are whole files of their own.
"""

from __future__ import annotations

import functools
import json
from typing import TYPE_CHECKING

from provisioner.errors import UsageError
from provisioner.files.image_view import Catalogue, has_gpus, image_view
from provisioner.files.job_view import job_view
from provisioner.files.packages import requirements_view
from provisioner.files.quoting import FILTERS, refuse_unquoted
from provisioner.files.tree import Tree, TreeFile, script
from provisioner.files.uv_view import uv_view
from provisioner.files.validation import check_lock
from provisioner.resources import resource
from provisioner.stack.lock import lock_hash, lock_text
from provisioner.values import replace

if TYPE_CHECKING:
    from collections.abc import Collection

    from jinja2 import Environment

    from provisioner.files.site import Site
    from provisioner.stack.lock import Lock

#: What is rendered where nothing is chosen, and what `--only` may name: a block for a project that exists is asked for.
DEFAULT_OUTPUTS = ("dockerfile", "sbatch", "host-setup")
OUTPUTS = (*DEFAULT_OUTPUTS, "uv")
LOCK_FILE = "stack.lock.yaml"


def render(
    lock: Lock,
    site: Site,
    rows: Catalogue,
    *,
    only: Collection[str] | None = None,
    host_script: str | None = None,
) -> Tree:
    """The tree of `lock` at `site`. `host_script` is the host set-up script, which the hosts wing exports.

    UsageError for an unknown output; LockError when the lock would make a wrong file; ProvisionerError when no honest file can be
    made (an image without the right Python).
    """
    wanted = set(DEFAULT_OUTPUTS if only is None else only)
    unknown = sorted(wanted - set(OUTPUTS))
    if unknown:
        raise UsageError(f"there is no output {', '.join(unknown)}", hint=f"outputs are {', '.join(OUTPUTS)}")
    check_lock(lock)
    sha256 = lock_hash(lock)
    files = {LOCK_FILE: TreeFile(text=lock_text(lock))}
    if "dockerfile" in wanted:
        files |= _image_files(lock, site, rows, sha256)
    if "sbatch" in wanted:
        for job in lock.jobs:
            name = f"slurm/{job.kind}.sbatch"
            files[f"{job.name}.sbatch"] = script(_fill(name, job_view(job, lock, site, rows, _header(lock, name, sha256))))
        if lock.jobs:
            files |= _requirements(lock, sha256) | _smoke_files(lock, rows)
    if "host-setup" in wanted and host_script is not None:
        files["host-setup.sh"] = script(host_script)
    if "uv" in wanted:
        name = "uv/pyproject.uv.toml"
        files["pyproject.uv.toml"] = TreeFile(text=_fill(name, uv_view(lock, site, rows, _header(lock, name, sha256))))
    return Tree(files=files)


def _image_files(lock: Lock, site: Site, rows: Catalogue, sha256: str) -> dict[str, TreeFile]:
    view = image_view(lock, site, rows, sha256)
    names = ("Dockerfile", ".dockerignore", *(("site-proxy.sh",) if view.proxy else ()))
    files = {
        name: TreeFile(text=_fill(f"docker/{name}", replace(view, header=_header(lock, f"docker/{name}", sha256))))
        for name in names
    }
    if site.ca_pem is not None:
        files["site-ca.crt"] = TreeFile(text=site.ca_pem)
    return files | _requirements(lock, sha256) | _smoke_files(lock, rows)


def _requirements(lock: Lock, sha256: str) -> dict[str, TreeFile]:
    name = "docker/requirements.txt"
    return {"requirements.txt": TreeFile(text=_fill(name, requirements_view(lock, _header(lock, name, sha256))))}


def _smoke_files(lock: Lock, rows: Catalogue) -> dict[str, TreeFile]:
    """The smoke script, and beside it what it must find; it reads that file when nothing else is said."""
    return {
        "provisioner/smoke.py": script(_template(f"smoke/{rows.framework.smoke}")),
        "provisioner/expect.json": TreeFile(text=expected_text(lock)),
    }


def expected_text(lock: Lock) -> str:
    """What the smoke script must find in an environment of this lock, as JSON."""
    stack = lock.stack
    expected = {
        "framework": stack.framework,
        "version": str(stack.version),
        "variant": stack.variant,
        "python": stack.python,
        "cuda": str(stack.cuda) if stack.cuda else None,
        "sass": [target.sm for target in stack.sass],
        "gpus": has_gpus(stack),
    }
    return json.dumps(expected, indent=1) + "\n"


def _header(lock: Lock, template: str, sha256: str) -> str:
    return f"{lock.generator}, {template}.j2, lock sha256:{sha256}"


def _fill(name: str, view: object) -> str:
    return _environment().get_template(f"{name}.j2").render(it=view)


def _template(name: str) -> str:
    return resource("templates", *name.split("/")).read_text(encoding="utf-8")


@functools.cache
def _environment() -> Environment:
    """Jinja that decides nothing: an unknown name is an error, and so is a value without a quoting filter."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_template),
        undefined=jinja2.StrictUndefined,
        finalize=refuse_unquoted,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701 - the outputs are no HTML; `refuse_unquoted` is what stands in for it
    )
    environment.filters = dict(FILTERS)  # none of Jinja's own: decisions belong into the view
    return environment
