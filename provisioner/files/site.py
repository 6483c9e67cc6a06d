"""site.yaml: where things come from, and how the site wants to be asked. Portable files name nothing of it.

Secrets never stand in it. An address that is secret is written `{env: NAME}`; in the value it is the text `${NAME}`, and
`address` reads the variable at the moment of use. Passwords for an address lie in netrc.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import yaml

from provisioner.decode import Decoder, read_text
from provisioner.errors import SiteError, UsageError
from provisioner.files.certificates import pem_mistake
from provisioner.values import replace, value
from provisioner.versions import Version

if TYPE_CHECKING:
    from typing import Self

_ENV = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
# An http address (RFC 3986) without the quotes that mean something to a shell; * as in `pytorch/*`.
_HTTP = re.compile(
    r"(?P<scheme>https?)://(?P<netloc>(?P<host>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:\d{1,5})?)"
    r"([/?#][A-Za-z0-9._~:/?#@!$&()*+,;=%-]*)?"
)
_LOOPBACK = {"localhost", "127.0.0.1", "[::1]"}
_PREFIX = re.compile(r"[a-z0-9]([a-z0-9.-]*[a-z0-9])?(:\d{1,5})?(/[a-z0-9]+([._-]+[a-z0-9]+)*)*")
_LINE = re.compile("[^\x00-\x1f\x7f-\x9f]+")
#: The id of the index that pip asks by itself, and what a site writes for an index that must not be asked.
DEFAULT_INDEX = "pypi"
NO_INDEX = "none"


class Address(str):
    """An address, or `${NAME}` for the environment variable that holds it; each kind says what it must look like."""

    __slots__ = ()
    what: ClassVar[str] = "an address (http://… or https://…)"
    may_be_secret: ClassVar[bool] = True

    @classmethod
    def decode_node(cls, node: yaml.Node, decoder: Decoder) -> Self | object:
        """Read a text or `{env: NAME}`; a problem is noted when it is neither."""
        if isinstance(node, yaml.MappingNode) and cls.may_be_secret:
            pairs = [(key.value, child.value) for key, child in node.value if isinstance(child, yaml.ScalarNode)]
            match pairs:
                case [("env", name)] if _ENV.fullmatch(f"${{{name}}}") and len(node.value) == 1:
                    return cls(f"${{{name}}}")
            return decoder.note(node, "a secret address is written {env: NAME}, NAME being an environment variable")
        if not isinstance(node, yaml.ScalarNode):
            return decoder.note(node, f"must be {cls.what}{' or {env: NAME}' if cls.may_be_secret else ''}")
        wrong = cls.wrong(node.value)
        return decoder.note(node, wrong) if wrong else cls(node.value)

    @classmethod
    def wrong(cls, text: str) -> str | None:
        """What is wrong with `text`, as a sentence."""
        if re.search(r"//[^/]*@", text):
            return "a user or password must not stand in this file: use netrc, or {env: NAME} for the whole address"
        return None if _HTTP.fullmatch(text) else f"{_shown(text)} is not {cls.what}"


class IndexAddress(Address):
    """A package index, or `none`: that index must not be asked."""

    __slots__ = ()
    what: ClassVar[str] = "the address of a package index (http://… or https://…), or none"

    @classmethod
    def wrong(cls, text: str) -> str | None:
        """See Address."""
        return None if text == NO_INDEX else super().wrong(text)


class WheelPlace(Address):
    """A page that links to wheels, or a folder of wheels on this machine."""

    __slots__ = ()
    what: ClassVar[str] = "a page of wheels (http://…, https://…) or a folder"

    @classmethod
    def wrong(cls, text: str) -> str | None:
        """See Address."""
        if "://" in text and not text.startswith("file:///"):
            return super().wrong(text)
        return None if _LINE.fullmatch(text) else f"{text[:80]!r} is not {cls.what}"


class RegistryPrefix(Address):
    """The place that mirrors a registry, as it stands before the repository in a reference; `none`: images are loaded by hand."""

    __slots__ = ()
    what: ClassVar[str] = "the prefix of a registry (registry.example:5000/dockerhub)"
    may_be_secret: ClassVar[bool] = False

    @classmethod
    def wrong(cls, text: str) -> str | None:
        """See Address."""
        if "://" in text:
            return f"leave out the scheme: {cls.what}"
        if "@" in text:
            return "a user or password must not stand in this file: `docker login` keeps them"
        return None if _PREFIX.fullmatch(text) else f"{_shown(text)} is not {cls.what}"


def _shown(text: str) -> str:
    """An address for a message, without its query, where tokens stand."""
    plain = re.sub(r"[?#].*", "?…", text, flags=re.DOTALL)
    return repr(plain[:80])


@value
class Proxies:
    """HTTP proxies, as the environment variables of the same names; `no` is a list of hosts with commas between."""

    http: Address | None = None
    https: Address | None = None
    no: str | None = None

    def __post_init__(self) -> None:
        """ValueError when `no` is not a plain list of hosts."""
        if self.no is not None and not re.fullmatch(r"[A-Za-z0-9.:/*,\[\] _-]*", self.no):
            raise ValueError(f"no: {self.no[:80]!r} is not a list of hosts with commas between")


@value
class SlurmSite:
    """How the site's Slurm wants GPUs to be requested. `image_folder`: where images and environments lie, as the nodes see it."""

    gpu_request: Literal["gres", "gpus-per-node", "gpus"] = "gres"
    gpu_type: str | None = None
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    version: str | None = None
    modules: tuple[str, ...] = ()
    image_folder: str = "."  # where .sif files lie

    def __post_init__(self) -> None:
        """ValueError with every mistake."""
        wrong = [
            f"{name}: {text[:80]!r} is not one line of text"
            for name, text in (
                ("partition", self.partition),
                ("account", self.account),
                ("qos", self.qos),
                ("constraint", self.constraint),
            )
            if text is not None and not _LINE.fullmatch(text)
        ]
        if self.gpu_type is not None and (self.gpu_type.isdigit() or not re.fullmatch(r"[A-Za-z0-9._-]+", self.gpu_type)):
            # sbatch would read gpu:4090 as 4090 GPUs
            wrong.append(f"gpu_type: {self.gpu_type[:80]!r} is not a GRES type; `sinfo -o %G` lists those of the site")
        if self.version is not None:
            try:
                Version(self.version)
            except ValueError as failure:
                wrong.append(f"version: {failure}")
        wrong.extend(
            f"modules: {module[:80]!r} is not the name of a module"
            for module in self.modules
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._/+=-]*", module)
        )
        if not _LINE.fullmatch(self.image_folder) or re.search(r"[$`~]", self.image_folder):
            wrong.append(f"image_folder: {self.image_folder[:80]!r} must be a folder written out: nothing expands it")
        if wrong:
            raise ValueError("; ".join(wrong))


@value
class Site:
    """The site: symbolic index id → address; folders or pages of wheels; registry → mirror prefix; proxies; a CA bundle.

    `indexes` keys are exact ids (`pypi`, `pytorch/cu128`) or `pytorch/*` with `*` in the address; `none` is an index that must
    not be asked. `registries` maps the first part of a reference (`docker.io`, `nvcr.io`) to a prefix
    (`registry.example:5000/dockerhub`). `ca_bundle` is a path to a PEM file, and `ca_pem` its text, which may stand here instead.
    """

    format: Literal[1] = 1
    indexes: Mapping[str, IndexAddress] = field(default_factory=dict)
    wheels: tuple[WheelPlace, ...] = ()
    registries: Mapping[str, RegistryPrefix] = field(default_factory=dict)
    proxies: Proxies = Proxies()
    ca_bundle: str | None = None
    ca_pem: str | None = None
    slurm: SlurmSite = SlurmSite()


def load_site(path: Path) -> Site:
    """The site that the file at `path` describes; SiteError with every mistake. Relative paths count from the file's folder."""
    decoder = Decoder(str(path))
    node = decoder.compose(read_text(path, SiteError))
    read = decoder.read(node, Site, "the file") if node is not None else None
    pem = _ca_text(node, path, decoder) if isinstance(node, yaml.MappingNode) else None
    if decoder.problems or not isinstance(read, Site):
        raise SiteError(sorted(decoder.problems, key=lambda problem: (problem.line, problem.column)))
    wheels = tuple(WheelPlace(_absolute(place, path.parent)) for place in read.wheels)
    return replace(read, wheels=wheels, ca_pem=pem)


def _absolute(place: str, folder: Path) -> str:
    if place.startswith("file://"):
        return place.removeprefix("file://")
    return place if "://" in place or _ENV.fullmatch(place) else str((folder / Path(place).expanduser()).resolve())


def _ca_text(root: yaml.MappingNode, path: Path, decoder: Decoder) -> str | None:
    """The text of the CA bundle, from its file or as it stands here; a problem is noted where the key stands."""
    nodes = {
        key.value: child
        for key, child in root.value
        if isinstance(key, yaml.ScalarNode)
        and key.value in {"ca_bundle", "ca_pem"}
        and isinstance(child, yaml.ScalarNode)
        and child.value not in {"", "null", "~"}
    }
    if len(nodes) > 1:
        decoder.note(nodes["ca_pem"], "ca_bundle and ca_pem both stand here; keep one")
    if len(nodes) != 1:
        return None
    [(key, node)] = nodes.items()
    text = str(node.value)
    if key == "ca_bundle":
        try:
            text = read_text(path.parent / Path(text).expanduser(), SiteError)
        except SiteError as failure:
            decoder.note(node, f"ca_bundle: {failure.problems[0]}")
            return None
    wrong = pem_mistake(text)
    if wrong:
        decoder.note(node, f"{key}: {wrong}")
        return None
    return text if text.endswith("\n") else text + "\n"


def variable_of(address: str) -> str | None:
    """The environment variable that holds `address`, or None when the address stands there itself."""
    match = _ENV.fullmatch(address)
    return match[1] if match else None


def read_address(address: str, environment: Mapping[str, str]) -> str:
    """The address itself, read from the environment where the site says so; UsageError when the variable is not set."""
    name = variable_of(address)
    if name is None:
        return address
    text = environment.get(name, "")
    if not text:
        raise UsageError(f"the site reads an address from the environment variable {name}, which is not set")
    return text


def secrets_of(site: Site, environment: Mapping[str, str]) -> tuple[str, ...]:
    """The secret texts of a site, for a runner to hide."""
    addresses = (*site.indexes.values(), *site.wheels, *filter(None, (site.proxies.http, site.proxies.https)))
    names = {name for name in map(variable_of, addresses) if name}
    return tuple(environment[name] for name in sorted(names) if environment.get(name))


def unencrypted_host(address: str) -> str | None:
    """The host, with its port, of an http address that leaves this machine; None for any other."""
    match = _HTTP.fullmatch(address)
    return match["netloc"] if match and match["scheme"] == "http" and match["host"] not in _LOOPBACK else None


def is_loopback(address: str) -> bool:
    """Whether an address is on the machine that uses it."""
    match = _HTTP.fullmatch(address)
    return match is not None and (match["host"] in _LOOPBACK or match["host"].startswith("127."))


def index_address(site: Site, index: str, default: str | None) -> str | None:
    """Where the index `index` is: as the site maps it (exactly, else by `group/*`), else `default`, which the matrix says.

    None: the client's own default. `none`: it must not be asked. A site that says `none` for the default index is cut off from
    the internet, so it has no other index either but those that it names.
    """
    if index in site.indexes:
        return site.indexes[index]
    group, _, rest = index.partition("/")
    pattern = site.indexes.get(f"{group}/*")
    if rest and pattern is not None:
        return pattern.replace("*", rest)
    return NO_INDEX if site.indexes.get(DEFAULT_INDEX) == NO_INDEX else default


def mirrored(site: Site, reference: str) -> str:
    """An image's reference as the site's registries serve it; unchanged where no mirror is named, and where none is asked."""
    registry, repository = split_reference(reference)
    prefix = site.registries.get(registry, NO_INDEX)
    return reference if prefix == NO_INDEX else f"{prefix}/{repository}"


def is_loaded(site: Site, reference: str) -> bool:
    """Whether the site asks no registry for this image: somebody loads it into the engine, where it has a name but no digest."""
    return site.registries.get(split_reference(reference)[0]) == NO_INDEX


def split_reference(reference: str) -> tuple[str, str]:
    """A reference as (registry, repository with tag): `python:3.12` is ("docker.io", "library/python:3.12")."""
    first, slash, rest = reference.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return first, rest
    return "docker.io", reference if slash else f"library/{reference}"
