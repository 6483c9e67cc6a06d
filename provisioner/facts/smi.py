"""Every form of nvidia-smi's output, of every driver branch from R390 to R620: table, CSV, -L, -q and -q -x.

What differs between them: tables before R510 cut long names (`Tesla V100-SXM2...`); from R610 the header says `KMD Version` and
`CUDA UMD Version`; there is no CUDA version before R410, and no MIG column before R450; GPUs that share the memory of the CPU say
`Not Supported`. On WSL the driver's version is that of Windows.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from provisioner.facts.records import GpuFact
from provisioner.values import replace

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_DRIVER = re.compile(r"\b(?:driver|kmd)[ _]version *(?::|>) *(\d{2,4}\.\d+(?:\.\d+)?)", re.IGNORECASE)
_CUDA = re.compile(r"\bcuda(?:[ _]umd)?[ _]version *(?::|>) *(\d+\.\d+)", re.IGNORECASE)
_ROW = re.compile(r" *(?P<index>\d{1,3}) +(?P<name>\S.*?) +(?:On|Off|N/A|ERR!|WDDM|TCC|MCDM) *")
_BUS = re.compile(r"\b[0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]\b", re.IGNORECASE)
_MEMORY = re.compile(r"\d+ ?MiB */ *(\d{1,12}) ?MiB")
_LISTED = re.compile(r"\s*GPU (?P<index>\d{1,3}): (?P<name>\S.*?) \(UUID: (?P<uuid>[^)]*)\)\s*")
_BLOCK = re.compile(r"GPU [0-9A-F]{4,8}:[0-9A-F]{2}:[0-9A-F]{2}\.[0-9A-F]", re.IGNORECASE)
_VERSION = re.compile(r"\d{3}\.\d+(?:\.\d+)?")
_CAPABILITY = re.compile(r"\d{1,2}\.\d")
_MIB = re.compile(r"(\d{1,12})(?: MiB)?")
#: How a name begins that stands in a line without a header; NVIDIA came before every name with R465.
_BRANDS = ("NVIDIA ", "Tesla ", "GeForce ", "Quadro ", "GRID ", "TITAN ", "A100-")
_COLUMNS = {
    "index": "index",
    "name": "name",
    "gpu_name": "name",
    "uuid": "uuid",
    "gpu_uuid": "uuid",
    "memory.total": "memory",
    "driver_version": "driver",
    "compute_cap": "capability",
    "mig.mode.current": "mig",
}


def gpus_from_nvidia_smi(text: str) -> tuple[tuple[GpuFact, ...], str | None, str | None]:
    """The GPUs, the driver's version and the CUDA driver version that a pasted output names; empty and None for what it does not.

    Where several outputs stand in one text, what one lacks is taken from the next.
    """
    forms: tuple[Callable[[str], list[GpuFact]], ...] = (_xml, _csv, _query, _listing, _table)
    gpus: list[GpuFact] = []
    for form in forms:
        found = form(text)
        if not gpus:
            gpus = found
        elif len(found) == len(gpus):
            gpus = [_filled(one, other) for one, other in zip(gpus, found, strict=True)]
    if not gpus:
        gpus = _bare_csv(text)
    driver = _first(_DRIVER, text) or next((gpu.driver for gpu in gpus if gpu.driver), None)
    return tuple(replace(gpu, driver=gpu.driver or driver) for gpu in gpus), driver, _first(_CUDA, text)


def _filled(one: GpuFact, other: GpuFact) -> GpuFact:
    """`one` with what it lacks from `other`; a whole name beats a cut one."""
    cut = one.name.endswith("...") and not other.name.endswith("...")
    return replace(
        one,
        name=other.name if cut else one.name,
        uuid=one.uuid or other.uuid,
        memory_mib=other.memory_mib if one.memory_mib is None else one.memory_mib,
        driver=one.driver or other.driver,
        capability=one.capability or other.capability,
        mig=one.mig or other.mig,
    )


def _gpu(found: Mapping[str, str], index: int) -> GpuFact:
    """A GPU from texts as nvidia-smi prints them; [N/A], Not Supported and errors are None."""
    number = _MIB.fullmatch(found.get("memory", ""))
    capability = found.get("capability", "")
    mig = found.get("mig", "").rstrip("*")
    driver = found.get("driver", "")
    uuid = found.get("uuid", "")
    return GpuFact(
        index=int(found["index"]) if re.fullmatch(r"\d{1,4}", found.get("index", "")) else index,
        name=html.unescape(found["name"]),
        uuid=uuid if uuid.startswith("GPU-") else "",
        memory_mib=int(number[1]) if number else None,
        driver=driver if _VERSION.fullmatch(driver) else None,
        capability=capability if _CAPABILITY.fullmatch(capability) else None,
        mig=mig if mig in {"Enabled", "Disabled"} else None,
    )


def _xml(text: str) -> list[GpuFact]:
    """`nvidia-smi -q -x`: read as text, for a pasted XML may be hostile and its DTD is nobody's business."""
    gpus: list[GpuFact] = []
    for block in text.split("<gpu id=")[1:]:
        own, _, rest = block.partition("<mig_devices>")  # MIG devices have memory of their own
        whole = own + rest.partition("</mig_devices>")[2]
        memory = whole.partition("<fb_memory_usage>")[2].partition("</fb_memory_usage>")[0]
        found = {
            "name": _tag(whole, "product_name"),
            "uuid": _tag(whole, "uuid"),
            "memory": _tag(memory, "total"),
            "mig": _tag(whole, "current_mig"),
        }
        if found["name"]:
            gpus.append(_gpu(found, len(gpus)))
    return gpus


def _tag(text: str, name: str) -> str:
    return text.partition(f"<{name}>")[2].partition(f"</{name}>")[0].strip()


def _csv(text: str) -> list[GpuFact]:
    """`--query-gpu=… --format=csv` with its header line."""
    gpus: list[GpuFact] = []
    columns: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        names = [cell.partition(" [")[0] for cell in cells]
        if sum(name in _COLUMNS for name in names) >= min(2, len(names)) and _COLUMNS.keys() & {"name", "gpu_name"} & set(names):
            columns = [_COLUMNS.get(name, "") for name in names]
        elif columns and len(cells) == len(columns):
            found = {column: cell for column, cell in zip(columns, cells, strict=True) if column}
            if _is_name(found["name"]):
                gpus.append(_gpu(found, len(gpus)))
        elif columns and gpus:
            columns = []
    return gpus


def _bare_csv(text: str) -> list[GpuFact]:
    """CSV without a header: each cell is told by its form."""
    gpus: list[GpuFact] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        found: dict[str, str] = {}
        for cell in cells:
            kind = _kind(cell)
            if kind:
                found.setdefault(kind, cell)
        if "name" in found and found["name"].startswith(_BRANDS) and re.search(r"\d", found["name"]):
            gpus.append(_gpu(found, len(gpus)))
    return gpus


def _kind(cell: str) -> str:
    if _VERSION.fullmatch(cell):
        return "driver"
    if _CAPABILITY.fullmatch(cell):
        return "capability"
    if cell.startswith("GPU-"):
        return "uuid"
    if cell.endswith("MiB"):
        return "memory"
    return "name" if _is_name(cell) else ""


def _is_name(cell: str) -> bool:
    """Whether a cell can be a product's name: words with a letter and no punctuation but that of names."""
    return bool(re.fullmatch(r"[A-Za-z][\w +/().-]{1,99}", cell)) and not cell.startswith(("GPU-", "NVIDIA-SMI"))


def _query(text: str) -> list[GpuFact]:
    """`nvidia-smi -q`: indented `key : value` lines, a block for each GPU."""
    gpus: list[GpuFact] = []
    found: dict[str, str] = {}
    section = ""
    for line in [*text.splitlines(), "GPU 0000:00:00.0"]:
        key, colon, entry = (part.strip() for part in line.partition(" : "))
        if _BLOCK.fullmatch(line.strip()):
            if found.get("name"):
                gpus.append(_gpu(found, len(gpus)))
            found, section = {}, ""
        elif not colon:
            section = line.strip()
        elif key == "Product Name":
            found.setdefault("name", entry)
        elif key == "GPU UUID":
            found.setdefault("uuid", entry)
        elif (section, key) == ("FB Memory Usage", "Total"):
            found["memory"] = entry  # the last: MIG devices come first, the GPU's own after them
        elif (section, key) == ("MIG Mode", "Current"):
            found.setdefault("mig", entry)
    return gpus


def _listing(text: str) -> list[GpuFact]:
    """`nvidia-smi -L`; MIG devices below a GPU mean that MIG is enabled."""
    gpus: list[GpuFact] = []
    for line in text.splitlines():
        match = _LISTED.fullmatch(line)
        if match:
            gpus.append(_gpu(match.groupdict(), len(gpus)))
        elif gpus and line.strip().startswith("MIG ") and "(UUID: MIG" in line:
            gpus[-1] = replace(gpus[-1], mig="Enabled")
    seen: dict[str, GpuFact] = {gpu.uuid or str(position): gpu for position, gpu in enumerate(gpus)}
    return list(seen.values())


def _table(text: str) -> list[GpuFact]:
    """The table: two lines a GPU, a third with the MIG mode from R450 on."""
    gpus: list[GpuFact] = []
    found: dict[str, str] = {}
    lines = 0
    for line in [*text.splitlines(), "+"]:
        cells = line.partition("|")[2].split("|")
        row = _ROW.fullmatch(cells[0]) if len(cells) > 1 and _BUS.search(cells[1]) else None
        if found and (row or len(cells) < 3 or lines > 2):  # noqa: PLR2004 - three columns; three lines
            gpus.append(_gpu(found, len(gpus)))
            found = {}
        if row:
            found, lines = row.groupdict(), 0
        elif found:
            lines += 1
            memory = _MEMORY.search(cells[1])
            if memory:
                found.setdefault("memory", memory[1])
            mig = cells[2].strip().rstrip("*")
            if mig in {"Enabled", "Disabled"}:
                found["mig"] = mig
    return gpus


def _first(pattern: re.Pattern[str], text: str) -> str | None:
    match = pattern.search(text)
    return match[1] if match else None
