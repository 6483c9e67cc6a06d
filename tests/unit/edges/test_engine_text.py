"""What docker and buildx print, as they printed it: 20.10.24, 26.1.5 and 28.2.2 with buildx 0.13.1, on Debian 12."""

from __future__ import annotations

import json

import pytest

from provisioner.edges import engine_text
from provisioner.errors import EngineMissing, UsageError

MISSING_FILE = """\
#0 building with "default" instance using docker driver

#1 [internal] load remote build context
#1 DONE 0.0s

#2 copy /context /
#2 DONE 0.0s

#3 [1/1] COPY nothere /x
#3 ERROR: "/nothere" not found: not found
------
 > [1/1] COPY nothere /x:
------
ERROR: failed to solve: failed to compute cache key: "/nothere" not found: not found
"""
NO_WAY = """\
#3 [internal] load metadata for nope.example/base:1
#3 ERROR: failed to do request: Head "https://nope.example/v2/base/manifests/1": dial tcp: lookup nope.example: no such host
------
 > [internal] load metadata for nope.example/base:1:
------
ERROR: failed to solve: rpc error: code = Unknown desc = failed to solve with frontend dockerfile.v0: failed to create LLB \
definition: failed to do request: Head "https://nope.example/v2/base/manifests/1": dial tcp: lookup nope.example: no such host
"""
WRONG_LINE = """\
#2 copy /context /
#2 DONE 0.0s
ERROR: failed to solve: rpc error: code = Unknown desc = failed to solve with frontend dockerfile.v0: failed to create LLB \
definition: dockerfile parse error line 1: unknown instruction: FRM
"""
FAILED_RUN = """\
#5 [build 2/3] RUN echo hello; exit 3
#5 0.078 hello
#5 ERROR: process "/bin/sh -c echo hello; exit 3" did not complete successfully: exit code: 3
------
 > [build 2/3] RUN echo hello; exit 3:
0.078 hello
------
Dockerfile:2
--------------------
   1 |     FROM base:1 AS build
   2 | >>> RUN echo hello; exit 3
   3 |
--------------------
ERROR: failed to solve: process "/bin/sh -c echo hello; exit 3" did not complete successfully: exit code: 3
"""


@pytest.mark.parametrize(
    ("output", "message", "hint"),
    [
        (MISSING_FILE, 'h: the build of t:1 failed: "/nothere" not found: not found (at [1/1] COPY nothere /x)', None),
        (WRONG_LINE, "h: the build of t:1 failed: dockerfile parse error line 1: unknown instruction: FRM", None),
        (
            FAILED_RUN,
            "h: the build of t:1 failed: hello (exit code: 3, at [build 2/3] RUN echo hello; exit 3)",
            None,
        ),
        (
            NO_WAY,
            (
                'h: the build of t:1 failed: failed to do request: Head "https://nope.example/v2/base/manifests/1": '
                "dial tcp: lookup nope.example: no such host (at [internal] load metadata for nope.example/base:1)"
            ),
            "site.yaml",
        ),
    ],
)
def test_a_failed_build_names_its_step_and_the_reason(output: str, message: str, hint: str | None) -> None:
    failure = engine_text.build_failed("h", "t:1", output)
    assert failure.message == message
    assert (failure.hint is None) if hint is None else (hint in str(failure.hint))


def test_a_long_step_is_named_once_and_its_cause_comes_first() -> None:
    step = "RUN --mount=type=cache,id=pip python3 -m venv /opt/venv && /opt/venv/bin/pip install " + "--no-deps " * 60
    process = f'process "/bin/sh -c {step}" did not complete successfully: exit code: 1'
    output = (
        f"#9 [build 1/2] {step}\n#9 1.2 Looking in indexes\n"
        "#9 3.4 ERROR: No matching distribution found for torch==9.9\n#9 3.5 [notice] A new release of pip is available\n"
        f"#9 ERROR: {process}\n------\n > [build 1/2] {step}:\n1.2 Looking in indexes\n"
        "3.4 ERROR: No matching distribution found for torch==9.9\n3.5 [notice] A new release of pip is available\n------\n"
        f"Dockerfile:30\n--------------------\n  30 | >>> {step}\n--------------------\nERROR: failed to solve: {process}\n"
    )
    failure = engine_text.build_failed("h", "t:1", output)
    start = "h: the build of t:1 failed: ERROR: No matching distribution found for torch==9.9 (exit code: 1, at [build 1/2] RUN"
    assert failure.message.startswith(f"{start} python3 -m venv")
    assert len(failure.message) < len(start) + 90
    assert failure.tail.count("python3 -m venv") == 1
    assert failure.tail.splitlines()[1:] == [
        "#9 1.2 Looking in indexes",
        "#9 3.4 ERROR: No matching distribution found for torch==9.9",
        "#9 3.5 [notice] A new release of pip is available",
    ]


def test_the_check_of_an_image_says_what_is_missing_and_not_its_line_for_programs() -> None:
    step = "RUN --mount=type=tmpfs,target=/tmp python /opt/provisioner/smoke.py --build-check"
    process = f'process "/bin/sh -c {step}" did not complete successfully: exit code: 1'
    output = (
        f" > [stage-2 6/6] {step}:\n"
        "0.9 pass    L0 interpreter   Python 3.11.2 (x86_64)\n"
        "0.9 fail    L1 import        ModuleNotFoundError: No module named 'torch'\n"
        "0.9 unknown L2 cuda          not to be tried without the framework\n"
        '0.9 PROVISIONER-SMOKE {"checks": [{"message": "ModuleNotFoundError"}]}\n'
    )
    failure = engine_text.build_failed("h", "t:1", f"#9 0.9 x\n------\n{output}------\nERROR: failed to solve: {process}\n")
    assert failure.message == (
        "h: the build of t:1 failed: fail L1 import ModuleNotFoundError: No module named 'torch' "
        "(exit code: 1, at [stage-2 6/6] RUN python /opt/provisioner/smoke.py --build-check)"
    )


def test_progress_ends_where_buildx_begins_to_repeat_itself() -> None:
    told: list[str] = []
    tell = engine_text.build_lines(told.append)
    for line in (FAILED_RUN.replace("hello; exit 3\n", "hello; exit 3" + " " * 500 + "\n", 1)).splitlines():
        tell(line)
    assert len(told[0]) < 310
    assert told[1:] == ["#5 0.078 hello"]


def test_the_tail_of_a_long_build_is_its_end() -> None:
    output = "".join(f"#5 line {number}\n" for number in range(1000)) + "ERROR: failed to solve: no space left on device\n"
    failure = engine_text.build_failed("h", "t:1", output)
    assert len(failure.tail.splitlines()) == engine_text.TAIL_LINES
    assert failure.tail.endswith("no space left on device")
    assert "docker system df" in str(failure.hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("ERROR: failed to solve: docker.io/library/python:3.99-slim: not found", "its tag"),
        ("toomanyrequests: You have reached your unauthenticated pull rate limit.", "docker login"),
        ("tls: failed to verify certificate: x509: certificate signed by unknown authority", "ca_bundle"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.", "mirror"),
        ("c++: fatal error: Killed signal terminated program cc1plus", "MAX_JOBS"),
        ("a line that nobody knows", None),
    ],
)
def test_common_failures_have_a_hint(text: str, hint: str | None) -> None:
    found = engine_text.hint_for(text)
    assert (found is None) if hint is None else (hint in str(found))


@pytest.mark.parametrize(
    ("code", "text", "says"),
    [
        (127, "sh: 1: exec: docker: not found\n", "no docker command"),
        (127, "bash: exec: docker: not found\n", "no docker command"),
        (127, "env: \u2018docker\u2019: No such file or directory\n", "no docker command"),
        (127, "bash: line 1: docker: command not found\n", "no docker command"),
        (
            1,
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?\n",
            "does not answer",
        ),
        (125, "docker: Cannot connect to the Docker daemon at unix:///nope. Is the docker daemon running?.\n", "does not answer"),
        (
            1,
            (
                "permission denied while trying to connect to the Docker daemon socket at unix:///d.sock: "
                'Get "http://%2Fd.sock/v1.24/version": dial unix /d.sock: connect: permission denied\n'
            ),
            "may not use",
        ),
        (1, "docker: unknown command: docker buildx\n\nRun 'docker --help' for more information\n", "no buildx"),
        (125, "unknown flag: --load\nSee 'docker --help'.\n\nUsage:  docker [OPTIONS] COMMAND\n", "no buildx"),
        (1, "docker: 'buildx' is not a docker command.\nSee 'docker --help'\n", "no buildx"),
        (
            1,
            "Error response from daemon: client version 1.41 is too old. Minimum supported API version is 1.44, please upgrade\n",
            "API version",
        ),
    ],
)
def test_an_engine_that_cannot_be_used_says_why_and_what_to_do(code: int, text: str, says: str) -> None:
    found = engine_text.missing("gpu01", "docker", code, text)
    assert isinstance(found, EngineMissing)
    assert found.message.startswith("gpu01: ")
    assert says in found.message
    assert found.hint


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (127, 'docker: Error response from daemon: … exec: "nothere": executable file not found in $PATH: unknown\n'),
        (127, "sh: 1: train: not found\n"),
        (1, "Error response from daemon: No such image: nope:1\n"),
        (1, MISSING_FILE),
    ],
)
def test_other_failures_are_no_missing_engine(code: int, text: str) -> None:
    assert engine_text.missing("h", "docker", code, text) is None


def test_the_reason_is_the_last_line_that_says_something() -> None:
    text = "docker: Error response from daemon: No such image: nope:1\n\nRun 'docker run --help' for more information\n"
    assert engine_text.last_line(text) == "No such image: nope:1"
    assert engine_text.last_line("") == "it said nothing"


def test_facts_of_an_image() -> None:
    attributes = {
        "Id": "sha256:6eb1d388",
        "RepoTags": ["t:2"],
        "RepoDigests": None,
        "Config": {
            "User": "10001:0",
            "Env": ["PATH=/usr/bin:/bin", "A=b=c"],
            "Cmd": None,
            "Entrypoint": ["python"],
            "Labels": None,
        },
        "Architecture": "amd64",
        "Os": "linux",
        "Size": 232019386,
    }
    facts = engine_text.image_facts(json.dumps([attributes]))
    assert (facts.id, facts.platform, facts.user, facts.size) == ("sha256:6eb1d388", "linux/amd64", "10001:0", 232019386)
    assert facts.env == {"PATH": "/usr/bin:/bin", "A": "b=c"}
    assert (facts.tags, facts.digests, facts.labels, facts.entrypoint, facts.command) == (("t:2",), (), {}, ("python",), ())


def test_podman_leaves_the_algorithm_of_an_id_out() -> None:
    assert engine_text.facts_of({"Id": "6eb1"}).id == "sha256:6eb1"


def test_what_is_not_one_image_is_refused() -> None:
    with pytest.raises(ValueError, match="one image"):
        engine_text.image_facts("[]")


def test_the_digest_of_a_push() -> None:
    digest = "sha256:" + "d" * 64
    assert (
        engine_text.pushed_digest(f"The push refers to repository [127.0.0.1:5000/a]\n1: digest: {digest} size: 528\n") == digest
    )
    assert engine_text.pushed_digest("nothing") is None


@pytest.mark.parametrize("reference", ["--help", "-v", "", "a b", "a;b", "a\nb", "$(x)", "x" * 500])
def test_what_is_no_reference_reaches_no_command(reference: str) -> None:
    with pytest.raises(UsageError):
        engine_text.checked_reference(reference)


@pytest.mark.parametrize(
    "reference", ["python:3.12-slim", "127.0.0.1:5000/a/b:1", "a@sha256:" + "0" * 64, "sha256:" + "0" * 64, "[::1]:5000/a:1"]
)
def test_references_pass_as_they_are(reference: str) -> None:
    assert engine_text.checked_reference(reference) == reference
