"""NVML: what the driver's own library says of the GPUs of this machine, by pynvml (the package nvidia-ml-py)."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from provisioner.facts import GpuFact
from provisioner.findings import Seen
from provisioner.values import value

if TYPE_CHECKING:
    from collections.abc import Iterator

_MIB = 1 << 20


@value
class Nvml:
    """The driver's answer: its version, the highest CUDA that it supports (13.0), and its GPUs in its own order."""

    driver: str
    cuda: str | None
    gpus: tuple[GpuFact, ...]


def read_nvml() -> Seen[Nvml | None]:
    """What NVML says; None when this machine has no driver library; unseen with the reason when it does not answer."""
    try:
        import pynvml
    except ImportError:
        return Seen.unseen("the Python package nvidia-ml-py is not installed")
    try:
        with _session(pynvml):
            driver = _text(pynvml.nvmlSystemGetDriverVersion())
            count = pynvml.nvmlDeviceGetCount()
            gpus = tuple(_gpu(pynvml, index, driver) for index in range(count))
            return Seen(Nvml(driver=driver, cuda=_cuda(pynvml), gpus=gpus))
    except pynvml.NVMLError_LibraryNotFound:
        return Seen(None)
    except pynvml.NVMLError as failure:
        return Seen.unseen(f"NVML does not answer: {failure}")


@contextlib.contextmanager
def _session(nvml: Any) -> Iterator[None]:  # noqa: ANN401 - a module without types
    nvml.nvmlInit()
    try:
        yield
    finally:
        with contextlib.suppress(nvml.NVMLError):
            nvml.nvmlShutdown()


def _cuda(nvml: Any) -> str | None:  # noqa: ANN401 - see _session
    with contextlib.suppress(nvml.NVMLError):
        number = int(nvml.nvmlSystemGetCudaDriverVersion_v2())
        return f"{number // 1000}.{number % 1000 // 10}"
    return None


def _gpu(nvml: Any, index: int, driver: str) -> GpuFact:  # noqa: ANN401 - see _session
    handle = nvml.nvmlDeviceGetHandleByIndex(index)
    memory = capability = mig = None
    uuid = ""
    with contextlib.suppress(nvml.NVMLError):
        uuid = _text(nvml.nvmlDeviceGetUUID(handle))
    with contextlib.suppress(nvml.NVMLError):  # not supported where GPU and CPU share their memory
        memory = int(nvml.nvmlDeviceGetMemoryInfo(handle).total) // _MIB
    with contextlib.suppress(nvml.NVMLError):
        major, minor = nvml.nvmlDeviceGetCudaComputeCapability(handle)
        capability = f"{major}.{minor}"
    with contextlib.suppress(nvml.NVMLError):  # not supported before Ampere
        mig = "Enabled" if nvml.nvmlDeviceGetMigMode(handle)[0] else "Disabled"
    name = _text(nvml.nvmlDeviceGetName(handle))
    return GpuFact(index=index, name=name, uuid=uuid, memory_mib=memory, driver=driver, capability=capability, mig=mig)


def _text(found: str | bytes) -> str:
    """A text of NVML, which releases of pynvml before 11.5 give as bytes."""
    return found.decode("utf-8", "replace") if isinstance(found, bytes) else found
