"""Whatever stands in a file: a request that can be written and read again, or an error of ours, and in a moment."""

from __future__ import annotations

import contextlib
import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from provisioner.decode import decode, dump_yaml
from provisioner.errors import ProvisionerError
from provisioner.files.importing import imported
from provisioner.stack.request import Request
from provisioner.stack.wants import parse_requirement

NAMES = ("requirements.txt", "pyproject.toml", "uv.lock", "pixi.toml", "environment.yml", "Dockerfile")
WORDS = r"""torch ==2.9.1 +cu128 >=1,<2 [ ] { } = ' " # * \ ; && -r --index-url https://download.pytorch.org/whl/cu128
FROM python:3.12 RUN pip install CMD ENV A=b &x name version source dependencies: pip: - [project] dependencies [[package]]
[dependencies] [pypi-dependencies] [tool.uv.sources] virtual python_version < é"""
PIECES = st.sampled_from([*WORDS.split(), "\n", "\n- ", " ", " = ", "\\\n", "\x1b[31m", "\x00"])
TEXTS = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join))


@example(name="requirements.txt", text="0<A")
@given(name=st.sampled_from(NAMES), text=TEXTS)
def test_no_text_makes_a_reader_fall(name: str, text: str) -> None:
    try:
        made = imported([(name, text)])
    except ProvisionerError:
        return
    written = dump_yaml(made.request)
    assert decode(written, "request.yaml", Request) == made.request
    for package in made.request.packages:
        parse_requirement(package)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 20_000,
        "FROM x\nCMD " + "[" * 100_000,
        "torch==" + "1" * 50_000 + "$",
        "dependencies:\n- numpy=" + "1" * 50_000 + "$\n",
        "torch" + "==1,==1" * 5_000 + "$",
        "FROM x\nRUN " + "--a " * 20_000,
    ],
    ids=["nested", "nested-json", "digits", "conda-digits", "bounds", "options"],
)
def test_no_text_takes_long(name: str, text: str) -> None:
    began = time.process_time()
    with contextlib.suppress(ProvisionerError):
        imported([(name, text)])
    assert time.process_time() - began < 5  # a deadline: exponential readers take hours
