"""Reading releases on a package index: which files of which wheels, one class a framework; what they say is judged in stack."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from provisioner.errors import UsageError
from provisioner.stack.upstream import wheels
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Sequence

    from provisioner.edges.wheel_reader import Listed, Listing, Wheel
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.refresh import Refreshed
    from provisioner.stack.rows import Platform, Release, Source, Variant
    from provisioner.stack.upstream import jax, pytorch
    from provisioner.stack.upstream.wheels import Offer


class Reader(Protocol):
    """What `matrix refresh` asks of a framework. `first`: the oldest release that can be read."""

    first: Version

    def releases(self) -> tuple[Version, ...]:
        """The final releases that can be read, oldest first."""

    def there(self) -> tuple[Version, ...]:
        """The releases that the index has in any form."""

    def compared(self, matrix: Matrix, version: Version) -> Refreshed:
        """One release against `matrix`; UnreadableWheel when its wheels say too little."""


def reader_of(framework: str, index: Listing, source: Source) -> Reader:
    """The reader of a framework; UsageError where there is none."""
    readers: dict[str, type[_Torch | _TensorFlow | _Jax]] = {"torch": _Torch, "tensorflow": _TensorFlow, "jax": _Jax}
    if framework not in readers:
        raise UsageError(f"{framework!r} cannot be refreshed from an index", hint=f"this can: {', '.join(readers)}")
    return readers[framework](_Files(index), source)


def source_of(framework: str, day: str) -> Source:
    """The document of the rows that are read on `day` (ISO)."""
    from provisioner.stack.upstream import jax, pytorch, tensorflow

    known = {"torch": pytorch.source_of, "tensorflow": tensorflow.source_of, "jax": jax.source_of}
    return known[framework](day)


class _Files:
    """Listings, and METADATA of wheels: each is read once."""

    def __init__(self, index: Listing) -> None:
        self._index = index
        self._listed: dict[str, dict[str, Listed]] = {}
        self._metadata: dict[str, str] = {}

    def offers(self, project: str) -> tuple[Offer, ...]:
        """The wheels of a project that were not taken back."""
        files = [file for file in self._files(project).values() if file.name.endswith(".whl") and not file.yanked]
        return tuple(wheels.Offer(name=file.name, size=file.size, day=file.day) for file in files)

    def there(self, project: str) -> tuple[Version, ...]:
        """The releases of a project that the index has in any form: taken back they still install by their exact version."""
        return wheels.releases_named(self._files(project))

    def _files(self, project: str) -> dict[str, Listed]:
        if project not in self._listed:
            self._listed[project] = {file.name: file for file in self._index.files(project, every=True)}
        return self._listed[project]

    def open(self, project: str, name: str) -> Wheel:
        """One wheel of a project that was listed."""
        return self._index.open(self._listed[project][name])

    def metadata(self, project: str, name: str) -> str:
        """METADATA of one wheel; empty where it has none."""
        if name not in self._metadata:
            self._metadata[name] = text_in(self.open(project, name), wheels.METADATA) or ""
        return self._metadata[name]


def text_in(wheel: Wheel, ending: str) -> str | None:
    """The text of the member that ends so, None when there is none."""
    member = wheel.member(ending)
    return wheel.read(member).decode("utf-8", "replace") if member else None


class _Torch:
    """PyTorch: both platforms, and the companions that follow its releases."""

    first = Version("0")

    def __init__(self, files: _Files, source: Source) -> None:
        self._files, self._source = files, source

    def releases(self) -> tuple[Version, ...]:
        """As the listing says."""
        return wheels.releases_in(self._files.offers("torch"))

    def there(self) -> tuple[Version, ...]:
        """As the listing says."""
        return self._files.there("torch")

    def compared(self, matrix: Matrix, version: Version) -> Refreshed:
        """One release against `matrix`."""
        from provisioner.stack.refresh import compared
        from provisioner.stack.upstream import pytorch

        offers = self._files.offers(pytorch.PROJECT)
        rows: list[Variant] = []
        notes: list[str] = []
        release: Release | None = None
        for platform in wheels.MACHINES.values():
            here = wheels.offers_of(offers, version, platform)
            if not here:
                continue
            text = self._text(here[0])
            row = pytorch.variant_of(text, here, self._source.id)
            rows.append(row)
            notes += [f"{text.name}: {said}" for said in pytorch.disagreements(text, row)]
            if release is None:
                day = wheels.first_day(here)
                release = pytorch.release_of(text, day, self._companions(version, day), self._source.id)
        if release is None:  # the listing named it
            raise wheels.UnreadableWheel(f"{version} has no wheel for Linux")
        return compared(matrix, release, rows, beside=pytorch.unread_builds(rows), notes=notes)

    def _text(self, offer: Offer) -> pytorch.WheelText:
        from provisioner.stack.upstream import pytorch

        wheel = self._files.open(pytorch.PROJECT, offer.name)
        version, metadata, table = (text_in(wheel, end) for end in (pytorch.VERSION, wheels.METADATA, pytorch.TABLE))
        library = wheel.member(pytorch.LIBRARY)
        if version is None or library is None:
            raise wheels.UnreadableWheel(f"{offer.name} lacks {pytorch.VERSION} or {pytorch.LIBRARY}")
        found = pytorch.scan(wheel.stream(library))
        return pytorch.WheelText(name=offer.name, version=version, metadata=metadata or "", table=table, library=found)

    def _companions(self, version: Version, day: str | None) -> dict[str, str | None]:
        from provisioner.stack.upstream import pytorch

        vision, audio = self._files.offers(pytorch.VISION), self._files.offers(pytorch.AUDIO)
        near = {release: self._asks(pytorch.VISION, release) for release in pytorch.near_in_time(vision, day)[:1]}
        line = {release: self._asks(pytorch.AUDIO, release) for release in pytorch.line_of(audio, version)}
        return {
            pytorch.VISION: pytorch.companion_bound(near, version, line=False),
            pytorch.AUDIO: pytorch.companion_bound(line, version, line=True),
        }

    def _asks(self, project: str, release: Version) -> str:
        """METADATA of a companion's release, of whichever wheel."""
        offers = self._files.offers(project)
        here = next(offers for each in wheels.MACHINES.values() if (offers := wheels.offers_of(offers, release, each)))
        return self._files.metadata(project, here[0].name)


class _TensorFlow:
    """TensorFlow: one wheel a platform, which is several builds."""

    def __init__(self, files: _Files, source: Source) -> None:
        from provisioner.stack.upstream import tensorflow

        self._files, self._source, self.first = files, source, tensorflow.FIRST

    def releases(self) -> tuple[Version, ...]:
        """As the listing says."""
        return wheels.releases_in(self._files.offers("tensorflow"))

    def there(self) -> tuple[Version, ...]:
        """As the listing says."""
        return self._files.there("tensorflow")

    def compared(self, matrix: Matrix, version: Version) -> Refreshed:
        """One release against `matrix`."""
        from provisioner.stack.refresh import compared
        from provisioner.stack.upstream import tensorflow

        rows: list[Variant] = []
        release: Release | None = None
        for platform in wheels.MACHINES.values():
            here = wheels.offers_of(self._files.offers(tensorflow.PROJECT), version, platform)
            if not here:
                continue
            wheel = self._files.open(tensorflow.PROJECT, here[0].name)
            metadata, build = (text_in(wheel, ending) for ending in (wheels.METADATA, tensorflow.BUILD))
            text = tensorflow.WheelText(name=here[0].name, metadata=metadata or "", build=build)
            rows += tensorflow.variants_of(text, here, self._source.id)
            release = release or tensorflow.release_of(text, wheels.first_day(here), self._source.id)
        if release is None:  # the listing named it
            raise wheels.UnreadableWheel(f"{version} has no wheel for Linux")
        return compared(matrix, release, rows)


class _Jax:
    """JAX: one wheel for every machine, with the jaxlib and the plugins that its METADATA asks for."""

    def __init__(self, files: _Files, source: Source) -> None:
        from provisioner.stack.upstream import jax

        self._files, self._source, self.first = files, source, jax.FIRST

    def releases(self) -> tuple[Version, ...]:
        """As the listing says."""
        return tuple(sorted(wheels.pure_releases(self._files.offers("jax"))))

    def there(self) -> tuple[Version, ...]:
        """As the listing says."""
        return self._files.there("jax")

    def compared(self, matrix: Matrix, version: Version) -> Refreshed:
        """One release against `matrix`."""
        from provisioner.stack.refresh import before, compared
        from provisioner.stack.upstream import jax

        offer = wheels.pure_releases(self._files.offers(jax.PROJECT))[version]
        metadata = self._files.metadata(jax.PROJECT, offer.name)
        library = jax.newest(self._files.offers(jax.LIBRARY), jax.library_of(metadata))
        text = jax.ReleaseText(version=version, metadata=metadata, library=library)
        notes: list[str] = []
        plugins: list[jax.Plugin] = []
        for tag, (project, bounds) in jax.plugins_of(metadata).items():
            plugin = self._plugin(tag, jax.newest(self._files.offers(project), bounds), project)
            plugins += [plugin] if plugin is not None else []
            if plugin is None:
                notes.append(f"jax {version}: its extra {tag} asks for {project}{bounds}, which the index does not have")

        def known(tag: str, platform: Platform) -> Variant | None:
            return before(matrix, "jax", version, tag, platform)

        rows = jax.variants_of(text, plugins, known, self._source.id)
        return compared(matrix, jax.release_of(text, offer.day, self._source.id), rows, notes=notes)

    def _plugin(self, tag: str, offers: Sequence[Offer], project: str) -> jax.Plugin | None:
        from provisioner.stack.upstream import jax

        if not offers:
            return None
        metadata = self._files.metadata(project, offers[0].name)
        name, bounds = jax.runtime_of(metadata, tag)
        runtime = jax.newest(self._files.offers(name), bounds)
        return jax.Plugin(tag=tag, metadata=metadata, offers=tuple(offers), runtime=runtime)
