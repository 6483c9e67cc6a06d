"""The rules on options: the precision that is asked for, and what extensions are compiled with."""

from __future__ import annotations

from typing import Any

import pytest

from provisioner.stack.request import Request
from provisioner.stack.resolve import decide
from provisioner.values import replace
from provisioner.versions import Version
from tests.unit.stack import small

ARCHITECTURES = tuple(
    replace(row, precisions={"old": (), "mid": ("bf16", "tf32"), "new": None}[row.id]) for row in small.matrix().architectures
)
MATRIX = small.matrix(architectures=ARCHITECTURES)


@pytest.mark.parametrize(
    ("fields", "want"),
    [
        ({"gpus": ("alpha a7",), "options": {"dtype": "bfloat16"}}, "precision-not-on-gpu"),
        ({"gpus": ("beta b9",), "options": {"dtype": "fp8"}}, "precision-not-on-gpu"),
        ({"gpus": ("beta b9",), "options": {"dtype": "bfloat16"}}, None),
        ({"gpus": ("alpha a7",), "options": {"dtype": "float16"}}, None),
        ({"gpus": ("gamma c12",), "options": {"dtype": "bfloat16"}}, None),  # not known
        ({"gpus": ("none",), "options": {"dtype": "bfloat16"}}, None),
        (
            {"gpus": ("beta b9",), "toolkit": Version("12.6"), "options": {"compiles_extensions": "true"}, "variant": "cu130"},
            "toolkit-of-another-cuda-major",
        ),
        ({"gpus": ("beta b9",), "toolkit": Version("12.6"), "options": {"compiles_extensions": "true"}}, None),  # takes cu126
        (
            {"gpus": ("alpha a7",), "toolkit": Version("13.0"), "options": {"compiles_extensions": "true"}},
            "toolkit-of-another-cuda-major",
        ),
        ({"gpus": ("beta b9",), "toolkit": Version("12.6"), "variant": "cu130"}, None),  # nothing is compiled
        (
            {"gpus": ("beta b9",), "image": "nvidia/cuda:13.0.1-base-ubuntu1", "options": {"compiles_extensions": "true"}},
            "no-compiler-in-image",
        ),
        ({"gpus": ("beta b9",), "image": "nvidia/cuda:13.0.1-devel-ubuntu1", "options": {"compiles_extensions": "true"}}, None),
    ],
)
def test_options_hold(fields: dict[str, Any], want: str | None) -> None:
    decision = decide(Request(**{"packages": ("frame==2.0.0",), **fields}), MATRIX)
    assert (decision.refusals[0].finding if decision.refusals else None) == want
    assert not decision.refusals or decision.remedies


def test_what_helps_is_another_precision_toolkit_or_flavour() -> None:
    half = decide(Request(packages=("frame",), gpus=("alpha a7",), options={"dtype": "bfloat16"}), MATRIX)
    assert half.remedies[0].changes == {"options.dtype": "float16"}
    compiles = {"compiles_extensions": "true"}
    image = Request(packages=("frame==2.0.0",), gpus=("beta b9",), image="nvidia/cuda:13.0.1-base-ubuntu1", options=compiles)
    assert decide(image, MATRIX).remedies[0].changes == {"image": "nvidia/cuda:13.0.1-devel-ubuntu1"}


def test_a_toolkit_without_a_target_for_the_gpu_is_refused() -> None:
    rows = (*MATRIX.cuda, small.cuda("13.2", "650.10", "600.10", "sm_120"))
    matrix = small.matrix(cuda=rows)
    options = {"compiles_extensions": "true"}
    request = Request(packages=("frame==2.0.0",), gpus=("beta b9",), toolkit=Version("13.2"), variant="cu130", options=options)
    decision = decide(request, matrix)
    assert decision.refusals[0].finding == "toolkit-does-not-know-gpu"
    assert decision.remedies[0].changes == {"toolkit": "13.0"}


def test_what_is_not_known_of_a_precision_is_a_note() -> None:
    decision = decide(Request(packages=("frame",), gpus=("gamma c12",), options={"dtype": "fp8"}), MATRIX)
    assert "precision-not-known" in [note.finding for note in decision.notes]
