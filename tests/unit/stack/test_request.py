"""Facts of hosts become requests; words of a request become rows."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.decode import decode
from provisioner.errors import HostError, RequestError
from provisioner.facts import DriverFact, GpuFact, HostFacts, SystemFact
from provisioner.findings import Seen
from provisioner.stack.request import Job, PoolMember, Request, request_of_facts
from provisioner.stack.resolve import decide
from provisioner.stack.wants import parse_requirement
from provisioner.versions import Version
from tests.unit.stack import small

MATRIX = small.matrix()


def unseen() -> Any:  # noqa: ANN401 - Seen of any type
    return Seen.unseen("not asked")


def host(name: str = "gpu01", **facts: Any) -> HostFacts:  # noqa: ANN401 - fields of HostFacts
    fields: dict[str, Any] = {field: unseen() for field in HostFacts.__dataclass_fields__ if field not in {"host", "steps"}}
    return HostFacts(**{"host": name, **fields, **facts})


def gpus(*names: str, capability: str | None = None) -> Seen[tuple[GpuFact, ...]]:
    return Seen(tuple(GpuFact(index=at, name=name, capability=capability) for at, name in enumerate(names)))


LOADED = Seen(DriverFact(version="550.20", flavour="open"))


def test_a_host_fills_what_is_free() -> None:
    seen = host(
        gpus=gpus("Beta B9", "Beta B9"),
        driver=LOADED,
        machine=Seen("aarch64"),
        system=Seen(SystemFact(id="debian", version="12", name="Debian")),
    )
    request = request_of_facts((seen,), MATRIX, Request(packages=("frame",)))
    assert request == Request(
        packages=("frame",), gpus=("Beta B9",), driver="550.20", kernel_modules="open", os="debian12", platform="linux/arm64"
    )


def test_what_was_asked_stays() -> None:
    seen = host(gpus=gpus("Beta B9"), driver=LOADED)
    base = Request(gpus=("alpha a7",), driver="upgrade", os="ubuntu1")
    assert request_of_facts((seen,), MATRIX, base) == base
    upgrade = request_of_facts((seen,), MATRIX, Request(driver="upgrade"))
    assert (upgrade.gpus, upgrade.driver, upgrade.kernel_modules) == (("Beta B9",), "upgrade", None)


def test_no_gpu_is_a_cpu_request_and_an_unseen_one_is_not() -> None:
    assert request_of_facts((host(gpus=gpus(), pci=Seen(())),), MATRIX, Request()).gpus == ("none",)
    with pytest.raises(HostError, match="gpu01: its GPUs could not be seen: permission denied"):
        request_of_facts((host(gpus=Seen.unseen("permission denied")),), MATRIX, Request())
    with pytest.raises(HostError, match="10de:2330"):
        request_of_facts((host(gpus=gpus(), pci=Seen(("10de:2330",))),), MATRIX, Request())


def test_a_host_without_a_driver_leaves_it_free() -> None:
    seen = host(gpus=gpus("Beta B9"), driver=Seen(None))
    assert request_of_facts((seen,), MATRIX, Request()).driver == "any"


def test_a_product_that_is_not_known_is_its_capability() -> None:
    seen = host(gpus=gpus("NVIDIA Next", capability="9.0"), driver=LOADED)
    assert request_of_facts((seen,), MATRIX, Request()).gpus == ("9.0",)
    unknown = host(gpus=gpus("NVIDIA Next"), driver=LOADED)
    assert request_of_facts((unknown,), MATRIX, Request()).gpus == ("NVIDIA Next",)


def test_different_hosts_make_a_pool() -> None:
    seen = (
        host("a1", gpus=gpus("Beta B9"), driver=LOADED),
        host("a2", gpus=gpus("Beta B9"), driver=LOADED),
        host("b1", gpus=gpus("Gamma C12"), driver=Seen(DriverFact(version="600.20", flavour="open"))),
    )
    request = request_of_facts(seen, MATRIX, Request())
    assert request.pool == (
        PoolMember(name="Beta B9", gpu="Beta B9", driver="550.20", hosts="a1,a2", count=2),
        PoolMember(name="Gamma C12", gpu="Gamma C12", driver="600.20", hosts="b1", count=1),
    )
    assert request.gpus == ()
    with pytest.raises(HostError, match="c1: has no GPU"):
        request_of_facts((*seen, host("c1", gpus=gpus(), pci=Seen(()))), MATRIX, Request())


@pytest.mark.parametrize(
    ("text", "name", "takes", "local"),
    [
        ("Frame_Vision >= 0.2, < 0.3", "frame-vision", "0.2.5", None),
        ("frame[extra]==2.0", "frame", "2.0.0", None),
        ("frame==2.0.0+CU126", "frame", "2.0.0", "cu126"),
        ("frame===2.0.0", "frame", "2.0.0", None),
        ("frame==2.*", "frame", "2.9.9", None),
        ("frame==2.9.*", "frame", "2.9.1", None),
        ("frame~=2.9.0", "frame", "2.9.4", None),
        ("frame!=2.0", "frame", "2.1", None),
    ],
)
def test_requirements_as_pip_writes_them(text: str, name: str, takes: str, local: str | None) -> None:
    item = parse_requirement(text)
    assert (item.name, item.local) == (name, local)
    assert item.bounds is not None
    assert Version(takes) in item.bounds


def test_a_range_with_a_star_ends_where_it_says() -> None:
    bounds = parse_requirement("frame==2.9.*").bounds
    assert bounds is not None
    assert Version("2.10.0") not in bounds
    major = parse_requirement("frame==2.*").bounds
    assert major is not None
    assert Version("3.0") not in major


def test_a_job_is_refused_where_it_is_written_with_every_mistake_and_an_example() -> None:
    text = (
        "format: 1\ngpus: [h100]\npackages: [torch]\njobs:\n"
        "  - {name: ../x, nodes: 2, gpus_per_node: -2, cpus_per_gpu: 0, time: 8h, mem: 64GB, mounts: [/data]}\n"
        "  - {name: train, command: python train.py}\n"
    )
    with pytest.raises(RequestError) as caught:
        decode(text, "request.yaml", Request, RequestError)
    first, second = map(str, caught.value.problems)
    assert first.startswith("request.yaml:5:5: job '../x': a job's name is a file name too: ")
    for part in (
        "; nodes: a job of kind single runs on one node, not on 2",
        "; gpus_per_node: -2 is not a number of GPUs (1)",
        "; cpus_per_gpu: 0 is not a number of CPUs (8)",
        "; time: '8h' is not [DAYS-]HH:MM:SS (12:00:00, 2-00:00:00)",
        "; mem: '64GB' is not a whole number with K, M, G or T (64G)",
        "; mounts: '/data' is not FOLDER:/FOLDER-INSIDE",
    ):
        assert part in first
    assert second == "request.yaml:6:28: command must be a list, such as [python, train.py]"


@pytest.mark.parametrize("fields", [{"time": "8h"}, {"mem": "64GB"}, {"gpus_per_node": -2}, {"nodes": 2}, {"name": "a b"}])
def test_no_wrong_job_can_be_made(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"^job '"):
        Job(**fields)


def test_a_host_inside_windows_says_whose_driver_it_has() -> None:
    inside, outside = (host(name, gpus=gpus("Beta B9"), driver=LOADED, virtualization=Seen(kind)) for name, kind in _KINDS)
    assert request_of_facts((outside,), MATRIX, Request()).wsl is None
    assert request_of_facts((inside,), MATRIX, Request(wsl=False)).wsl is False  # what was asked stays
    asked = request_of_facts((inside, outside), MATRIX, Request(packages=("frame",)))
    decision = decide(asked, MATRIX)
    (note,) = [note for note in decision.notes if note.finding == "wsl-driver-is-windows"]
    assert "install or update the driver on Windows, and none inside" in note.fact
    assert "CUDA on WSL User Guide" in note.because[0].source


_KINDS = (("laptop", "wsl"), ("gpu01", "kvm"))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"os": "wsl-ubuntu24.04"}, True),
        ({"wsl": True}, True),
        ({"wsl": True, "driver": "upgrade"}, True),
        ({"wsl": False, "os": "wsl-ubuntu24.04"}, False),
        ({"os": "debian12"}, False),
        ({"wsl": True, "gpus": ("none",)}, False),  # no driver at all
    ],
)
def test_a_request_for_hosts_inside_windows(fields: dict[str, Any], said: bool) -> None:
    notes = decide(Request(packages=("frame",), **{"gpus": ("beta b9",), **fields}), MATRIX).notes
    assert ("wsl-driver-is-windows" in {note.finding for note in notes}) is said
