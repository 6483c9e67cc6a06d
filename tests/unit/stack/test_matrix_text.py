"""The text form of the matrix: one row one line, and what is written is what was read."""

from __future__ import annotations

import re

import pytest

from provisioner import resources
from provisioner.decode import decode
from provisioner.errors import MatrixError
from provisioner.stack.gpus import Capability
from provisioner.stack.matrix_text import format_matrix
from provisioner.stack.rows import SECTIONS, Gpu, MatrixFile, Source
from provisioner.versions import Version

TEXT = resources.resource("compat_matrix.yaml").read_text(encoding="utf-8")


def test_one_row_one_line() -> None:
    head, *sections = TEXT.split("\n\n")
    assert head.splitlines()[-2] == "schema: 1"
    assert [section.partition(":")[0] for section in sections] == list(SECTIONS)
    for section in sections:
        for line in section.splitlines()[1:]:
            assert re.fullmatch(r"- \{[a-z_]+: .*\}", line), line


def test_what_is_written_is_what_was_read() -> None:
    assert format_matrix(decode(TEXT, "compat_matrix.yaml", MatrixFile, MatrixError, strict=True)) == TEXT


def test_the_order_of_the_rows_does_not_matter() -> None:
    file = decode(TEXT, "compat_matrix.yaml", MatrixFile, MatrixError, strict=True)
    turned = MatrixFile(schema=1, collected=file.collected, **{name: tuple(reversed(getattr(file, name))) for name in SECTIONS})
    assert format_matrix(turned) == TEXT


@pytest.mark.parametrize(
    "document",
    [
        "plain words",
        "it's quoted: 'so'",
        "12.10",
        "null",
        "yes",
        "Off",
        "- not a list",
        "{not: a mapping}",
        "a, b",
        "# no comment",
        "ends with a colon:",
        "trailing space ",
        " leading space",
        "2026-12-01",
        "1_000",
        "0x10",
        "1e3",
        ".inf",
        "é → ≥",
        "*alias",
        "&anchor",
        "!tag",
        "%directive",
        "@at",
        "`tick",
        '"',
        "\\n",
        "",
    ],
)
def test_any_text_comes_back_as_it_was(document: str) -> None:
    file = MatrixFile(schema=1, collected="2026-12-01", sources=(Source(id="a", document=document),))
    assert decode(format_matrix(file), "x", MatrixFile, MatrixError, strict=True) == file


def test_versions_and_capabilities_are_quoted() -> None:
    gpu = Gpu(
        name="NVIDIA H100",
        segment="datacenter",
        architecture="hopper",
        capability=Capability(9, 0),
        first_driver_seen=Version("525.60.13"),
        source=("a",),
        verified="source",
    )
    line = format_matrix(MatrixFile(schema=1, gpus=(gpu,))).split("gpus:\n")[1].splitlines()[0]
    assert line == (
        "- {name: NVIDIA H100, segment: datacenter, architecture: hopper, capability: '9.0', "
        "first_driver_seen: '525.60.13', source: [a], verified: source}"
    )
