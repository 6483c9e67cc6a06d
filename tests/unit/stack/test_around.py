"""A build whose architecture list is not known: what the lists around it say, and where it ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from provisioner.stack.around import known_around
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.gpus import Capability
from provisioner.stack.request import Request
from provisioner.stack.resolve import decide

if TYPE_CHECKING:
    from provisioner.stack.answer import Decision

MATRIX = shipped_matrix()
UNKNOWN = "arch-list-not-known"


def on_arm(package: str, gpu: str, **fields: Any) -> Decision:  # noqa: ANN401 - fields of a request
    return decide(Request(packages=(package,), gpus=(gpu,), platform="linux/arm64", **fields), MATRIX)


@pytest.mark.parametrize("package", ["torch", "torch==2.7.1", "torch==2.9.0", "torch==2.11.0"])
@pytest.mark.parametrize("gpu", ["Tesla V100-SXM2-32GB", "gtx 1080", "Tesla T4"])
def test_no_yes_rests_on_an_unknown_list_where_all_around_it_lack_the_gpu(package: str, gpu: str) -> None:
    decision = on_arm(package, gpu)
    assert decision.verdict == "unknown"
    refusal = decision.refusals[0]
    assert (refusal.rule, refusal.finding, refusal.certain) == ("runs-on-gpu", UNKNOWN, False)
    assert refusal.fact.count("torch") == 2  # the build, and what is known around it
    assert refusal.because


@pytest.mark.parametrize("gpu", ["gh200", "a100", "b200", "NVIDIA GB10"])
def test_it_stays_a_yes_with_a_note_where_one_around_it_holds_the_gpu(gpu: str) -> None:
    decision = on_arm("torch==2.8.0", gpu)
    assert decision.verdict == "ok"
    assert UNKNOWN in {note.finding for note in decision.notes}


def test_a_yes_that_rests_on_an_unknown_list_ranks_after_a_known_one_of_another_release() -> None:
    stack = on_arm("torch<2.9", "gh200").stack
    assert stack is not None
    assert (str(stack.version), stack.variant) == ("2.6.0", "cu126")  # 2.7 and 2.8 are not known
    assert any("2.6.0 is the newest release" in because.fact and "is known to run" in because.fact for because in stack.because)
    free = on_arm("torch<2.9", "any").stack  # no GPU was named: nothing to be unsure of
    assert free is not None
    assert str(free.version) == "2.8.0"


def test_lists_of_a_cuda_that_cannot_target_the_gpu_say_nothing() -> None:
    build = MATRIX.row("variants", "torch 2.9.0 cu126 linux/arm64")
    around = [f"{row.version} {row.tag}" for row in known_around(MATRIX, build, Capability(7, 0))]
    assert around == ["2.6.0 cu126", "2.12.0 cu126"]  # CUDA 13 has no Volta, so that cu130 lacks it was no choice
    assert known_around(MATRIX, build, Capability(9, 0))[0].tag == "cu130"


def test_allow_overrides_the_doubt() -> None:
    assert on_arm("torch==2.8.0", "Tesla V100-SXM2-32GB", allow=(UNKNOWN,)).verdict == "ok"
