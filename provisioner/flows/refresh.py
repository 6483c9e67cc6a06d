"""matrix refresh and matrix check --online: what the package index says, against the rows."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from provisioner.errors import ProvisionerError, UsageError
from provisioner.findings import Finding, Remedy
from provisioner.flows.inputs import matrix_with, own_rows, site_of
from provisioner.report.answer import VERDICT_ORDER, Answer
from provisioner.values import replace, value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from provisioner.edges.wheel_reader import Listing
    from provisioner.findings import Verdict
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.refresh import Refreshed
    from provisioner.stack.rows import MatrixFile, Source, Variant

    Tell = Callable[[str], None]


@value
class Wish:
    """What was asked: the framework, how many known releases are read again, whether rows are written, moved bounds accepted."""

    framework: str
    again: int = 0
    write: bool = False
    accept: bool = False
    site: Path | None = None
    matrix: Path | None = None  # an overlay: its rows count as known


def refresh(wish: Wish, day: str, tell: Tell = lambda _: None) -> Answer:
    """Read the index and compare; with `write`, keep the rows where nothing trips. `day` is today (ISO).

    UsageError for a framework that cannot be read; ProvisionerError when the index does not answer.
    """
    from provisioner.flows.refresh_readers import reader_of, source_of
    from provisioner.stack.refresh import gone, to_read
    from provisioner.stack.upstream import REFRESHABLE
    from provisioner.stack.upstream.wheels import UnreadableWheel

    if wish.framework not in REFRESHABLE:
        raise UsageError(f"{wish.framework!r} cannot be refreshed from an index", hint=f"this can: {', '.join(REFRESHABLE)}")
    matrix, source, began = matrix_with(wish.matrix), source_of(wish.framework, day), time.monotonic()
    found: list[Refreshed] = []
    failed: list[str] = []
    with _listing(wish.site, matrix) as index:
        reader = reader_of(wish.framework, index, source)
        failed += gone(matrix, wish.framework, reader.there())
        known = matrix
        readable = [version for version in reader.releases() if version >= reader.first]
        for version in to_read(matrix, wish.framework, readable, wish.again):
            tell(f"reading {wish.framework} {version}")
            try:
                one = reader.compared(known, version)
            except UnreadableWheel as failure:
                failed.append(failure.message)
                continue
            found.append(one)
            known = _with(known, one, source, day)
        cost = {"requests": index.cost.requests, "bytes": index.cost.bytes, "seconds": round(time.monotonic() - began, 1)}
    fails = (*failed, *(text for one in found for text in one.fails), *_faults(known))
    moves = tuple(text for one in found for text in one.moves)
    trips = bool(fails) or bool(moves and not wish.accept)
    rows = [row for one in found for row in one.rows]
    written = str(_write(rows, source, day)) if wish.write and rows and not trips else None
    notes = [_finding("refresh-disagreement", text) for one in found for text in one.notes]
    findings = (*(_finding("refresh-list-shrinks", text) for text in fails), *_asked(moves, wish), *notes)
    return Answer(
        verdict="fault" if trips else "ok",
        findings=findings,
        fields={
            "framework": wish.framework,
            "collected": matrix.collected,
            "releases": [_json(one) for one in found],
            "written": written,
            "cost": cost,
        },
    )


def _asked(moves: Sequence[str], wish: Wish) -> Iterator[Finding]:
    """The bounds that moved: a human reads them and accepts; accepted ones are information."""
    for text in moves:
        if wish.accept:
            yield replace(_finding("refresh-bound-moves", text), severity="info")
        else:
            command = f"provisioner matrix refresh {wish.framework} --write --accept"
            remedy = Remedy(text="read it, and accept it if it is so", commands=(command,))
            yield replace(_finding("refresh-bound-moves", text), remedies=(remedy,))


def _finding(id_: str, text: str) -> Finding:
    from provisioner.knowledge.registry import finding

    return finding(id_, text)


def _listing(site_file: Path | None, matrix: Matrix) -> AbstractContextManager[Listing]:
    """The default index, or what the site says stands for it."""
    import os

    from provisioner.edges.index import Access
    from provisioner.edges.wheel_reader import listing
    from provisioner.files.site import DEFAULT_INDEX, NO_INDEX, index_address, read_address
    from provisioner.flows.answers import index_addresses, proxies_of

    site = site_of(site_file)
    address = index_address(site, DEFAULT_INDEX, index_addresses(matrix).get(DEFAULT_INDEX))
    if address == NO_INDEX:
        raise ProvisionerError("the site says that the package index may not be asked", hint="run it where it may be asked")
    place = read_address(address, os.environ) if address else None
    return listing(place, Access(ca=site.ca_pem, proxies=proxies_of(site)))


def _with(matrix: Matrix, one: Refreshed, source: Source, day: str) -> Matrix:
    """`matrix` with the rows of a release, so that the next release is held against it; faults are said at the end."""
    from provisioner.stack.matrix import Matrix
    from provisioner.stack.refresh import with_rows

    if not one.rows:
        return matrix
    file = with_rows(_file_of(matrix), one.rows, source, day)
    from provisioner.stack.rows import SECTIONS, key_of, order_of

    def sorted_rows(name: str) -> tuple[Any, ...]:
        return tuple(sorted(getattr(file, name), key=lambda row: order_of(key_of(name, row))))

    sections = {name: (lambda name=name: sorted_rows(name)) for name in SECTIONS}
    return Matrix(collected=file.collected, sha256=matrix.sha256, sections=sections)


def _file_of(matrix: Matrix) -> MatrixFile:
    from provisioner.stack.rows import SECTIONS, MatrixFile

    rows: dict[str, Any] = {name: matrix.rows(name) for name in SECTIONS}
    return MatrixFile(schema=1, collected=matrix.collected, **rows)


def _faults(matrix: Matrix) -> tuple[str, ...]:
    """What the rows as they would be break: a CUDA that the matrix does not have yet, for one."""
    from provisioner.stack.invariants import check

    return tuple(str(fault) for fault in check(matrix))


def _write(rows: Sequence[tuple[str, Any]], source: Source, day: str) -> Path:
    """Keep the rows: in the matrix of a checkout, else in the user's own file on top of the shipped one."""
    from provisioner.decode import decode, read_text
    from provisioner.errors import MatrixError
    from provisioner.flows.output import write_file
    from provisioner.resources import in_checkout, resource
    from provisioner.stack.compiled import NAME
    from provisioner.stack.matrix_text import format_matrix, format_overlay
    from provisioner.stack.refresh import empty_file, with_rows
    from provisioner.stack.rows import MatrixFile

    path, form = (resource(NAME), format_matrix) if in_checkout() else (own_rows(), format_overlay)
    if path.is_file():
        file = decode(read_text(path, MatrixError), str(path), MatrixFile, MatrixError, strict=True)
    else:
        file = empty_file(day)
    write_file(path, form(with_rows(file, rows, source, day)), force=True)
    return path


def _json(one: Refreshed) -> dict[str, Any]:
    from provisioner.stack.rows import key_of

    return {
        "version": str(one.version),
        "state": one.state,
        "rows": [{"section": section, "id": key_of(section, row), "row": row} for section, row in one.rows],
        "changes": list(one.changes),
        "moves": list(one.moves),
    }


def with_online(answer: Answer, matrix: Matrix, site_file: Path | None) -> Answer:
    """The answer of `matrix check`, with whether the index serves every default build: one request for each framework."""
    found, verdict = _online(matrix, tuple(row.id for row in matrix.frameworks), site_file)
    worse = min((answer.verdict, verdict), key=VERDICT_ORDER.index)
    return replace(answer, verdict=worse, findings=(*answer.findings, *found))


def _online(matrix: Matrix, frameworks: Sequence[str], site_file: Path | None) -> tuple[tuple[Finding, ...], Verdict]:
    from provisioner.edges.index import Unreachable

    findings: list[Finding] = []
    verdict: Verdict = "ok"
    with _listing(site_file, matrix) as index:
        for framework in frameworks:
            try:
                files = index.files(framework, every=True)
            except Unreachable as failure:
                said = _finding("index-not-answering", f"{framework}: {failure.message}, so its builds were not looked for")
                findings.append(said)
                verdict = "unknown" if verdict == "ok" else verdict
                continue
            for row in matrix.variants_of(framework):
                here = [file for file in files if row.default and _is_of(file.name, row)]
                build = f"{framework} {row.version} {row.tag} {row.platform}"
                if row.default and not here:
                    findings.append(_finding("matrix-row-wrong", f"{build}: the index does not list this default build"))
                    verdict = "fault"
                elif here and all(file.yanked for file in here):
                    findings.append(
                        _finding("release-yanked", f"{build}: its publisher took it back; it installs by exact version")
                    )
    return tuple(findings), verdict


def _is_of(name: str, row: Variant) -> bool:
    """Whether a file is of the release and for the platform: a wheel for it or for any, or source where that is all there is."""
    from provisioner.edges.index import is_build

    anywhere = name.endswith("-any.whl") and name.split("-")[1] == str(row.version)
    source = name.removesuffix(".tar.gz").rpartition("-")[2] == str(row.version)
    return anywhere or source or is_build(name, str(row.version), row.tag, row.platform)
