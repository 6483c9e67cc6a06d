"""What holds for requests with packages beside the framework: drawn from the rows of the matrix that ships."""

from __future__ import annotations

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from provisioner.stack.changes import apply_changes
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.packages import bounds_of
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide
from provisioner.stack.wants import parse_requirement
from provisioner.versions import Version

MATRIX = shipped_matrix()
GPUS = tuple(gpu.name for gpu in MATRIX.gpus if gpu.segment != "jetson")
DRIVERS = tuple(sorted({row.latest for row in MATRIX.drivers if row.latest is not None and int(row.branch) >= 450}))
NAMES = tuple(sorted({row.package for row in MATRIX.packages}))
FRAMEWORKS = tuple(row.id for row in MATRIX.frameworks)

quick = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@st.composite
def requests(draw: st.DrawFn) -> Request:
    name = draw(st.sampled_from(FRAMEWORKS))
    packages = [name]
    if draw(st.booleans()):
        release = draw(st.sampled_from(MATRIX.releases_of(name)))
        packages = [f"{name}=={release.version}"]
    for beside in draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=2, unique=True)):
        row = draw(st.sampled_from(MATRIX.package(beside)))
        packages.append(draw(st.sampled_from((beside, f"{beside}=={row.version}", f"{beside}>={row.version}"))))
    if draw(st.integers(0, 3)) == 0:
        packages.append(draw(st.sampled_from(("numpy", "numpy==1.26.4", "numpy==2.0.0"))))
    return Request(
        packages=tuple(packages),
        gpus=(draw(st.sampled_from(GPUS)),),
        driver=draw(st.one_of(st.just("any"), st.sampled_from(DRIVERS).map(str))),
        platform=draw(st.sampled_from(("linux/amd64", "linux/amd64", "linux/arm64"))),
        python=draw(st.one_of(st.none(), st.none(), st.sampled_from(("3.10", "3.11", "3.12", "3.13")))),
    )


@quick
@given(requests())
def test_the_packages_of_a_stack_fit(request: Request) -> None:
    stack = decide(request, MATRIX, remedies=False).stack
    assume(stack is not None)
    assert stack is not None
    chosen = {item.name: item for item in map(parse_requirement, stack.packages)}
    gpu = next(row for row in MATRIX.gpus if row.name == request.gpus[0])
    for name, item in chosen.items():
        rows = [row for row in MATRIX.package(name) if row.platform in {None, request.platform}]
        pinned = [row for row in rows if item.bounds is not None and item.bounds.text.lstrip("=") == str(row.version)]
        if not pinned:
            continue
        row = pinned[0]
        bounds = bounds_of(row.requires.get(stack.framework, ""))
        assert bounds is None or stack.version in bounds
        assert row.pythons is None or stack.python in row.pythons
        assert row.requires_python is None or Version(stack.python) in (
            bounds_of(row.requires_python) or (Version(stack.python),)
        )
        assert row.min_capability is None or gpu.capability >= row.min_capability
        assert row.min_driver is None or request.driver == "any" or Version(request.driver) >= row.min_driver
        if stack.framework in row.requires and row.cuda_major is not None and not row.sdist_only:
            assert stack.cuda is None or stack.cuda.major == row.cuda_major
        system = MATRIX.system(stack.image.os)
        assert system is not None
        assert row.glibc is None or system.glibc is None or system.glibc >= row.glibc
        for other, text in row.requires.items():
            wanted = bounds_of(text)
            if other in chosen and wanted is not None and (found := chosen[other].bounds) is not None:
                pins = [bound for sign, bound in found.bounds if sign == "=="]
                assert all(pin in wanted for pin in pins), f"{row.package} {row.version} and {chosen[other].text}"


@quick
@given(requests())
def test_every_remedy_resolves(request: Request) -> None:
    decision = decide(request, MATRIX)
    assume(decision.verdict == "conflict")
    for remedy in decision.remedies:
        assert remedy.changes
        again = decide(apply_changes(request, remedy.changes), MATRIX, remedies=False)
        assert again.verdict == "ok", remedy


@quick
@given(requests())
def test_without_the_packages_the_choice_is_never_smaller(request: Request) -> None:
    assume(decide(request, MATRIX, remedies=False).verdict == "ok")
    alone = Request(
        packages=request.packages[:1],
        gpus=request.gpus,
        driver=request.driver,
        platform=request.platform,
        python=request.python,
    )
    assert decide(alone, MATRIX, remedies=False).verdict == "ok"


@quick
@given(requests())
def test_the_same_request_gives_the_same_answer(request: Request) -> None:
    assert decide(request, MATRIX) == decide(request, MATRIX)
