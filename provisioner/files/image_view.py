"""What the Dockerfile and its neighbours say: every decision of theirs, made here; the templates only spell it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

from provisioner.decode import encode
from provisioner.errors import ProvisionerError
from provisioner.files.packages import WHEELS, Flag, as_word, build_secrets, context_folders, has_folder, pip_arguments, pip_notes
from provisioner.files.quoting import CONTROL, Word
from provisioner.files.site import Site, is_loaded, mirrored, split_reference, variable_of
from provisioner.stack.request import Request
from provisioner.stack.rows import Framework, System
from provisioner.values import replace, value

if TYPE_CHECKING:
    from provisioner.stack.lock import Image, Lock, Stack
    from provisioner.stack.matrix import Matrix

#: Options of a request that compile C or C++ when the program runs.
_COMPILES = ("torch_compile", "compiles_extensions")
_COMPILER = ("g++", "gcc", "libc6-dev")
_LABEL = "io.gpu-provisioner."
_NETRC = "netrc"


@value
class Catalogue:
    """What the matrix adds to a lock, which holds no address: `indexes` is symbolic id → address, None the client's default."""

    framework: Framework
    system: System | None
    indexes: Mapping[str, str | None]


def catalogue(lock: Lock, matrix: Matrix) -> Catalogue:
    """The rows that `lock` refers to; ProvisionerError when the matrix does not have its framework."""
    framework = matrix.framework(lock.stack.framework)
    if framework is None:
        raise ProvisionerError(
            f"the lock is for {lock.stack.framework}, which this matrix does not know",
            hint="use the provisioner that made the lock, or one that is newer",
        )
    build = matrix.row("variants", f"{lock.stack.framework} {lock.stack.version} {lock.stack.variant} {lock.stack.platform}")
    if build is not None and build.cuda_from is not None:
        framework = replace(framework, cuda_from=build.cuda_from)
    return Catalogue(
        framework=framework,
        system=matrix.system(lock.stack.image.os),
        indexes={row.id: row.url for row in matrix.indexes},
    )


@value
class Pair:
    """A name with its text: a label, a variable."""

    name: str
    text: str


@value
class ImageView:
    """Dockerfile, .dockerignore and site-proxy.sh."""

    header: str
    summary: tuple[str, ...]
    name: str
    platform: str  # where the builder must be told
    secrets: tuple[str, ...]
    base: str
    toolkit: str  # the image that lends its CUDA compiler to the build stage
    compiles: bool
    compilers: tuple[str, ...]
    targets: str
    ca: bool
    proxy: bool
    proxies: tuple[tuple[str, Word], ...]
    apt: tuple[str, ...]
    apt_cache: str
    apt_mounts: tuple[str, ...]
    apt_unpinned: bool
    pip_notes: tuple[str, ...]
    pip_flags: tuple[Flag, ...]
    mounts: tuple[str, ...]
    project: bool
    wheels: bool
    gpus: bool
    driver: str
    require_driver: bool
    env: tuple[Pair, ...]
    labels: tuple[Pair, ...]
    command: tuple[str, ...]


def has_gpus(stack: Stack) -> bool:
    """Whether the stack uses a GPU: a build without CUDA never does."""
    return stack.cuda is not None


def image_name(stack: Stack) -> str:
    """The name of the image, and of what is made from it: framework, version and variant."""
    return f"{stack.framework}-{stack.version}-{stack.variant}".replace("+", "-").lower()


def image_view(lock: Lock, site: Site, rows: Catalogue, lock_sha256: str) -> ImageView:
    """The view of the Dockerfile and its neighbours; ProvisionerError where no honest file can be made."""
    stack = lock.stack
    gpus = has_gpus(stack)
    proxies = _proxies(site)
    flags = pip_arguments(lock, site, rows.indexes)
    apt = _apt(lock, rows.system)
    return ImageView(
        header="",
        summary=_summary(lock, site, rows.framework),
        name=image_name(stack),
        platform="" if stack.platform == Request().platform else stack.platform,
        secrets=build_secrets(lock, site),
        base=_pulled(stack.image, site),
        toolkit=_pulled(stack.build_image, site) if stack.build_image else "",
        compiles=stack.build_image is not None,
        compilers=_COMPILER,
        targets=";".join(f"{target.major}.{target.minor}" for target in stack.capabilities),
        ca=site.ca_pem is not None,
        proxy=bool(proxies),
        proxies=proxies,
        apt=apt,
        apt_cache=f"apt-{stack.image.os}-{stack.platform.rpartition('/')[2]}",
        apt_mounts=_proxy_mounts(site),
        apt_unpinned=any("=" not in package for package in apt),
        pip_notes=pip_notes(lock, flags),
        pip_flags=flags,
        mounts=_mounts(lock, site),
        project=lock.project is not None,
        wheels=has_folder(site),
        gpus=gpus and stack.image.flavour == "slim",
        driver=f"driver>={stack.min_driver.major}" if stack.min_driver else "",
        require_driver=gpus and stack.image.flavour == "slim" and stack.min_driver is not None,
        env=tuple(Pair(name=name, text=text) for name, text in sorted(lock.env.items())),
        labels=_labels(lock, rows.framework, lock_sha256),
        command=lock.command or ("python", "/opt/provisioner/smoke.py"),
    )


def _summary(lock: Lock, site: Site, framework: Framework) -> tuple[str, ...]:
    stack = lock.stack
    if not has_gpus(stack):
        runs = "It runs on the CPU: no GPU is used."
    elif stack.min_driver is None:
        runs = "The driver that it needs is not known."
    else:
        runs = f"It needs driver {stack.min_driver} or newer on the host, and the NVIDIA container toolkit."
    cuda = f", CUDA {stack.cuda} from the {'wheels' if framework.cuda_from == 'wheels' else 'image'}" if stack.cuda else ""
    lines = [f"{framework.name} {stack.version} ({stack.variant}) on Python {stack.python}{cuda}.", runs]
    lines.extend(stack.excludes)
    lines.extend(f"Note: {note}" for note in stack.notes)
    if stack.image.flavour.endswith("devel"):
        lines.append("The image keeps the CUDA compiler, because something is compiled with this stack.")
    lines.extend(f"`provisioner build` adds {folder} to the context as {path}/." for path, folder in context_folders(lock, site))
    return tuple(lines)


def _pulled(image: Image, site: Site) -> str:
    reference = mirrored(site, image.reference)
    pinned = image.digest and "@" not in reference and not is_loaded(site, image.reference)
    return f"{reference}@{image.digest}" if pinned else reference


def apt_asked(lock: Lock, system: System | None) -> tuple[str, ...]:
    """Every package of the distribution that a build installs, also where only the stage that compiles has it."""
    return tuple(sorted({*_apt(lock, system), *(_COMPILER if lock.stack.build_image else ())}))


def _apt(lock: Lock, system: System | None) -> tuple[str, ...]:
    """The packages of the distribution that the image needs, sorted, each once."""
    stack = lock.stack
    packages = set(lock.apt)
    own_python = stack.image.flavour == "slim"
    if not own_python:
        found = system.python if system else None
        if found != stack.python:
            raise ProvisionerError(
                f"{stack.image.reference} has no Python of its own, and "
                f"that of {stack.image.os} is {found or 'not known'}, not {stack.python}",
                hint=f"ask for a slim image, or for python: {found or 'the version of the distribution'}",
            )
        packages |= {"python3", "python3-venv"}
    if any(lock.options.get(option, "").lower() in {"true", "yes", "1"} for option in _COMPILES):
        packages |= {*_COMPILER, *(() if own_python else ("python3-dev",))}
    needed = sorted(packages | set(_COMPILER if stack.build_image else ()))
    if needed and (system is None or system.family != "debian"):
        raise ProvisionerError(
            f"apt packages are needed ({', '.join(needed)}), and {stack.image.os} is not a system with apt",
            hint="choose an image of Debian or Ubuntu (image_os: debian12), or leave the packages out",
        )
    return tuple(sorted(packages))


def _mounts(lock: Lock, site: Site) -> tuple[str, ...]:
    """The mounts of the step that installs, beside the cache and the requirements."""
    proxies = _proxy_mounts(site)
    mounts = [mount for secret in build_secrets(lock, site) if (mount := _secret_mount(secret)) not in proxies]
    if has_folder(site):
        mounts.append(f"type=bind,source={WHEELS},target=/{WHEELS}")
    return (*mounts, *proxies)


def _secret_mount(secret: str) -> str:
    """A secret as a file under /run/secrets; netrc lies where pip and git look for it."""
    return f"type=secret,id={secret}" + (",target=/root/.netrc" if secret == _NETRC else "")


def _proxy_mounts(site: Site) -> tuple[str, ...]:
    """What a step that uses the network needs to read the proxies: the script, and the secrets that it reads in its turn."""
    if not _proxies(site):
        return ()
    named = {name for address in (site.proxies.http, site.proxies.https) if address and (name := variable_of(address))}
    return (*(_secret_mount(name) for name in sorted(named)), "type=bind,source=site-proxy.sh,target=/run/site-proxy.sh")


def _proxies(site: Site) -> tuple[tuple[str, Word], ...]:
    """The proxy variables, in both spellings: curl reads only the small one of http, other programs only the capital ones."""
    pairs: list[tuple[str, Word]] = []
    for name, text in (("http_proxy", site.proxies.http), ("https_proxy", site.proxies.https), ("no_proxy", site.proxies.no)):
        if text:
            address = as_word(text)
            word = address if isinstance(address, Word) else Word(parts=(address,))
            pairs += [(name, word), (name.upper(), word)]
    return tuple(pairs)


def _labels(lock: Lock, framework: Framework, lock_sha256: str) -> tuple[Pair, ...]:
    """OCI annotations as labels, and ours; a fact that is not known has no label. No date: the same lock gives the same image."""
    stack = lock.stack
    registry, repository = split_reference(stack.image.reference)
    title = f"{framework.name} {stack.version} ({stack.variant})"
    what = f"CUDA {stack.cuda}" if stack.cuda else "the CPU"
    ours: Mapping[str, object] = {
        "framework": f"{stack.framework}=={stack.version}",
        "variant": stack.variant,
        "cuda": stack.cuda,
        "cudnn": stack.cudnn,
        "python": stack.python,
        "min-driver": stack.min_driver,
        "sass": " ".join(target.sm for target in stack.sass) or None,
        "lock-sha256": lock_sha256,
        "lock": _compact(lock),
    }
    pairs: Mapping[str, object] = {
        "org.opencontainers.image.title": title,
        "org.opencontainers.image.description": f"{title} for {what} on Python {stack.python}, made by {lock.generator}",
        "org.opencontainers.image.version": f"{stack.version}+{stack.variant}",
        "org.opencontainers.image.base.name": f"{registry}/{repository}",
        "org.opencontainers.image.base.digest": stack.image.digest,
        **{_LABEL + key: text for key, text in ours.items()},
    }
    return tuple(Pair(name=name, text=str(text)) for name, text in pairs.items() if text is not None)


def _compact(lock: Lock) -> str:
    """The lock as one line of JSON without hashes and reasons, which would fill pages; it says where they are."""
    lock = replace(lock, stack=replace(lock.stack, because=()))
    if lock.pins.hashed:
        bare = tuple(replace(pin, hashes=()) for pin in lock.pins.packages)
        pins = replace(lock.pins, packages=bare, hashed=False, why_not="the hashes are in /opt/provisioner/stack.lock.yaml")
        lock = replace(lock, pins=pins)
    text = json.dumps(encode(lock), separators=(",", ":"), ensure_ascii=False)
    # a label is one line of printable characters: what JSON leaves as it is, such as U+2028, is written as its number
    return CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", text)
