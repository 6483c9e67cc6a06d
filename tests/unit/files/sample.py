"""Locks, sites and rows for the tests of the files wing, made by hand so that no other wing takes part."""

from __future__ import annotations

import hashlib

from provisioner.files.image_view import Catalogue
from provisioner.files.site import Address, IndexAddress, Proxies, RegistryPrefix, Site, SlurmSite, WheelPlace
from provisioner.findings import Because
from provisioner.stack.gpus import Capability
from provisioner.stack.lock import Image, Lock, Pin, Pins, Stack
from provisioner.stack.request import Job
from provisioner.stack.rows import Framework, System
from provisioner.values import replace
from provisioner.versions import Version

FRAMEWORK = Framework(
    id="torch",
    name="PyTorch",
    cuda_from="wheels",
    companions=("torchvision",),
    smoke="torch.py",
    source=("test",),
    verified="recall",
)
DEBIAN = System(
    id="debian12", name="Debian 12", family="debian", glibc=Version("2.36"), python="3.11", source=("test",), verified="recall"
)
UBUNTU = System(
    id="ubuntu22.04",
    name="Ubuntu 22.04",
    family="debian",
    glibc=Version("2.35"),
    python="3.10",
    source=("test",),
    verified="recall",
)
ROCKY = System(id="rockylinux9", name="Rocky Linux 9", family="rhel", python="3.9", source=("test",), verified="recall")
INDEXES = {
    "pypi": None,
    "pytorch/cpu": "https://download.pytorch.org/whl/cpu",
    "pytorch/cu126": "https://download.pytorch.org/whl/cu126",
    "pytorch/cu130": "https://download.pytorch.org/whl/cu130",
}
ROWS = Catalogue(framework=FRAMEWORK, system=DEBIAN, indexes=INDEXES)
UBUNTU_ROWS = replace(ROWS, system=UBUNTU)


def pin(name: str, version: str, index: str = "pypi", hashes: int = 2) -> Pin:
    """A pin with hashes that depend on its name and version only."""
    return Pin(
        name=name,
        version=version,
        index=index,
        hashes=tuple(f"sha256:{hashlib.sha256(f'{name} {version} {number}'.encode()).hexdigest()}" for number in range(hashes)),
    )


CPU = Lock(
    generator="provisioner 0.1.0",
    matrix="0" * 64,
    stack=Stack(
        framework="torch",
        version=Version("2.13.0"),
        variant="cpu",
        index="pytorch/cpu",
        published="seen",
        python="3.11",
        platform="linux/amd64",
        image=Image(reference="python:3.11-slim-bookworm", flavour="slim", os="debian12"),
        compatibility="none",
        packages=("torch==2.13.0+cpu",),
        command="pip install torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu",
        because=(Because(fact="no GPU was asked for", source="request"),),
    ),
    pins=Pins(why_not="no package index could be reached"),
    jobs=(Job(name="job", command=("python", "train.py")),),
)
BLACKWELL = Lock(
    generator="provisioner 0.1.0",
    matrix="0" * 64,
    stack=Stack(
        framework="torch",
        version=Version("2.13.0"),
        variant="cu130",
        index="pypi",
        published="seen",
        cuda=Version("13.0"),
        cudnn=Version("9.13.1"),
        python="3.12",
        platform="linux/amd64",
        image=Image(reference="python:3.12-slim-bookworm", flavour="slim", os="debian12", digest="sha256:" + "ab" * 32),
        gpus=("NVIDIA GeForce RTX 5090",),
        capabilities=(Capability(12, 0),),
        driver="580.95.05",
        min_driver=Version("580.65.06"),
        kernel_modules=("open",),
        compatibility="native",
        sass=tuple(map(Capability.parse, ("sm_75", "sm_80", "sm_86", "sm_90", "sm_100", "sm_120"))),
        packages=("torch==2.13.0",),
        command="pip install torch==2.13.0",
    ),
    pins=Pins(
        packages=(
            pin("torch", "2.13.0"),
            pin("typing-extensions", "4.15.0", hashes=1),
            pin("nvidia-cublas", "13.0.0.19", hashes=3),
            pin("filelock", "3.20.0"),
        ),
        hashed=True,
    ),
    options={"torch_compile": "true"},
    env={"HF_HUB_OFFLINE": "1"},
    command=("python", "-m", "train", "--config", "base.yaml"),
    jobs=(
        Job(name="train", cpus_per_gpu=8, mem="64G", time="12:00:00", command=("python", "train.py", "--epochs", "10")),
        Job(name="evaluate", launcher="venv", gpus_per_node=2, command=("python", "evaluate.py")),
    ),
)
VOLTA = Lock(
    generator="provisioner 0.1.0",
    matrix="0" * 64,
    stack=Stack(
        framework="torch",
        version=Version("2.9.1"),
        variant="cu126",
        index="pytorch/cu126",
        published="seen",
        cuda=Version("12.6"),
        cudnn=Version("9.10.2"),
        python="3.11",
        platform="linux/amd64",
        image=Image(reference="python:3.11-slim-bookworm", flavour="slim", os="debian12"),
        gpus=("Tesla V100-SXM2-32GB",),
        capabilities=(Capability(7, 0),),
        driver="535.183.01",
        min_driver=Version("525.60.13"),
        kernel_modules=("proprietary",),
        compatibility="minor-version",
        sass=tuple(map(Capability.parse, ("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"))),
        packages=("torch==2.9.1+cu126",),
        command="pip install torch==2.9.1 --index-url https://download.pytorch.org/whl/cu126",
        excludes=(
            "Under minor version compatibility PTX is not compiled by the driver; torch.compile works, Triton brings its ptxas.",
        ),
    ),
    pins=Pins(
        packages=(pin("torch", "2.9.1+cu126", "pytorch/cu126"), pin("sympy", "1.14.0"), pin("mpmath", "1.3.0")),
        hashed=True,
    ),
    apt=("libgl1", "git"),
    project="src",
    secrets=("netrc",),
    jobs=(
        Job(name="train", launcher="pyxis", cpus_per_gpu=6, mem="48G", time="1-00:00:00", mounts=("/data/sets:/data:ro",)),
        Job(name="sweep", launcher="apptainer", command=("python", "sweep.py", "it's $HOME", "a#b")),
    ),
)
DEVEL = replace(
    VOLTA,
    stack=replace(
        VOLTA.stack,
        build_image=Image(reference="nvidia/cuda:12.6.3-cudnn-devel-ubuntu22.04", flavour="cudnn-devel", os="ubuntu22.04"),
    ),
    apt=(),
    project=None,
    secrets=(),
    jobs=(),
)
FORWARD = replace(
    DEVEL,
    stack=replace(
        DEVEL.stack,
        python="3.10",
        compatibility="forward",
        image=Image(reference="nvidia/cuda:12.6.3-base-ubuntu22.04", flavour="base", os="ubuntu22.04"),
        build_image=None,
    ),
)
# A certificate that nobody trusts: only its form matters here.
PEM = """\
-----BEGIN CERTIFICATE-----
MIIBbTCCAROgAwIBAgIUPNUpAdlTBuPpvNRABgcSbZHk4TEwCgYIKoZIzj0EAwIw
-----END CERTIFICATE-----
"""
SITE = Site(
    indexes={
        "pypi": IndexAddress("http://mirror.example:3141/root/pypi/+simple/"),
        "pytorch/*": IndexAddress("https://mirror.example/pytorch/*/"),
    },
    wheels=(WheelPlace("https://wheels.example/site/"),),
    registries={
        "docker.io": RegistryPrefix("registry.example:5000/dockerhub"),
        "nvcr.io": RegistryPrefix("registry.example:5000/nvcr"),
    },
    proxies=Proxies(
        http=Address("http://proxy.example:3128"), https=Address("http://proxy.example:3128"), no="mirror.example,.example.org"
    ),
    ca_pem=PEM,
    slurm=SlurmSite(
        gpu_request="gpus-per-node",
        gpu_type="v100",
        partition="gpu",
        account="project a#1",
        constraint="v100-32g&ib",
        modules=("apptainer/1.4",),
        image_folder="/shared/images",
    ),
)
