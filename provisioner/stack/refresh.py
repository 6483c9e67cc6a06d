"""Rows read from a package index against the matrix: what is new, what changed, what trips, and the text that keeps it.

Two tripwires. A list that shrinks (Pythons, architectures, releases) fails: upstream rarely takes something back, readers often
fail. A floor or ceiling that moves (C library, GPU, driver, Python) decides for whom a stack is refused: a human accepts it.
Nothing that the index does not say is erased.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from provisioner.stack.rows import MatrixFile, Variant, key_of
from provisioner.values import replace, value
from provisioner.versions import Version

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from provisioner.stack.matrix import Matrix
    from provisioner.stack.rows import Platform, Release, Source

#: The fields of a row that are read; the others (also, note, source) are kept as they are.
_VARIANT_FIELDS = ("cuda", "cudnn", "nccl", "libraries", "pythons", "sass", "ptx", "glibc", "download")
_RELEASE_FIELDS = ("date", "companions", "numpy2", "numpy")
_LISTS = {"pythons": "Pythons", "sass": "architectures", "ptx": "PTX targets"}


@value
class Change:
    """One field of one row. `fills`: the matrix did not have it."""

    key: str
    field: str
    was: str
    now: str
    fills: bool = False


@value
class Refreshed:
    """One release as it was read: `rows` (section, row) are what the matrix should have, none where it has them already.

    `fails` and `moves` are the tripwires, in words; `notes` say what a reader of the rows should know.
    """

    version: Version
    state: Literal["new", "changed", "same"]
    rows: tuple[tuple[str, Any], ...] = ()
    changes: tuple[Change, ...] = ()
    fails: tuple[str, ...] = ()
    moves: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def to_read(matrix: Matrix, framework: str, listed: Sequence[Version], again: int) -> tuple[Version, ...]:
    """The releases to read: those that are newer than the matrix, and the newest `again` that it knows; oldest first."""
    known = [row.version for row in matrix.releases_of(framework)]
    newest = max(known, default=None)
    new = [version for version in listed if version not in known and (newest is None or version > newest)]
    old = [version for version in listed if version in known]
    return tuple(sorted([*new, *(old[-again:] if again else [])]))


def gone(matrix: Matrix, framework: str, listed: Sequence[Version]) -> tuple[str, ...]:
    """What the index no longer lists and the matrix says it serves: a list that shrinks."""
    served = {row.version for row in matrix.variants_of(framework) if row.default}
    return tuple(f"the index no longer lists {framework} {version}" for version in sorted(served - set(listed)))


def compared(
    matrix: Matrix, release: Release, variants: Sequence[Variant], *, beside: Sequence[Variant] = (), notes: Sequence[str] = ()
) -> Refreshed:
    """One release as it was read, against the matrix. `beside`: builds that a new release has too, which nobody read."""
    known = matrix.row("releases", key_of("releases", release))
    if known is None:
        rows: list[tuple[str, Any]] = [("releases", release), *(("variants", row) for row in (*variants, *beside))]
        moves = [move for row in variants for move in _moves(matrix, _before(matrix, row), row)]
        moves += _dropped(matrix, variants)
        return Refreshed(version=release.version, state="new", rows=tuple(rows), moves=tuple(moves), notes=tuple(notes))
    changes = list(_changes("releases", known, release, _RELEASE_FIELDS))
    merged = [("releases", _merged(known, release, changes))] if changes else []
    fails = list(_lost(matrix, variants))
    moved: list[str] = []
    for row in variants:
        old = _default(matrix, row, variants)
        if old is None:
            merged.append(("variants", row))
            changes.append(Change(key=key_of("variants", row), field="row", was="", now="new", fills=True))
            continue
        if old.tag != row.tag:
            fails.append(f"{row.framework} {row.version} {row.platform}: the default build was {old.tag} and is {row.tag}")
            continue
        here = list(_changes("variants", old, row, _VARIANT_FIELDS))
        fails += _shrunk(old, row)
        moved += _moves(matrix, old, row)
        if here:
            merged.append(("variants", _merged(old, row, here)))
            changes += here
    return Refreshed(
        version=release.version,
        state="changed" if changes or fails else "same",
        rows=tuple(merged),
        changes=tuple(changes),
        fails=tuple(fails),
        moves=tuple(moved),
        notes=tuple(notes),
    )


def before(matrix: Matrix, framework: str, version: Version, tag: str, platform: Platform) -> Variant | None:
    """The row of this very build, else the one of its tag in the release before; None when the matrix has neither."""
    rows = (row for row in _defaults(matrix, framework, platform) if row.tag == tag and row.published == "seen")
    return max((row for row in rows if row.version <= version), key=lambda row: row.version, default=None)


def _defaults(matrix: Matrix, framework: str, platform: Platform) -> tuple[Variant, ...]:
    return tuple(row for row in matrix.variants_of(framework) if row.default and row.platform == platform)


def _default(matrix: Matrix, row: Variant, read: Sequence[Variant]) -> Variant | None:
    """The known row that `row` was read for: the one of its tag, else the one whose tag nobody read, which then changed."""
    known = [old for old in _defaults(matrix, row.framework, row.platform) if old.version == row.version]
    same = next((old for old in known if old.tag == row.tag), None)
    tags = {each.tag for each in read if each.platform == row.platform}
    alike = (old for old in known if old.tag not in tags and (old.requirement is None) == (row.requirement is None))
    return same or next((old for old in alike if (old.cuda is None) == (row.cuda is None) or len(tags) == 1), None)


def _lost(matrix: Matrix, read: Sequence[Variant]) -> Iterable[str]:
    """The extras of a known release that were seen on the index and were not found again."""
    tags = {(row.platform, row.tag) for row in read}
    for platform in dict.fromkeys(row.platform for row in read):
        for old in _defaults(matrix, read[0].framework, platform):
            seen = old.version == read[0].version and old.published == "seen" and old.requirement is not None
            if seen and (platform, old.tag) not in tags:
                yield f"{key_of('variants', old)}: the index no longer has this build"


def _dropped(matrix: Matrix, read: Sequence[Variant]) -> Iterable[str]:
    """The extras that the release before has and a new one does not: for whoever needs them it is a ceiling."""
    tags = {(row.platform, row.tag) for row in read}
    for row in {row.platform: row for row in read}.values():
        older = [old for old in _defaults(matrix, row.framework, row.platform) if old.version < row.version]
        last = max((old.version for old in older), default=None)
        for old in older:
            seen = old.version == last and old.published == "seen" and old.requirement is not None
            if seen and (row.platform, old.tag) not in tags:
                yield f"{row.framework} {row.version} {row.platform}: the build {old.tag}, which {last} has, is gone"


def _before(matrix: Matrix, row: Variant) -> Variant | None:
    """The build of the release before, for the same platform, that is most like `row`."""

    def nearest(old: Variant) -> tuple[object, ...]:
        alike = (old.requirement is None) == (row.requirement is None)
        return old.version, old.tag == row.tag, (old.cuda is None) == (row.cuda is None), alike

    rows = _defaults(matrix, row.framework, row.platform)
    return max((old for old in rows if old.version < row.version), key=nearest, default=None)


def _changes(section: str, old: Any, new: Any, fields: Iterable[str]) -> Iterable[Change]:  # noqa: ANN401 - rows of one class
    for name in fields:
        was, now = getattr(old, name), getattr(new, name)
        if name == "companions":
            now = {**was, **now}  # what the index did not tell stays
        if now in (None, (), "") or was == now:
            continue
        fills = was in (None, (), "", {})
        yield Change(key=key_of(section, old), field=name, was=_text(was), now=_text(now), fills=fills)


def _merged(old: Any, new: Any, changes: Iterable[Change]) -> Any:  # noqa: ANN401 - rows of one class
    names = [change.field for change in changes]
    fresh = {name: getattr(new, name) for name in names}
    if "companions" in fresh:
        fresh["companions"] = {**old.companions, **new.companions}
    return replace(old, **fresh, source=tuple(dict.fromkeys((*old.source, *new.source))))


def _text(entry: object) -> str:
    if isinstance(entry, tuple):
        return " ".join(map(str, entry))
    if isinstance(entry, Mapping):
        return " ".join(f"{name} {bound}" for name, bound in entry.items())
    return "" if entry is None else str(entry)


def _shrunk(old: Variant, new: Variant) -> Iterable[str]:
    for name, words in _LISTS.items():
        was, now = getattr(old, name) or (), getattr(new, name) or ()
        lost = [entry for entry in was if entry not in now]
        if lost and now:
            yield f"{key_of('variants', old)}: the list of {words} lost {_text(tuple(lost))}"


def _moves(matrix: Matrix, old: Variant | None, new: Variant) -> Iterable[str]:
    """The floors and ceilings that `new` has elsewhere than `old`."""
    if old is None:
        return
    before, after = _bounds(matrix, old), _bounds(matrix, new)
    for name, was in before.items():
        now = after[name]
        if was is not None and now is not None and was != now:
            yield f"{key_of('variants', new)}: {name} moves from {was} to {now} (that of {old.version})"
    if old.version != new.version:
        yield from _shrunk(old, new)


def _bounds(matrix: Matrix, row: Variant) -> Mapping[str, object]:
    cuda = matrix.cuda_minor(row.cuda) if row.cuda is not None else None
    return {
        "the oldest C library": row.glibc,
        "the oldest GPU": min(row.sass, default=None) if row.sass else None,
        "the newest GPU": max(row.sass, default=None) if row.sass else None,
        "the oldest driver": cuda.min_driver if cuda is not None else None,
        "the oldest Python": row.pythons[0] if row.pythons else None,
        "the newest Python": row.pythons[-1].removesuffix("t") if row.pythons else None,
    }


def with_rows(file: MatrixFile, rows: Iterable[tuple[str, Any]], source: Source, day: str) -> MatrixFile:
    """`file` with `rows` in it, each in place of the one with its id, and with their source."""
    added: dict[str, dict[str, Any]] = {"sources": {source.id: source}}
    for section, row in rows:
        added.setdefault(section, {})[key_of(section, row)] = row
    changes: dict[str, Any] = {}
    for section, fresh in added.items():
        kept = {key_of(section, row): row for row in getattr(file, section)}
        changes[section] = tuple({**kept, **fresh}.values())
    return replace(file, **changes, collected=max(day, file.collected))


def empty_file(day: str) -> MatrixFile:
    """An overlay without rows."""
    return MatrixFile(schema=1, collected=day)
