"""A tree is packed and given to an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from provisioner.engines import BuildOptions
from provisioner.files.tree import Tree, TreeFile
from provisioner.proof.build import build, default_tag
from provisioner.proof.context import pack
from tests.unit.proof.fakes import FakeEngine, lock

if TYPE_CHECKING:
    from pathlib import Path

TREE = Tree(files={"Dockerfile": TreeFile(text="FROM base\n")})


def test_the_engine_gets_the_packed_context_with_its_folders(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"wheel")
    engine, options = FakeEngine(), BuildOptions(network="none")
    image = build(TREE, engine, "t:1", options, folders={"wheels": tmp_path}, tell=print)
    assert image.reference == "t:1"
    assert engine.asked == [("build", pack(TREE, {"wheels": tmp_path}), "t:1", options, print)]


def test_an_image_has_a_name_when_nobody_gives_it_one() -> None:
    assert default_tag(lock()) == "torch-2.9.1-cu130:provisioned"
