"""TensorFlow and JAX: what their wheels say → rows → the difference. The texts are those on the package index of 2026-12-01.

Shortened: build_info.py of tensorflow 2.21.0 without its licence; METADATA of tensorflow 2.21.0, jax 0.12.0.1 and its CUDA
plugins without descriptions and without what is not read.
"""

from __future__ import annotations

import functools

import pytest

from provisioner.decode import decode
from provisioner.errors import MatrixError
from provisioner.resources import resource
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.gpus import Capability
from provisioner.stack.invariants import check
from provisioner.stack.matrix import Matrix, load_matrix, overlay
from provisioner.stack.matrix_text import format_matrix, format_overlay
from provisioner.stack.refresh import before, compared, empty_file, with_rows
from provisioner.stack.rows import MatrixFile, Platform, Variant
from provisioner.stack.upstream import jax, tensorflow, wheels
from provisioner.stack.upstream.jax import Plugin, ReleaseText
from provisioner.stack.upstream.wheels import Offer, UnreadableWheel
from provisioner.values import replace
from provisioner.versions import Version

MATRIX = shipped_matrix()
DAY = "2026-12-02"

BUILD_INFO = '''\
"""Auto-generated module providing information about the build."""
import collections

build_info = collections.OrderedDict([('cpu_compiler', 'clang'), ('cuda_compute_capabilities', ['sm_60', 'sm_70', 'sm_80', \
'sm_89', 'compute_90']), ('cuda_version', '12.5.1'), ('cudnn_version', '9'), ('is_cuda_build', True), ('is_rocm_build', False), \
('is_tensorrt_build', False)])
'''
BUILD_INFO_CPU = """\
import collections

build_info = collections.OrderedDict([('is_cuda_build', False), ('is_rocm_build', False), ('is_tensorrt_build', False)])
"""
METADATA = """\
Metadata-Version: 2.4
Name: tensorflow
Version: 2.21.0
Requires-Python: >=3.10
Requires-Dist: protobuf<8.0.0,>=6.31.1
Requires-Dist: keras>=3.12.0
Requires-Dist: numpy>=1.26.0
Provides-Extra: and-cuda
Requires-Dist: nvidia-cublas-cu12<13.0,>=12.5.3.2; extra == "and-cuda"
Requires-Dist: nvidia-cuda-runtime-cu12<13.0,>=12.5.82; extra == "and-cuda"
Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == "and-cuda"
Requires-Dist: nvidia-nccl-cu12<3.0,>=2.27.7; extra == "and-cuda"
Provides-Extra: gcs-filesystem
"""
JAX = """\
Metadata-Version: 2.4
Name: jax
Version: 0.12.0.1
Requires-Python: >=3.12
Requires-Dist: jaxlib<=0.12.0.1,>=0.11.2
Requires-Dist: numpy>=2.2
Provides-Extra: minimum-jaxlib
Requires-Dist: jaxlib==0.11.2; extra == "minimum-jaxlib"
Provides-Extra: tpu
Requires-Dist: libtpu==0.0.50.*; extra == "tpu"
Provides-Extra: cuda
Requires-Dist: jax-cuda12-plugin[with-cuda]<=0.12.0.1,>=0.12.0.1; extra == "cuda"
Provides-Extra: cuda12
Requires-Dist: jaxlib<=0.12.0.1,>=0.12.0.1; extra == "cuda12"
Requires-Dist: jax-cuda12-plugin[with-cuda]<=0.12.0.1,>=0.12.0.1; extra == "cuda12"
Provides-Extra: cuda13
Requires-Dist: jax-cuda13-plugin[with-cuda]<=0.12.0.1,>=0.12.0.1; extra == "cuda13"
Provides-Extra: cuda12-local
Requires-Dist: jax-cuda12-plugin<=0.12.0.1,>=0.12.0.1; extra == "cuda12-local"
"""
PLUGINS = {
    "cuda12": """\
Name: jax-cuda12-plugin
Requires-Dist: jax-cuda12-pjrt==0.12.0.1
Provides-Extra: with-cuda
Requires-Dist: nvidia-cuda-runtime-cu12>=12.1.105; sys_platform == "linux" and extra == "with-cuda"
Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.10.2.21; sys_platform == "linux" and extra == "with-cuda"
Requires-Dist: nvidia-nccl-cu12>=2.18.1; sys_platform == "linux" and extra == "with-cuda"
""",
    "cuda13": """\
Name: jax-cuda13-plugin
Requires-Dist: jax-cuda13-pjrt==0.12.0.1
Provides-Extra: with-cuda
Requires-Dist: nvidia-cuda-runtime>=13.0.48; sys_platform == "linux" and extra == "with-cuda"
Requires-Dist: nvidia-cudnn-cu13<10.0,>=9.12.0.46; sys_platform == "linux" and extra == "with-cuda"
Requires-Dist: nvidia-nccl-cu13>=2.27.7; sys_platform == "linux" and extra == "with-cuda"
""",
}
MACHINES = ("x86_64", "aarch64")
TF_PYTHONS = ("310-cp310", "311-cp311", "312-cp312", "313-cp313")
JAX_PYTHONS = ("312-cp312", "313-cp313", "314-cp314", "314-cp314t", "315-cp315", "315-cp315t")


def tf_offers(machine: str) -> tuple[Offer, ...]:
    size = {"x86_64": 572611111, "aarch64": 281946471}[machine]
    names = [f"tensorflow-2.21.0-cp{python}-manylinux_2_27_{machine}.whl" for python in TF_PYTHONS]
    return wheels.offers_of([Offer(name=name, size=size, day="2026-03-06") for name in names], Version("2.21.0"), _of(machine))


def _of(machine: str) -> Platform:
    return wheels.MACHINES[machine]


def jax_offers(project: str, pythons: tuple[str, ...] = JAX_PYTHONS, number: str = "0.12.0.1") -> tuple[Offer, ...]:
    names = [f"{project}-{number}-cp{python}-manylinux_2_27_{machine}.whl" for machine in MACHINES for python in pythons]
    return tuple(Offer(name=name) for name in names)


def runtime(tag: str) -> tuple[Offer, ...]:
    return tuple(Offer(name=f"jax_{tag}_pjrt-0.12.0.1-py3-none-manylinux_2_27_{machine}.whl") for machine in MACHINES)


TF_SOURCE, JAX_SOURCE = tensorflow.source_of(DAY), jax.source_of(DAY)
TF_TEXT = tensorflow.WheelText(name=tf_offers("x86_64")[0].name, metadata=METADATA, build=BUILD_INFO)
TF_ARM = tensorflow.WheelText(name=tf_offers("aarch64")[0].name, metadata=METADATA, build=BUILD_INFO_CPU)
TF_ROWS = (
    *tensorflow.variants_of(TF_TEXT, tf_offers("x86_64"), TF_SOURCE.id),
    *tensorflow.variants_of(TF_ARM, tf_offers("aarch64"), TF_SOURCE.id),
)
TF_RELEASE = tensorflow.release_of(TF_TEXT, "2026-03-06", TF_SOURCE.id)
JAX_TEXT = ReleaseText(version=Version("0.12.0.1"), metadata=JAX, library=jax_offers("jaxlib"))
JAX_PLUGINS = tuple(
    Plugin(tag=tag, metadata=metadata, offers=jax_offers(f"jax_{tag}_plugin"), runtime=runtime(tag))
    for tag, metadata in PLUGINS.items()
)
JAX_RELEASE = jax.release_of(JAX_TEXT, "2026-10-21", JAX_SOURCE.id)


def jax_rows(matrix: Matrix, text: ReleaseText = JAX_TEXT, plugins: tuple[Plugin, ...] = JAX_PLUGINS) -> tuple[Variant, ...]:
    return jax.variants_of(text, plugins, lambda tag, on: before(matrix, "jax", text.version, tag, on), JAX_SOURCE.id)


@functools.cache
def without(framework: str, version: str) -> Matrix:
    """The shipped matrix without one release."""
    file = decode(resource("compat_matrix.yaml").read_text(encoding="utf-8"), "m", MatrixFile, MatrixError, strict=True)
    kept = {
        name: tuple(row for row in getattr(file, name) if str(row.version) != version or row.framework != framework)
        for name in ("releases", "variants")
    }
    return load_matrix(format_matrix(replace(file, **kept)), "m")


def said(row: Variant) -> Variant:
    """A row without what is not read."""
    return replace(row, note="", source=(), verified="metadata")


def test_the_texts_of_tensorflow_give_the_shipped_rows() -> None:
    shipped = [row for row in MATRIX.variants_of("tensorflow") if str(row.version) == "2.21.0"]
    assert sorted(map(str, map(said, TF_ROWS))) == sorted(map(str, map(said, shipped)))
    refreshed = compared(MATRIX, TF_RELEASE, TF_ROWS)
    assert (refreshed.state, refreshed.changes, refreshed.fails, refreshed.moves) == ("same", (), (), ())


def test_the_texts_of_jax_give_the_shipped_rows() -> None:
    shipped = [row for row in MATRIX.variants_of("jax") if str(row.version) == "0.12.0.1"]
    assert sorted(map(str, map(said, jax_rows(MATRIX)))) == sorted(map(str, map(said, shipped)))
    refreshed = compared(MATRIX, JAX_RELEASE, jax_rows(MATRIX))
    assert (refreshed.state, refreshed.changes, refreshed.fails, refreshed.moves) == ("same", (), (), ())


def test_a_new_release_of_tensorflow_becomes_rows() -> None:
    matrix = without("tensorflow", "2.21.0")
    refreshed = compared(matrix, TF_RELEASE, TF_ROWS)
    assert (refreshed.state, refreshed.fails) == ("new", ())
    assert any("cu125 linux/amd64: the oldest C library moves from 2.17 to 2.27" in text for text in refreshed.moves)
    assert not any("GPU" in text or "gone" in text for text in refreshed.moves)
    text = format_overlay(with_rows(empty_file(DAY), refreshed.rows, TF_SOURCE, DAY))
    merged = overlay(matrix, text, "matrix.yaml")
    assert check(merged) == ()
    row = merged.row("variants", "tensorflow 2.21.0 and-cuda linux/amd64")
    assert (row.requirement, row.cudnn, row.libraries[0]) == (
        "tensorflow[and-cuda]==2.21.0",
        None,
        "nvidia-cudnn-cu12<10.0,>=9.3.0.75",
    )


def test_the_targets_of_a_new_jax_stay_unknown_and_its_cuda_is_that_of_the_release_before() -> None:
    matrix = without("jax", "0.12.0.1")
    refreshed = compared(matrix, JAX_RELEASE, jax_rows(matrix))
    assert (refreshed.state, refreshed.fails, refreshed.moves) == ("new", (), ())
    merged = overlay(matrix, format_overlay(with_rows(empty_file(DAY), refreshed.rows, JAX_SOURCE, DAY)), "matrix.yaml")
    assert check(merged) == ()
    row = merged.row("variants", "jax 0.12.0.1 cuda13 linux/arm64")
    assert (row.sass, row.ptx, str(row.cuda), row.min_capability) == (None, (), "13.0", Capability.parse("sm_75"))
    assert "CUDA as of 0.12.0" in row.note
    assert "targets were not read" in row.note


def test_what_shrinks_fails_and_what_moves_is_said() -> None:
    no_extra = compared(MATRIX, TF_RELEASE, [row for row in TF_ROWS if row.tag != "and-cuda"])
    assert no_extra.fails == ("tensorflow 2.21.0 and-cuda linux/amd64: the index no longer has this build",)
    fewer = compared(MATRIX, JAX_RELEASE, jax_rows(MATRIX, plugins=JAX_PLUGINS[1:]))
    assert [text.partition(":")[0] for text in fewer.fails] == [
        f"jax 0.12.0.1 cuda12 linux/{arch}" for arch in ("amd64", "arm64")
    ]
    pythons = compared(MATRIX, JAX_RELEASE, jax_rows(MATRIX, replace(JAX_TEXT, library=jax_offers("jaxlib", JAX_PYTHONS[1:]))))
    assert all("the list of Pythons lost 3.12" in text for text in pythons.fails)
    assert len(pythons.fails) == len(jax_rows(MATRIX))
    newer = [replace(row, tag="cu126", cuda=Version("12.6")) if row.tag == "cu125" else row for row in TF_ROWS]
    assert compared(MATRIX, TF_RELEASE, newer).fails == (
        "tensorflow 2.21.0 linux/amd64: the default build was cu125 and is cu126",
    )
    gone = compared(without("jax", "0.12.0.1"), JAX_RELEASE, jax_rows(MATRIX, plugins=JAX_PLUGINS[1:]))
    assert "jax 0.12.0.1 linux/amd64: the build cuda12, which 0.12.0 has, is gone" in gone.moves


def test_what_was_not_read_is_not_erased() -> None:
    blank = [replace(row, sass=None, ptx=(), cudnn=None, libraries=(), download=None) for row in TF_ROWS]
    assert compared(MATRIX, TF_RELEASE, blank).state == "same"


@pytest.mark.parametrize(
    "build",
    [
        None,
        "x = 1",
        BUILD_INFO.replace("'12.5.1'", "'local'"),
        BUILD_INFO.replace("'sm_60'", "'gfx90a'"),
        BUILD_INFO.replace("True", "maybe"),
        BUILD_INFO.replace("['sm_60', 'sm_70', 'sm_80', 'sm_89', 'compute_90']", "[]"),
    ],
)
def test_a_wheel_of_tensorflow_that_says_too_little_makes_no_row(build: str | None) -> None:
    with pytest.raises(UnreadableWheel, match=TF_TEXT.name):
        tensorflow.variants_of(replace(TF_TEXT, build=build), tf_offers("x86_64"), TF_SOURCE.id)


def test_a_wrapper_around_a_cpu_build() -> None:
    """METADATA of tensorflow 2.15.1 for aarch64, which holds nothing else."""
    wanted = (
        'Requires-Dist: tensorflow-cpu-aws ==2.15.1 ; platform_system == "Linux" and '
        '(platform_machine == "arm64" or platform_machine == "aarch64")\n'
    )
    (row,) = tensorflow.variants_of(replace(TF_ARM, metadata=wanted, build=None), tf_offers("aarch64"), TF_SOURCE.id)
    assert (row.tag, row.cuda, row.download) == ("cpu", None, None)


def test_cudnn_of_the_system_build_is_that_of_the_extra_where_both_agree() -> None:
    other = replace(TF_TEXT, build=BUILD_INFO.replace("('cudnn_version', '9')", "('cudnn_version', '8')"))
    rows = {row.tag: row for row in tensorflow.variants_of(other, tf_offers("x86_64"), TF_SOURCE.id)}
    assert rows["cu125"].cudnn is None
    exact = replace(TF_TEXT, metadata=METADATA.replace("<10.0,>=9.3.0.75", "==9.3.0.75"))
    rows = {row.tag: row for row in tensorflow.variants_of(exact, tf_offers("x86_64"), TF_SOURCE.id)}
    assert (str(rows["and-cuda"].cudnn), str(rows["cu125"].cudnn)) == ("9.3.0.75", "9.3")
    assert rows["and-cuda"].libraries == ("nvidia-nccl-cu12<3.0,>=2.27.7",)


def test_the_plugins_that_extras_ask_for() -> None:
    bounds = "<=0.12.0.1,>=0.12.0.1"
    assert jax.plugins_of(JAX) == {"cuda12": ("jax-cuda12-plugin", bounds), "cuda13": ("jax-cuda13-plugin", bounds)}
    assert jax.runtime_of(PLUGINS["cuda12"], "cuda12") == ("jax-cuda12-pjrt", "==0.12.0.1")
    older = jax_offers("jax_cuda12_plugin", number="0.12.0")
    assert jax.newest(older, bounds) == ()
    assert {wheels.tags_of(offer.name).version for offer in jax.newest(older, "<=0.12.0.1,>=0.11")} == {Version("0.12.0")}  # type: ignore[union-attr]  # they are wheels
    with pytest.raises(UnreadableWheel, match="jaxlib"):
        jax.library_of("Name: jax\n")


def test_a_release_of_jax_whose_parts_are_not_there() -> None:
    with pytest.raises(UnreadableWheel, match="no jaxlib"):
        jax_rows(MATRIX, replace(JAX_TEXT, library=()))
    no_runtime = tuple(replace(plugin, runtime=plugin.runtime[:1]) for plugin in JAX_PLUGINS)
    assert {(row.tag, row.platform) for row in jax_rows(MATRIX, plugins=no_runtime) if row.platform == "linux/arm64"} == {
        ("cpu", "linux/arm64")
    }
    with pytest.raises(UnreadableWheel, match="cuDNN"):
        jax_rows(MATRIX, plugins=(replace(JAX_PLUGINS[0], metadata="Name: x\n"),))


def test_a_cuda_major_that_nobody_knows_yet_is_the_least_it_takes() -> None:
    plugin = replace(JAX_PLUGINS[1], tag="cuda14", metadata=PLUGINS["cuda13"].replace("runtime>=13.0.48", "runtime>=14.1.2"))
    (row,) = [row for row in jax_rows(MATRIX, plugins=(plugin,)) if row.tag == "cuda14" and row.platform == "linux/amd64"]
    assert (str(row.cuda), row.min_capability, row.requirement) == ("14.1", None, "jax[cuda14]==0.12.0.1")


def test_pythons_that_jax_itself_refuses_stay_out() -> None:
    library = jax_offers("jaxlib", ("311-cp311", *JAX_PYTHONS))
    assert {row.pythons[0] for row in jax_rows(MATRIX, replace(JAX_TEXT, library=library))} == {"3.12"}


def test_what_is_there_in_any_form() -> None:
    names = ["jax-0.4.13.tar.gz", "jax-0.12.0-py3-none-any.whl", "torch-2.9.1-cp312-cp312-win_amd64.whl", "jax-0.5.0rc1.tar.gz"]
    assert list(map(str, wheels.releases_named(names))) == ["0.4.13", "0.12.0"]
    assert wheels.tags_of("tensorflow-2.15.0.post1-cp311-cp311-manylinux_2_17_x86_64.whl") is not None


def test_extras_in_metadata() -> None:
    old = "Requires-Dist: nvidia-cudnn-cu12 (<10.0,>=9.1) ; extra == 'with_cuda'\n"
    assert wheels.requirements_of(old, extra="with-cuda") == {"nvidia-cudnn-cu12": "<10.0,>=9.1"}
    assert wheels.requirements_of(old) == {}
    assert wheels.accepted("3.14t", JAX)
    assert not wheels.accepted("3.11", JAX)
    assert wheels.accepted("3.11", "Requires-Python: >=three\n")
