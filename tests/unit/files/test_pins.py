"""What uv is asked, and what its answers mean. The texts are those of uv 0.13.9; addresses of the default index are replaced."""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from provisioner.commands import Completed
from provisioner.errors import CommandTimedOut, NoStackError, ProvisionerError, UsageError
from provisioner.files.pins import Around, normal, options, pin, places, project_text, read
from provisioner.files.site import Address, IndexAddress, Proxies, Site, WheelPlace
from tests.unit.proof.fakes import stack

if TYPE_CHECKING:
    from collections.abc import Mapping

INDEXES: Mapping[str, str | None] = {
    "pypi": None,
    "pytorch/cu130": "https://wheels.example/whl/cu130",
    "pytorch/cpu": "https://wheels.example/whl/cpu",
}
HASH = "sha256:" + "6" * 64
TORCH = f"torch==2.9.1+cu130 \\\n    --hash={HASH}\n"
NUMPY = f"numpy==2.4.6 \\\n    --hash={HASH} \\\n    --hash=sha256:{'0' * 64}\n"


def failed(text: str) -> Completed:
    return Completed(exit=1, stderr=text)


class Recorded:
    """A `Compile` that gives its answers one after the other, and keeps the projects it was given, as data."""

    def __init__(self, *answers: Completed | Exception) -> None:
        self.answers = list(answers)
        self.projects: list[dict[str, Any]] = []
        self.options: tuple[str, ...] = ()
        self.given: dict[str, object] = {}

    def __call__(self, project: str, options: tuple[str, ...], **given: object) -> Completed:
        self.projects.append(tomllib.loads(project))
        self.options, self.given = options, given
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def around(**site: object) -> Around:
    return Around(site=Site(**site), indexes=INDEXES)  # type: ignore[arg-type]


def test_the_framework_comes_from_its_own_index_and_the_rest_from_the_default() -> None:
    uv = Recorded(Completed(exit=0, stdout=NUMPY + TORCH))
    pins = pin(stack(packages=("torch==2.9.1", "numpy")), ("torchvision",), around(), uv)
    assert [(entry.name, entry.version, entry.index) for entry in pins.packages] == [
        ("numpy", "2.4.6", "pypi"),
        ("torch", "2.9.1+cu130", "pytorch/cu130"),
    ]
    assert pins.hashed
    assert pins.packages[0].hashes == (f"sha256:{'0' * 64}", HASH)
    tool = uv.projects[0]["tool"]["uv"]
    assert tool["sources"] == {"torch": {"index": "framework"}}
    assert tool["index"] == [{"name": "framework", "url": INDEXES["pytorch/cu130"], "explicit": True}]
    assert uv.projects[0]["project"]["dependencies"] == ["torch==2.9.1", "numpy"]
    assert uv.projects[0]["project"]["requires-python"] == "==3.12.*"


def test_a_companion_that_only_another_package_wants_is_asked_for_by_name() -> None:
    stray = f"torchvision==0.24.1 \\\n    --hash={HASH}\n"
    own = f"torchvision==0.24.1+cu130 \\\n    --hash={HASH}\n"
    uv = Recorded(Completed(exit=0, stdout=TORCH + stray), Completed(exit=0, stdout=TORCH + own))
    pins = pin(stack(packages=("torch==2.9.1", "timm")), ("torchvision",), around(), uv)
    assert uv.projects[1]["project"]["dependencies"] == ["torch==2.9.1", "timm", "torchvision"]
    assert uv.projects[1]["tool"]["uv"]["sources"]["torchvision"] == {"index": "framework"}
    assert pins.packages[1].version == "0.24.1+cu130"


def test_the_default_index_is_never_named() -> None:
    uv = Recorded(Completed(exit=0, stdout=f"torch==2.9.1 \\\n    --hash={HASH}\n"))
    pins = pin(stack(index="pypi"), ("torchvision",), around(), uv)
    assert uv.projects[0]["tool"]["uv"] == {}
    assert pins.packages[0].index == "pypi"


def test_a_site_s_addresses_wheels_and_certificates_are_used() -> None:
    uv = Recorded(Completed(exit=0, stdout=TORCH))
    site = Site(
        indexes={"pypi": IndexAddress("${PIP_MIRROR}"), "pytorch/*": IndexAddress("https://mirror.example/*/simple")},
        wheels=(WheelPlace("/srv/wheels"),),
        proxies=Proxies(https=Address("http://proxy.example:3128"), no="mirror.example"),
        ca_pem="a certificate\n",
    )
    secret = "https://user:hunter2@mirror.example/simple"
    pin(stack(), (), Around(site=site, indexes=INDEXES, environment={"PIP_MIRROR": secret}), uv)
    tool = uv.projects[0]["tool"]["uv"]
    assert tool["find-links"] == ["/srv/wheels"]
    assert {entry["name"]: entry["url"] for entry in tool["index"]} == {
        "framework": "https://mirror.example/cu130/simple",
        "default": secret,
    }
    assert uv.given["variables"] == {"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "mirror.example"}
    assert uv.given["ca"] == "a certificate\n"
    assert uv.given["secrets"] == (secret,)
    assert not any("hunter2" in word for word in uv.options)


def test_a_folder_of_wheels_must_hold_the_very_build() -> None:
    uv = Recorded(Completed(exit=0, stdout=TORCH))
    pin(stack(), (), around(indexes={"pypi": IndexAddress("none")}, wheels=(WheelPlace("/srv/wheels"),)), uv)
    assert uv.projects[0]["project"]["dependencies"] == ["torch==2.9.1+cu130"]
    open_ended = Recorded(Completed(exit=0, stdout=TORCH))
    cut_off = around(indexes={"pypi": IndexAddress("none")}, wheels=(WheelPlace("/srv/wheels"),))
    pin(stack(packages=("torch>=2", "torch[opt]==2.9.1", "numpy==2.4.6")), (), cut_off, open_ended)
    assert open_ended.projects[0]["project"]["dependencies"] == ["torch>=2", "torch[opt]==2.9.1+cu130", "numpy==2.4.6"]
    assert uv.projects[0]["tool"]["uv"] == {"find-links": ["/srv/wheels"], "no-index": True}


def test_a_build_without_its_suffix_is_taken_where_there_is_no_other_and_another_variant_never() -> None:
    site = around(indexes={"pypi": IndexAddress("none")}, wheels=(WheelPlace("/srv/wheels"),))
    nothing = failed(
        "error: No solution found when resolving dependencies\n  cause: Because there is no version of torch==2.9.1+cu130\n"
    )
    plain = Recorded(nothing, Completed(exit=0, stdout=f"torch==2.9.1 \\\n    --hash={HASH}\n"))
    assert pin(stack(), (), site, plain).packages[0].version == "2.9.1"
    other = Recorded(nothing, Completed(exit=0, stdout=f"torch==2.9.1+cpu \\\n    --hash={HASH}\n"))
    with pytest.raises(NoStackError, match="needs the build cu130"):
        pin(stack(), (), site, other)


@pytest.mark.parametrize(
    ("site", "default", "no_index"),
    [
        ({"indexes": {"pypi": IndexAddress("none"), "pytorch/*": IndexAddress("https://m.example/*")}}, None, False),
        (
            {
                "indexes": {"pypi": IndexAddress("none"), "pytorch/*": IndexAddress("https://m.example/*")},
                "wheels": (WheelPlace("/w"),),
            },
            {"name": "default", "url": "/w", "default": True, "format": "flat"},
            False,
        ),
        ({"indexes": {"pypi": IndexAddress("none")}, "wheels": (WheelPlace("/w"),)}, None, True),
    ],
)
def test_a_site_that_asks_no_default_index_never_gets_uv_s_own(site: dict[str, Any], default: object, no_index: bool) -> None:
    tool = tomllib.loads(project_text(("torch",), "3.12", {"torch"}, places(stack(), around(**site))))["tool"]["uv"]
    indexes = tool.get("index", [])
    assert tool.get("no-index", False) is no_index
    assert [entry for entry in indexes if entry["name"] == "default"] == ([default] if default else [])
    assert no_index or sum(bool(entry.get("default")) for entry in indexes) == 1


def test_an_index_that_nobody_places_is_an_error() -> None:
    with pytest.raises(ProvisionerError, match="nobody says where the index jax/cuda13 is"):
        places(stack(index="jax/cuda13"), around())


REFUSED = """\
error: Request failed after 3 retries in 6.5s
  cause: Failed to fetch: https://wheels.example/whl/cu130/torch/
  cause: error sending request for url (https://wheels.example/whl/cu130/torch/)
  cause: client error (Connect)
  cause: tcp connect error
  cause: Connection refused (os error 111)
"""
UNTRUSTED = """\
error: Failed to fetch: https://index.example/simple/sympy/
  cause: error sending request for url (https://index.example/simple/sympy/)
  cause: client error (Connect)
  cause: invalid peer certificate: UnknownIssuer
"""
OFFLINE = """\
error: No solution found when resolving dependencies
  cause: Because numpy was not found in the cache and request depends on numpy, we can conclude that your requirements are \
unsatisfiable.

hint: Packages were unavailable because the network was disabled. When the network is disabled, registry packages may only be \
read from the cache.
"""
# uv 0.11 with a server that answers every request with 401.
UNAUTHORIZED = """\
error: No solution found when resolving dependencies
  cause: Because torch was not found in the package registry and x depends on torch==2.9.1, we can conclude that your \
requirements are unsatisfiable.

hint: An index URL (https://wheels.example/whl/cu130) could not be queried due to a lack of valid authentication credentials \
(401 Unauthorized)
"""
SOURCE_ONLY = """\
error: No solution found when resolving dependencies
  cause: Because flash-attn==2.8.3 has no usable wheels and request depends on flash-attn==2.8.3, we can conclude that your \
requirements are unsatisfiable.

hint: Wheels are required for `flash-attn` because building from source is disabled for all packages (i.e., with `--no-build`)
"""
NO_FIT = """\
error: No solution found when resolving dependencies
  cause: Because all versions of torch depend on sympy>=1.13.3 and request depends on torch==2.13.0, we can conclude that \
request depends on sympy>=1.13.3.
      And because request depends on sympy<1.10, we can conclude that your requirements are unsatisfiable.
"""


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (REFUSED, "the package index pytorch/cu130 does not answer: Connection refused (os error 111)"),
        (
            UNAUTHORIZED,
            "the package index pytorch/cu130 does not answer: 401 Unauthorized: it takes a name and password, from netrc",
        ),
        (UNTRUSTED, "the package index pypi does not answer: invalid peer certificate: UnknownIssuer"),
        (OFFLINE, "the indexes were not asked (offline), and uv's cache does not have everything"),
        (SOURCE_ONLY, "flash-attn is published as source only for this platform, and nothing is built to lock"),
    ],
)
def test_what_cannot_be_had_is_said_without_an_address(text: str, why: str) -> None:
    pins = pin(stack(), (), around(), Recorded(failed(text)))
    assert (pins.packages, pins.hashed, pins.why_not) == ((), False, why)


def test_a_resolver_that_takes_too_long_is_a_reason() -> None:
    assert (
        pin(stack(), (), around(), Recorded(CommandTimedOut("local", "x"))).why_not == "the resolver did not finish in its time"
    )


def test_packages_that_do_not_fit_are_a_refusal_in_plain_words() -> None:
    with pytest.raises(NoStackError) as caught:
        pin(stack(), (), around(), Recorded(failed(NO_FIT)))
    assert caught.value.exit == 4
    assert "the request asks for sympy<1.10" in caught.value.message
    assert "unsatisfiable" not in caught.value.message
    [refusal] = caught.value.refusals
    assert getattr(refusal, "finding", "") == "packages-do-not-fit"


def test_a_text_that_is_no_requirement_is_the_user_s_mistake() -> None:
    with pytest.raises(UsageError, match="not a requirement"):
        pin(
            stack(packages=("torch", "a b c")),
            (),
            around(),
            Recorded(failed("error: Building source distributions is disabled\n")),
        )
    with pytest.raises(ProvisionerError, match="not a requirement"):
        pin(stack(packages=("--index-url=x",)), (), around(), Recorded())


def test_hostile_texts_stay_strings() -> None:
    evil = 'torch"]\n[tool.uv]\nindex-url = "https://evil.example"\nx = ["'
    project = tomllib.loads(project_text((evil,), "3.12", {"torch"}, places(stack(), around())))
    assert project["project"]["dependencies"] == [evil]
    assert "index-url" not in project["tool"]["uv"]


@pytest.mark.parametrize(
    ("glibc", "tag"),
    [
        ((), "manylinux_2_28"),
        ((2, 17), "manylinux_2_17"),
        ((2, 27), "manylinux_2_17"),
        ((2, 28), "manylinux_2_28"),
        ((2, 36), "manylinux_2_36"),
        ((2, 99), "manylinux_2_40"),
    ],
)
def test_wheels_are_those_that_the_image_s_c_library_runs(glibc: tuple[int, ...], tag: str) -> None:
    assert f"x86_64-{tag}" in options(stack(), glibc)
    assert f"aarch64-{tag}" in options(stack(platform="linux/arm64"), glibc)


def test_nothing_is_ever_built_to_lock_and_offline_is_passed_on() -> None:
    assert "--no-build" in options(stack())
    assert "--offline" not in options(stack())
    assert "--offline" in options(stack(), offline=True)


def test_extras_and_odd_spellings_are_read() -> None:
    text = f"jax[cuda13]==0.8.0 \\\n    --hash={HASH}\nTyping_Extensions==4.16.0\n"
    found = read(text, stack(), frozenset({"torch"}))
    assert [(entry.name, entry.version, len(entry.hashes)) for entry in found] == [
        ("jax", "0.8.0", 1),
        ("Typing_Extensions", "4.16.0", 0),
    ]
    assert normal("Typing_Extensions") == "typing-extensions"
    assert read("", stack(), frozenset()) == ()
