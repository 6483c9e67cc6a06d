"""site.yaml: where things come from, and how the site wants to be asked. Portable files name nothing of it.

Secrets never stand in it: a value that is secret is written `{env: NAME}` and read when it is used, or it lies in netrc.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal

from provisioner.values import value


@value
class Proxies:
    """HTTP proxies, as the environment variables of the same names."""

    http: str | None = None
    https: str | None = None
    no: str | None = None


@value
class SlurmSite:
    """How the site's Slurm wants GPUs to be requested."""

    gpu_request: Literal["gres", "gpus-per-node", "gpus"] = "gres"
    gpu_type: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    version: str | None = None
    modules: tuple[str, ...] = ()
    image_folder: str = "."  # where .sif files lie


@value
class Site:
    """The site: symbolic index id → address; folders or pages of wheels; registry → mirror prefix; proxies; a CA bundle.

    `indexes` keys are exact ids (`pypi`, `pytorch/cu128`) or `pytorch/*` with `*` in the address. `registries` maps the first
    part of a reference (`docker.io`, `nvcr.io`) to a prefix (`registry.example:5000/dockerhub`). `ca_bundle`: path to a PEM file.
    """

    format: Literal[1] = 1
    indexes: Mapping[str, str] = field(default_factory=dict)
    wheels: tuple[str, ...] = ()
    registries: Mapping[str, str] = field(default_factory=dict)
    proxies: Proxies = Proxies()
    ca_bundle: str | None = None
    slurm: SlurmSite = SlurmSite()
