"""Where compat_matrix.yaml, templates/, playbooks/ and examples/ are: inside a wheel, or beside the package in a checkout."""

from __future__ import annotations

import functools
import os
from pathlib import Path


@functools.cache
def data_root() -> Path:
    """The folder that holds `compat_matrix.yaml`, `templates/`, `playbooks/` and `examples/`.

    In a wheel it is `provisioner/data/` (pyproject.toml, force-include); in a checkout the folder above the package.
    """
    package = Path(__file__).resolve().parent
    wheel = package / "data"
    return wheel if (wheel / "compat_matrix.yaml").is_file() else package.parent


def in_checkout() -> bool:
    """Whether the tool runs from a checkout of its source, where the shipped files can be changed."""
    return data_root() == Path(__file__).resolve().parent.parent


def resource(*parts: str) -> Path:
    """The path of one shipped file or folder, such as `resource("templates", "docker")`."""
    return data_root().joinpath(*parts)


def _xdg(variable: str, fallback: str) -> Path:
    text = os.environ.get(variable, "")
    base = Path(text) if text.startswith("/") else Path.home() / fallback  # XDG: a relative path is to be ignored
    return base / "provisioner"


def cache_folder() -> Path:
    """The user's cache folder (`$XDG_CACHE_HOME/provisioner`); nothing in it is needed."""
    return _xdg("XDG_CACHE_HOME", ".cache")


def data_folder() -> Path:
    """The user's data folder (`$XDG_DATA_HOME/provisioner`): rows that `matrix refresh --write` added to the shipped ones."""
    return _xdg("XDG_DATA_HOME", ".local/share")


def state_folder() -> Path:
    """The user's state folder (`$XDG_STATE_HOME/provisioner`): runs and their reports."""
    return _xdg("XDG_STATE_HOME", ".local/state")


def config_folder() -> Path:
    """The user's configuration folder (`$XDG_CONFIG_HOME/provisioner`): the default site.yaml and hosts.yaml."""
    return _xdg("XDG_CONFIG_HOME", ".config")
