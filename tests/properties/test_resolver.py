"""What holds for every request, whatever the matrix says: tried on requests drawn from the rows of the one that ships.

The last branch of a GPU ends what a newer driver can do, 620 and later ship no proprietary modules, and cuda-compat must not be
older than the driver: so "a newer driver never shrinks the choice" is stated for drivers up to the GPU's last branch, without a
pinned flavour and without cuda-compat.
"""

from __future__ import annotations

import functools
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from provisioner.stack.changes import apply_changes
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.explain import explain
from provisioner.stack.gpus import cubin_runs, ptx_runs
from provisioner.stack.lock import Pins, lock, lock_text
from provisioner.stack.matrix import SECTIONS, Matrix
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide
from provisioner.values import replace
from provisioner.versions import Version

MATRIX = shipped_matrix()
FRAMEWORK = MATRIX.frameworks[0].id
GPUS = tuple(gpu for gpu in MATRIX.gpus if gpu.segment != "jetson")
DRIVERS = tuple(sorted({version for row in MATRIX.drivers for version in (row.first, row.latest) if version is not None}))
RELEASES = tuple(row.version for row in MATRIX.releases_of(FRAMEWORK))
TAGS = tuple(sorted({row.tag for row in MATRIX.variants_of(FRAMEWORK)}))
PYTHONS = tuple(sorted({python for row in MATRIX.variants_of(FRAMEWORK) for python in row.pythons}))

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


def packages() -> st.SearchStrategy[tuple[str, ...]]:
    release = st.sampled_from(RELEASES)
    return st.one_of(
        st.just((FRAMEWORK,)),
        release.map(lambda version: (f"{FRAMEWORK}=={version}",)),
        release.map(lambda version: (f"{FRAMEWORK}>={version}",)),
    )


@st.composite
def requests(draw: st.DrawFn, /, **fixed: Any) -> Request:  # noqa: ANN401 - fields of a request
    fields: dict[str, Any] = {
        "packages": draw(packages()),
        "gpus": tuple(draw(st.lists(st.sampled_from(GPUS).map(lambda gpu: gpu.name), min_size=1, max_size=2, unique=True))),
        "driver": draw(st.one_of(st.just("any"), st.just("upgrade"), st.sampled_from(DRIVERS).map(str))),
        "platform": draw(st.sampled_from(("linux/amd64", "linux/amd64", "linux/arm64"))),
        "variant": draw(st.one_of(st.none(), st.none(), st.sampled_from(TAGS))),
        "python": draw(st.one_of(st.none(), st.none(), st.sampled_from(PYTHONS))),
        "image_os": draw(st.one_of(st.none(), st.none(), st.none(), st.sampled_from(MATRIX.systems).map(lambda row: row.id))),
        "cuda_compat": draw(st.one_of(st.none(), st.none(), st.just(value=True))),
    }
    return Request(**{**fields, **fixed})


@quick
@given(requests())
def test_a_stack_satisfies_every_rule(request: Request) -> None:
    stack = decide(request, MATRIX, remedies=False).stack
    assume(stack is not None)
    assert stack is not None
    build = MATRIX.row("variants", f"{stack.framework} {stack.version} {stack.variant} {stack.platform}")
    assert build is not None
    assert build.published != "no"
    assert stack.platform == request.platform
    assert stack.python in build.pythons
    assert request.python in {None, stack.python}
    assert request.variant in {None, stack.variant}
    assert request.image_os in {None, stack.image.os}
    system = MATRIX.system(stack.image.os)
    assert system is not None
    assert system.glibc is None or build.glibc is None or system.glibc >= build.glibc
    assert build.cuda is not None  # a request with a GPU never gets a CPU build
    for name in request.gpus:
        gpu = next(row for row in MATRIX.gpus if row.name == name)
        assert (
            build.sass is None
            or any(cubin_runs(sm, gpu.capability) for sm in build.sass)
            or any(ptx_runs(sm, gpu.capability) for sm in build.ptx)
        )
        architecture = MATRIX.architecture(gpu.architecture)
        assert architecture is not None
        if stack.driver_branch is not None:
            assert gpu.architecture in next(row for row in MATRIX.drivers if row.branch == stack.driver_branch).architectures
        assert "open" not in stack.kernel_modules or gpu.open_modules != "unsupported"
        assert "proprietary" not in stack.kernel_modules or gpu.open_modules != "required"
    assert stack.kernel_modules
    cuda = MATRIX.cuda_minor(build.cuda)
    assert cuda is not None
    if request.driver not in {"any", "upgrade"} and stack.compatibility in {"native", "minor-version"}:
        floor = cuda.native_driver if stack.compatibility == "native" else cuda.min_driver
        assert floor is not None
        assert Version(request.driver) >= floor
        assert stack.min_driver is not None
        assert Version(request.driver) >= stack.min_driver


def without(section: str, at: int) -> Matrix:
    """The matrix that ships without one row."""
    sections = {name: functools.partial(MATRIX.rows, name) for name in SECTIONS}
    rows = MATRIX.rows(section)
    at %= len(rows)
    fewer = (*rows[:at], *rows[at + 1 :])
    return Matrix(collected=MATRIX.collected, sha256="0" * 64, sections={**sections, section: lambda: fewer})


#: Without a row of `gpus` or `frameworks` a word means something else; rows of `indexes` and `sources` decide nothing.
DECIDING = ("architectures", "capabilities", "drivers", "cuda", "forward_compat", "releases", "variants", "images", "systems")


@quick
@given(requests(), st.sampled_from(DECIDING), st.integers(0, 10_000))
def test_removing_a_row_never_invents_an_answer(request: Request, section: str, at: int) -> None:
    assume(decide(request, MATRIX, remedies=False).verdict != "ok")
    assert decide(request, without(section, at), remedies=False).verdict != "ok"


@quick
@given(requests(driver="any", cuda_compat=None), st.sampled_from(DRIVERS), st.sampled_from(DRIVERS))
def test_a_newer_driver_never_shrinks_the_choice(request: Request, one: Version, other: Version) -> None:
    older, newer = sorted((one, other))
    last = [gpu.last_driver for gpu in MATRIX.gpus if gpu.name in request.gpus and gpu.last_driver]
    assume(all(newer.major <= int(branch) for branch in last))
    before = decide(replace(request, driver=str(older)), MATRIX, remedies=False)
    after = decide(replace(request, driver=str(newer)), MATRIX, remedies=False)
    if before.verdict == "ok":
        assert after.verdict == "ok"
        assert before.stack is not None
        assert after.stack is not None
        assert after.stack.version >= before.stack.version
    kept = [{(c.version, c.variant) for c in explain(replace(request, driver=str(d)), MATRIX) if c.kept} for d in (older, newer)]
    assert kept[0] <= kept[1]


@quick
@given(requests(), st.sampled_from(GPUS))
def test_another_gpu_never_widens_the_choice(request: Request, gpu: Any) -> None:  # noqa: ANN401 - a row of gpus
    more = replace(request, gpus=(*request.gpus, gpu.name))
    if decide(more, MATRIX, remedies=False).verdict == "ok":
        assert decide(request, MATRIX, remedies=False).verdict == "ok"


@quick
@given(requests())
def test_every_remedy_resolves(request: Request) -> None:
    decision = decide(request, MATRIX)
    assume(decision.verdict == "conflict")
    for remedy in decision.remedies:
        assert remedy.changes
        again = decide(apply_changes(request, remedy.changes), MATRIX, remedies=False)
        assert again.verdict == "ok", remedy
        assert again.stack is not None
        assert remedy.commands == (again.stack.command,)


@quick
@given(requests())
def test_the_same_request_gives_the_same_bytes(request: Request) -> None:
    first = decide(request, MATRIX)
    turned = {
        name: (lambda name=name: tuple(reversed(MATRIX.rows(name)))) for name in ("variants", "images", "releases", "systems")
    }
    sections = {name: functools.partial(MATRIX.rows, name) for name in SECTIONS}
    other = Matrix(collected=MATRIX.collected, sha256=MATRIX.sha256, sections={**sections, **turned})
    second = decide(request, other)
    assert first.verdict == second.verdict
    assert first.stack == second.stack
    assert [remedy.changes for remedy in first.remedies] == [remedy.changes for remedy in second.remedies]
    if first.stack is not None and second.stack is not None:
        texts = {lock_text(lock(stack, request, Pins(), MATRIX)) for stack in (first.stack, second.stack)}
        assert len(texts) == 1
