"""What is installed, and from where: requirements.txt, pip's arguments, and what a build must be given for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.errors import ProvisionerError
from provisioner.files.quoting import SecretFile, Word
from provisioner.files.site import DEFAULT_INDEX, NO_INDEX, Site, index_address, unencrypted_host, variable_of
from provisioner.stack.lock import Pin
from provisioner.values import replace, value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from provisioner.stack.lock import Lock

#: The folder of the build context that holds the site's wheels.
WHEELS = "wheels"

#: One option of pip with its value.
Flag = tuple[str | Word, ...]


@value
class PinGroup:
    """The pins that come from one index."""

    index: str
    pins: tuple[Pin, ...]


@value
class RequirementsView:
    """requirements.txt. `requirements` is filled where the dependencies could not be locked, `notes` say why."""

    header: str
    notes: tuple[str, ...]
    groups: tuple[PinGroup, ...]
    requirements: tuple[str, ...]


def requirements_view(lock: Lock, header: str) -> RequirementsView:
    """The pins, grouped by index, or the bare requirements with the reason."""
    indexes = sorted({pin.index for pin in lock.pins.packages})
    notes: tuple[str, ...] = ()
    if not lock.pins.packages:
        reason = lock.pins.why_not or "the lock holds no pins"
        notes = (f"Not locked: {reason}.", "What these requirements pull in is decided when they are installed.")
    elif not lock.pins.hashed:
        notes = (f"Versions without hashes: {lock.pins.why_not or 'the lock was made without them'}.",)
    return RequirementsView(
        header=header,
        notes=notes,
        groups=tuple(
            PinGroup(
                index=index,
                pins=tuple(
                    replace(pin, hashes=tuple(sorted(pin.hashes)))
                    for pin in sorted(lock.pins.packages, key=lambda pin: (pin.name.lower(), pin.version))
                    if pin.index == index
                ),
            )
            for index in indexes
        ),
        requirements=() if lock.pins.packages else lock.stack.packages,
    )


def pip_arguments(lock: Lock, site: Site, indexes: Mapping[str, str | None], *, in_build: bool = True) -> tuple[Flag, ...]:
    """How pip installs requirements.txt: hash checking as far as the lock has it, and where it looks.

    `in_build`: folders of wheels are where the Dockerfile mounts them, and not where they lie on this machine.
    """
    flags: list[Flag] = []
    if lock.pins.packages:
        flags.append(("--no-deps",))
        if lock.pins.hashed:
            flags.append(("--require-hashes",))
    flags.extend(_places(lock, site, indexes, in_build=in_build))
    return tuple(flags)


def _places(lock: Lock, site: Site, indexes: Mapping[str, str | None], *, in_build: bool) -> list[Flag]:
    """Where pip looks: the indexes in their order, then the site's wheels."""
    asked: list[str | None] = []
    for index in _indexes_of(lock):
        address = index_address(site, index, indexes.get(index))
        if address is None and index != DEFAULT_INDEX:
            raise ProvisionerError(
                f"nobody says where the index {index} is",
                hint=f"name its address in the site file: indexes: {{{index}: https://…}}",
            )
        if address != NO_INDEX and address not in asked:
            asked.append(address)
    if not asked and not site.wheels:
        raise ProvisionerError(
            "there is nothing to install from: the site says that no index may be asked, and names no wheels",
            hint="name a folder or a page under wheels: in the site file",
        )
    flags: list[Flag] = [] if asked else [("--no-index",)]
    flags += [
        ("--index-url" if position == 0 else "--extra-index-url", as_word(address))
        for position, address in enumerate(asked)
        if address is not None
    ]
    pages = [place for place in site.wheels if not _is_folder(place)]
    flags += [("--find-links", as_word(place)) for place in pages]
    flags += [("--find-links", f"/{path}" if in_build else folder) for path, folder in _wheel_folders(site)]
    # pip asks such a host only when it is told to
    unencrypted = dict.fromkeys(filter(None, map(unencrypted_host, (*filter(None, asked), *pages))))
    return [*flags, *(("--trusted-host", host) for host in unencrypted)]


def as_word(address: str) -> str | Word:
    """An address as a word of a RUN step: itself, or the content of the secret that holds it."""
    secret = variable_of(address)
    return Word(parts=(SecretFile(id=secret),)) if secret else address


def _is_folder(place: str) -> bool:
    return "://" not in place and variable_of(place) is None


def has_folder(site: Site) -> bool:
    """Whether some of the site's wheels lie in a folder, which then travels with the context."""
    return any(map(_is_folder, site.wheels))


def pip_notes(lock: Lock, flags: tuple[Flag, ...]) -> tuple[str, ...]:
    """What a reader should know about how safe the installation is."""
    several = any(flag[0] == "--extra-index-url" for flag in flags)
    if lock.pins.hashed and lock.pins.packages:
        notes = ["Every package is checked against the hashes of the lock."]
        if several:
            notes.append("That makes several indexes safe: no other package of the same name can slip in.")
        return tuple(notes)
    notes = [f"The packages are not checked against hashes: {lock.pins.why_not or 'the lock has none'}."]
    if several:
        notes.append("With several indexes the highest version of any of them wins: lock with --hashes before this is trusted.")
    return tuple(notes)


def context_folders(lock: Lock, site: Site) -> tuple[tuple[str, str], ...]:
    """What a build adds to the context beside the tree: (path in the context, folder on this machine)."""
    return (*_wheel_folders(site), *((("project", lock.project),) if lock.project else ()))


def _wheel_folders(site: Site) -> tuple[tuple[str, str], ...]:
    """The site's folders of wheels: (path in the context, folder on this machine)."""
    folders = [str(place) for place in site.wheels if _is_folder(place)]
    if len(folders) == 1:
        return ((WHEELS, folders[0]),)
    return tuple((f"{WHEELS}/{number}", folder) for number, folder in enumerate(folders, 1))


def build_secrets(lock: Lock, site: Site) -> tuple[str, ...]:
    """The ids of the secrets that a build must be given: those of the lock, and the variables that hold the site's addresses."""
    asked = (index_address(site, index, None) for index in _indexes_of(lock))
    addresses = (*filter(None, asked), *site.wheels, *filter(None, (site.proxies.http, site.proxies.https)))
    return tuple(sorted({*lock.secrets, *filter(None, map(variable_of, addresses))}))


def _indexes_of(lock: Lock) -> tuple[str, ...]:
    """The indexes of a lock; the default one first, because it has what no other serves."""
    others = {pin.index for pin in lock.pins.packages} | {lock.stack.index}
    return (DEFAULT_INDEX, *sorted(others - {DEFAULT_INDEX}))
