"""gpus_from_nvidia_smi on what nvidia-smi of eleven driver branches printed, each as somebody pasted it.

The texts lie in outputs/, shortened to the lines that matter where they are long. The sources:

- r390-m2090: github.com/lateralblast/ansible-nvidia-docker, README.md
- r390-cut: github.com/peci1/nvidia-htop, README
- r470-v100: a public model card of a training on AWS ml.p3.8xlarge, January 2024
- r470-wsl: public notes on CUDA in WSL 2 with Docker, February 2024
- r473-tcc: public notes on Azure VM scale sets with Windows, February 2023
- r450-mig-pending, r535-mig: public notes on A100 and MIG (Ubuntu; Kubernetes)
- r580-gb10: Arm Learning Paths, DGX Spark (github.com/ArmDeveloperEcosystem/arm-learning-paths)
- r580-h100: a public log of Ray, which puts the name of a worker before each line (header of the same branch)
- r610-gtx1650: public notes on Docker Model Runner, September 2026; r610-version: test data of a public project
- q-r535: public notes on profiling; q-r352: public notes on CUDA samples on K80, 2015
- list-v100: documentation of dask-cuda; list-mig: documentation of a cloud provider on MIG
- csv-r610, csv-r591-na, csv-r615-cap, csv-bare, csv-bare-gb10: public test reports and test data
- xml-v10, xml-v12-mig, xml-v13: github.com/influxdata/telegraf, plugins/inputs/nvidia_smi/testdata (gtx-1070-ti,
  a100-sxm4-v12, pro-6000-maxq-blackwell-v13)
- fails-*: NVIDIA's own messages, as pasted in many places
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from provisioner.facts import GpuFact, gpus_from_nvidia_smi

_OUTPUTS = Path(__file__).parent / "outputs"
_A5000 = "GPU-30667114-4567-bc4a-029b-3375d117048e"
_4500 = "GPU-fbe2dd5d-3644-5c37-3179-8ad50079b7d4"


def _gpu(name: str, index: int = 0, **found: object) -> GpuFact:
    return GpuFact(index=index, name=name, **found)  # type: ignore[arg-type]  # fields by name


@pytest.mark.parametrize(
    ("name", "gpus", "driver", "cuda"),
    [
        ("r390-m2090", [_gpu("Tesla M2090", i, memory_mib=5301, driver="390.138") for i in range(2)], "390.138", None),
        ("r390-cut", [_gpu("GeForce GTX 108...", i, memory_mib=11178, driver="390.25") for i in range(2)], "390.25", None),
        ("r470-v100", [_gpu("Tesla V100-SXM2...", memory_mib=16160, driver="470.57.02")], "470.57.02", "11.4"),
        ("r470-wsl", [_gpu("NVIDIA GeForce ...", memory_mib=3072, driver="474.64")], "474.64", "11.4"),
        ("r473-tcc", [_gpu("Tesla T4", memory_mib=16225, driver="473.47")], "473.47", "11.4"),
        ("r450-mig-pending", [_gpu("A100-SXM4-40GB", i, memory_mib=40537, mig="Disabled") for i in (6, 7)], None, None),
        (
            "r535-mig",
            [_gpu("NVIDIA A100-PCIE-40GB", memory_mib=40960, driver="535.161.08", mig="Enabled")],
            "535.161.08",
            "12.2",
        ),
        ("r580-gb10", [_gpu("NVIDIA GB10", driver="580.95.05")], "580.95.05", "13.0"),
        (
            "r580-h100",
            [_gpu("NVIDIA H100 80GB HBM3", memory_mib=81559, driver="580.95.05", mig="Disabled")],
            "580.95.05",
            "13.0",
        ),
        ("r610-gtx1650", [_gpu("NVIDIA GeForce GTX 1650", memory_mib=4096, driver="610.57.04")], "610.57.04", "13.3"),
        ("r610-version", [], "610.88", "13.3"),
        ("q-r535", [_gpu("NVIDIA GeForce RTX 3050", driver="535.183.01")], "535.183.01", "12.2"),
        ("q-r352", [_gpu("Tesla K80", driver="352.39")], "352.39", None),
        (
            "list-v100",
            [
                _gpu("Tesla V100-SXM2-32GB", uuid="GPU-dae76d0e-3414-958a-8f3e-fc6682b36f31"),
                _gpu("Tesla V100-SXM2-32GB", 1, uuid="GPU-60f2c95a-c564-a078-2a14-b4ff488806ca"),
            ],
            None,
            None,
        ),
        (
            "list-mig",
            [
                _gpu("NVIDIA A100-SXM4-80GB", uuid="GPU-9c73eb7b-8d6d-6c0e-dc13-97873e2ede40", mig="Enabled"),
                _gpu("NVIDIA A100-SXM4-80GB", 1, uuid="GPU-c92e2d5d-4a69-f1cd-4df0-305f8606705a", mig="Enabled"),
            ],
            None,
            None,
        ),
        (
            "csv-r610",
            [
                _gpu("NVIDIA RTX A5000", uuid=_A5000, memory_mib=24564, driver="610.57.04"),
                _gpu("NVIDIA RTX 4500 Ada Generation", 1, uuid=_4500, memory_mib=24570, driver="610.57.04"),
            ],
            "610.57.04",
            None,
        ),
        (
            "csv-r591-na",
            [
                _gpu(
                    "NVIDIA GeForce GTX 1660 SUPER",
                    uuid="GPU-43b14c17-b685-e8ad-ab90-abc0d70fca06",
                    memory_mib=6144,
                    driver="591.86",
                )
            ],
            "591.86",
            None,
        ),
        (
            "csv-r615-cap",
            [
                _gpu(
                    "NVIDIA Graphics Device",
                    index,
                    uuid=f"GPU-307f0000-0000-0000-0000-00000000000{index}",
                    memory_mib=294912,
                    driver="615.23",
                    capability="10.7",
                )
                for index in range(2)
            ],
            "615.23",
            None,
        ),
        (
            "csv-bare",
            [_gpu("NVIDIA GeForce RTX 3050 Laptop GPU", memory_mib=4096, driver="610.88", capability="8.6")],
            "610.88",
            None,
        ),
        ("csv-bare-gb10", [_gpu("NVIDIA GB10")], None, None),
        ("xml-v10", [_gpu("GeForce GTX 1070 Ti", uuid="GPU-f9ba66fc-a7f5-94c5-da19-019ef2f9c665", memory_mib=4096)], None, None),
        (
            "xml-v12-mig",
            [
                _gpu(
                    "NVIDIA A100-SXM4-80GB",
                    uuid="GPU-513536b6-7d19-9063-b049-1e69664bb298",
                    memory_mib=81920,
                    driver="535.54.03",
                    mig="Enabled",
                )
            ],
            "535.54.03",
            "12.2",
        ),
        (
            "xml-v13",
            [
                _gpu(
                    "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
                    uuid="GPU-12345678-aaaa-bbbb-cccc-0123456789ab",
                    memory_mib=97887,
                    driver="590.44.01",
                )
            ],
            "590.44.01",
            "13.1",
        ),
        ("fails-module", [], None, None),
        ("fails-mismatch", [], None, None),
        ("fails-none", [], None, None),
    ],
)
def test_every_form_of_every_branch(name: str, gpus: list[GpuFact], driver: str | None, cuda: str | None) -> None:
    text = (_OUTPUTS / f"{name}.txt").read_text(encoding="utf-8")
    assert gpus_from_nvidia_smi(text) == (tuple(gpus), driver, cuda)


def test_every_output_has_its_expectation() -> None:
    source = Path(__file__).read_text(encoding="utf-8")
    assert [
        path.stem for path in _OUTPUTS.glob("*.txt") if f'("{path.stem}"' not in source and f'"{path.stem}",' not in source
    ] == []


def test_a_listing_completes_a_table_that_cut_the_names() -> None:
    table = (_OUTPUTS / "r470-v100.txt").read_text(encoding="utf-8")
    listing = "GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-dae76d0e-3414-958a-8f3e-fc6682b36f31)\n"
    gpus, driver, cuda = gpus_from_nvidia_smi(table + listing)
    assert gpus == (
        _gpu("Tesla V100-SXM2-16GB", uuid="GPU-dae76d0e-3414-958a-8f3e-fc6682b36f31", memory_mib=16160, driver="470.57.02"),
    )
    assert (driver, cuda) == ("470.57.02", "11.4")


@pytest.mark.parametrize(
    "text", ["", "hello", "a, b, c\n1, 2, 3\n", "name\n", "GPU 0: x", "<gpu id=", "| | |\n" * 5, '{"gpus": []}']
)
def test_what_is_no_output_of_nvidia_smi_names_no_gpu(text: str) -> None:
    assert gpus_from_nvidia_smi(text) == ((), None, None)


@given(st.text(alphabet="|+-=:.,GPUid0123456789<>/ \n\tMiB(NVIDIA)_[]nameuvrsoDQ", max_size=400))
def test_no_text_makes_it_fall(text: str) -> None:
    gpus_from_nvidia_smi(text)


@pytest.mark.parametrize("piece", ["|", "GPU ", " ", "0:", "<gpu id=", "driver version ", "| 0 ", "a,", "\t", "1"])
def test_a_long_hostile_text_costs_no_minutes(piece: str) -> None:
    started = time.process_time()
    gpus_from_nvidia_smi(piece * 200_000)
    assert time.process_time() - started < 5
