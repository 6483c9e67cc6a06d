"""Files as projects have them → requests, and what is said of what could not be taken over."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.cli import run
from provisioner.decode import decode
from provisioner.errors import RequestError, UsageError
from provisioner.files.importing import imported
from provisioner.stack.request import Request

if TYPE_CHECKING:
    from pathlib import Path

REQUIREMENTS = """\
# GPU
--extra-index-url https://download.pytorch.org/whl/cu124
torch==2.6.0+cu124
torchvision  # whichever goes with it
transformers[torch]>=4.40,<5 ; python_version >= "3.9"
pywin32==306 ; sys_platform == "win32"
numpy==1.26.4 \\
    --hash=sha256:2a02aba9ed12e4ac4eb3ea9421c420301a0c6460d9830d74a9df87efa4912010 \\
    --hash=sha256:3373d5d70a5fe74a2c1bb6d2cfd9609ecf686d47a2d7b1d37a8f3b6026819426
-r base.txt
-e .
git+https://user:hunter2@example.com/team/thing.git@main
"""

PYPROJECT = """\
[project]
name = "trainer"
version = "0.1.0"
requires-python = ">=3.10"
dependencies = [
    "torch>=2.7",
    "torchvision",
    "einops",
]

[project.optional-dependencies]
dev = ["pytest"]

[[tool.uv.index]]
name = "pytorch-cu128"
url = "https://download.pytorch.org/whl/cu128"
explicit = true

[[tool.uv.index]]
name = "house"
url = "https://reader:hunter2@packages.example.com/simple"

[tool.uv.sources]
torch = [{ index = "pytorch-cu128", marker = "sys_platform == 'linux'" }]
torchvision = { index = "pytorch-cu128" }
einops = { git = "https://github.com/arogozhnikov/einops" }
"""

UV_LOCK = """\
version = 1
revision = 3
requires-python = "==3.12.*"

[[package]]
name = "trainer"
version = "0.1.0"
source = { virtual = "." }
dependencies = [
    { name = "numpy" },
    { name = "torch", extra = ["opt-einsum"] },
    { name = "colorama", marker = "sys_platform == 'win32'" },
]

[[package]]
name = "colorama"
version = "0.4.6"
source = { registry = "https://packages.example.com/simple" }

[[package]]
name = "numpy"
version = "2.2.6"
source = { registry = "https://packages.example.com/simple" }
resolution-markers = ["python_full_version < '3.11'"]

[[package]]
name = "numpy"
version = "2.3.5"
source = { registry = "https://packages.example.com/simple" }

[[package]]
name = "sympy"
version = "1.14.0"
source = { registry = "https://packages.example.com/simple" }

[[package]]
name = "torch"
version = "2.9.1+cu128"
source = { registry = "https://download.pytorch.org/whl/cu128" }
"""

PIXI = """\
[workspace]
channels = ["conda-forge"]
name = "trainer"
platforms = ["linux-64", "osx-arm64"]

[dependencies]
python = "3.11.*"
ffmpeg = ">=6,<7"
cuda-version = "12.4.*"

[pypi-dependencies]
torch = { version = "==2.5.1", index = "https://download.pytorch.org/whl/cu124" }
flash-attn = "*"
thing = { path = "../thing" }

[system-requirements]
cuda = "12"

[feature.dev.dependencies]
pytest = "*"
"""

ENVIRONMENT = """\
name: ldm
channels:
  - pytorch
  - nvidia
dependencies:
  - python=3.10
  - pip=23
  - pytorch::pytorch=2.1.2=py3.10_cuda12.1_cudnn8.9.2_0
  - pytorch-cuda=12.1
  - cudatoolkit=11.3
  - numpy=1.23
  - scipy>=1.10
  - pip:
    - transformers==4.35.0
    - -e .
"""

DOCKERFILE = """\
# syntax=docker/dockerfile:1
FROM node:20 AS front
RUN npm ci

FROM python:3.11-slim-bookworm
ARG REF=main
ENV HF_HOME=/cache HF_TOKEN=hf_abcdefgh
RUN --mount=type=cache,target=/root/.cache apt-get update && \\
    apt-get install -y --no-install-recommends git ffmpeg && \\
    rm -rf /var/lib/apt/lists/*
# the framework first
RUN pip install --no-cache-dir torch==2.6.0 --index-url https://download.pytorch.org/whl/cu124
RUN python3 -m pip install -r requirements.txt "accelerate>=1" $EXTRA
RUN make -C /src kernels
CMD ["python", "train.py"]
ENTRYPOINT ["/usr/bin/tini", "--"]
"""


def read(name: str, text: str) -> tuple[Request, list[str]]:
    made = imported([(name, text)])
    return made.request, [str(one) for one in made.said]


def test_requirements() -> None:
    request, said = read("requirements.txt", REQUIREMENTS)
    assert request.packages == (
        "torch==2.6.0",
        "torchvision",
        'transformers[torch]>=4.40,<5 ; python_version >= "3.9"',
        "numpy==1.26.4",
    )
    assert request.variant == "cu124"
    assert [text.split(": ")[0] for text in said] == [f"requirements.txt:{line}" for line in (5, 6, 10, 11, 12)]
    assert "pywin32 is left out" in said[1]
    assert "base.txt is not read from here" in said[2]
    assert "hunter2" not in "".join(said)


def test_a_wheel_by_address_is_its_release_and_build() -> None:
    address = "https://download.pytorch.org/whl/cu128/torch-2.9.1%2Bcu128-cp312-cp312-manylinux_2_28_x86_64.whl"
    request, said = read("requirements.txt", f"torch @ {address}\n")
    assert (request.packages, request.variant) == (("torch==2.9.1",), "cu128")
    assert "by address" in said[0]


def test_pyproject() -> None:
    request, said = read("pyproject.toml", PYPROJECT)
    assert request.packages == ("torch>=2.7", "torchvision", "einops")
    assert (request.variant, request.python) == ("cu128", None)
    whole = "\n".join(said)
    assert "pyproject.toml:4: Python >=3.10 leaves it open" in whole
    assert "extras are not taken over: dev" in whole
    assert "einops comes from elsewhere (git)" in whole
    assert "the index https://packages.example.com/simple is not taken over" in whole
    assert "hunter2" not in whole


def test_uv_lock() -> None:
    request, said = read("uv.lock", UV_LOCK)
    assert request.packages == ("numpy", "torch[opt-einsum]==2.9.1")
    assert (request.variant, request.python) == ("cu128", "3.12")
    assert "numpy is locked at 2.2.6, 2.3.5" in said[0]
    assert "colorama is left out" in said[1]
    assert len(said) == 2


def test_pixi() -> None:
    request, said = read("pixi.toml", PIXI)
    assert request.packages == ("ffmpeg>=6,<7", "torch==2.5.1", "flash-attn")
    assert (request.variant, request.python, request.platform) == ("cu124", "3.11", "linux/amd64")
    whole = "\n".join(said)
    for text in ("cuda-version 12.4.* is left out", "thing comes from elsewhere", "speaks of the driver", "[feature] is not"):
        assert text in whole


def test_environment() -> None:
    request, said = read("environment.yml", ENVIRONMENT)
    assert request.packages == ("torch==2.1.2", "numpy==1.23.*", "scipy>=1.10", "transformers==4.35.0")
    assert (request.variant, request.python) == ("cu121", "3.10")
    whole = "\n".join(said)
    for text in (
        "environment.yml:8: pytorch: the conda build",
        ":8: pytorch is asked for as the wheel torch",
        ":10: cudatoolkit 11.3",
        ":15: .",
    ):
        assert text in whole


def test_dockerfile() -> None:
    request, said = read("Dockerfile", DOCKERFILE)
    assert request.packages == ("torch==2.6.0", "accelerate>=1")
    assert (request.variant, request.python, request.image) == ("cu124", "3.11", "python:3.11-slim-bookworm")
    assert request.apt == ("git", "ffmpeg")
    assert (request.env, request.command) == ({"HF_HOME": "/cache"}, ("python", "train.py"))
    whole = "\n".join(said)
    assert "hf_abcdefgh" not in whole
    for text in (
        ":5: only its last stage",
        ":7: HF_TOKEN",
        ":13: requirements.txt is not read",
        "'$EXTRA'",
        ":14: 'make",
        ":16: ENTRYPOINT",
    ):
        assert text in whole


@pytest.mark.parametrize(
    "base",
    [
        "FROM nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04",
        "FROM --platform=linux/amd64 nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04 AS x",
    ],
)
def test_a_base_image_is_held(base: str) -> None:
    request, _ = read("Dockerfile.gpu", f"{base}\nRUN pip install torch\n")
    assert (request.image, request.python) == ("nvidia/cuda:12.4.1-cudnn-runtime-ubuntu22.04", None)


def test_files_together_and_where_they_differ() -> None:
    made = imported(
        [
            ("requirements.txt", "torch==2.6.0+cu124\nnumpy\neinops==0.7\n"),
            ("app/requirements-dev.txt", "torch>=2.5\nnumpy==1.26.4\neinops==0.8\n"),
            ("Dockerfile", "FROM python:3.11\nRUN pip install torch --index-url https://download.pytorch.org/whl/cu126\n"),
            ("environment.yml", "dependencies: [python=3.10]\n"),
        ]
    )
    assert made.request.packages == ("torch==2.6.0", "numpy==1.26.4", "einops")
    assert (made.request.variant, made.request.python) == (None, None)
    whole = "\n".join(map(str, made.said))
    for text in ("several builds are named (cu124, cu126)", "python differs", "einops is asked for in several ways"):
        assert text in whole


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("pyproject.toml", "[project]\nname = \n", "pyproject.toml:2:8: not TOML"),
        ("uv.lock", "[[package\n", "uv.lock:1:10"),
        ("environment.yml", "dependencies:\n- {pip: [[]]}\n- [x]\n", "environment.yml:3:3"),
        ("environment.yml", "a: [\n", "environment.yml:2:1"),
        ("environment.yml", "- a\n", "environment.yml:1:1"),
        ("environment.yml", "", "environment.yml: empty"),
        ("Dockerfile", "RUN pip install torch\n", "Dockerfile:1:1: no FROM"),
        ("requirements.txt", "# nothing\n", "requirements.txt: nothing in it makes a request"),
        ("requirements.txt", "===\n<<<<<<< HEAD\n", "requirements.txt:2:1"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_place(name: str, text: str, place: str) -> None:
    with pytest.raises(RequestError) as caught:
        imported([(name, text)])
    assert place in str(caught.value)


@pytest.mark.parametrize("text", ["a: &x [1]\nb: *x\ndependencies: [torch]\n", "dependencies: &d\n- torch\nother: *d\n"])
def test_anchors_elsewhere_do_no_harm(text: str) -> None:
    assert read("environment.yml", text)[0].packages == ("torch",)


def test_an_unknown_name_is_a_usage_error() -> None:
    with pytest.raises(UsageError, match="setup"):
        imported([("setup.py", "")])


def test_the_verb_prints_a_request_that_resolves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "requirements.txt"
    path.write_text("torch==2.6.0+cu124\n\x1b[31mevil\n", encoding="utf-8")
    assert run(["import", str(path)]) == 0
    printed = capsys.readouterr()
    assert "\x1b" not in printed.err
    request = decode(printed.out, "request.yaml", Request)
    assert (request.packages, request.variant) == (("torch==2.6.0",), "cu124")
    assert "add gpus:" in printed.err
    target = tmp_path / "request.yaml"
    assert run(["import", str(path), "-o", str(target), "--json"]) == 0
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["request"]["variant"] == "cu124"
    assert run(["resolve", "--request", str(target), "--gpu", "h100", "--driver", "550", "--offline"]) == 0
    assert run(["import", str(path), "-o", str(target)]) == 2
    assert run(["import", str(tmp_path / "missing.txt")]) == 3
    assert run(["import", "setup.cfg"]) == 2
