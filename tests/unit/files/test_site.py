"""site.yaml: every mistake with its place, secrets that never stand in it, and how its addresses are looked up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from provisioner.errors import SiteError, UsageError
from provisioner.files.site import (
    IndexAddress,
    RegistryPrefix,
    Site,
    index_address,
    load_site,
    mirrored,
    read_address,
    secrets_of,
    split_reference,
    unencrypted_host,
)
from tests.unit.files.sample import PEM

if TYPE_CHECKING:
    from pathlib import Path

# Made with `openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN=t -days 1`.
CERTIFICATE = """\
-----BEGIN CERTIFICATE-----
MIIBbTCCAROgAwIBAgIUeW0olV9OdnJb+RXphwFP7geUq8kwCgYIKoZIzj0EAwIw
DDEKMAgGA1UEAwwBdDAeFw0yNjEyMDExMzM3MzhaFw0yNjEyMDIxMzM3MzhaMAwx
CjAIBgNVBAMMAXQwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASbKN4GPIAp2h0v
4jcIXRiqRtFf0t9/GJXuqAKZiyFcejabSopxNIQ+oi8iZe//JJRsd2JA2tA2pZrn
//KpdhOFo1MwUTAdBgNVHQ4EFgQUj35PE50fX+J3ouoowBYv1cbK79IwHwYDVR0j
BBgwFoAUj35PE50fX+J3ouoowBYv1cbK79IwDwYDVR0TAQH/BAUwAwEB/zAKBggq
hkjOPQQDAgNIADBFAiBnA6amsss7mhZylSjVd341MNTQFb4Xejc61wV3mCQ4ngIh
AM/41E2yA0jjgjJ8zrAXtfrVRuXOgTNza648omwirvV5
-----END CERTIFICATE-----
"""


def _write(folder: Path, text: str) -> Path:
    path = folder / "site.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def _mistakes(folder: Path, text: str) -> list[str]:
    with pytest.raises(SiteError) as caught:
        load_site(_write(folder, text))
    return [f"{problem.line}: {problem.message}" for problem in caught.value.problems]


def test_a_whole_site(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(f"# our authority\n{CERTIFICATE}", encoding="utf-8")
    site = load_site(
        _write(
            tmp_path,
            """\
format: 1
indexes:
  pypi: {env: SITE_INDEX}
  pytorch/*: https://mirror.example/pytorch/*/
wheels: [wheels, https://wheels.example/, "file:///srv/wheels"]
registries: {docker.io: "registry.example:5000/dockerhub"}
proxies: {http: "http://proxy.example:3128", no: "localhost,.example.org"}
ca_bundle: ca.pem
slurm: {partition: gpu, gpu_type: a100, modules: [apptainer/1.4]}
""",
        )
    )
    assert site.indexes == {"pypi": "${SITE_INDEX}", "pytorch/*": "https://mirror.example/pytorch/*/"}
    assert site.wheels == (str(tmp_path / "wheels"), "https://wheels.example/", "/srv/wheels")
    assert site.proxies.http == "http://proxy.example:3128"
    assert site.ca_pem == f"# our authority\n{CERTIFICATE}"
    assert site.slurm.modules == ("apptainer/1.4",)


def test_every_mistake_is_named_with_its_line(tmp_path: Path) -> None:
    assert _mistakes(
        tmp_path,
        """\
format: 1
indexes:
  pypi: ftp://mirror.example/
  pytorch/*: https://user:secret@mirror.example/*/
  other: {env: not a name}
  quoted: "https://mirror.example/'; reboot"
registries:
  docker.io: https://registry.example/
  nvcr.io: {env: REGISTRY}
proxies: {http: "proxy", no: "$(reboot)"}
ca_bundle: nowhere.pem
slurm: {gpu_type: "4090", version: new, modules: ["a b"], image_folder: $HOME/images, partition: "a\\nb"}
mirror: yes
""",
    ) == [
        "3: 'ftp://mirror.example/' is not the address of a package index (http://… or https://…), or none",
        "4: a user or password must not stand in this file: use netrc, or {env: NAME} for the whole address",
        "5: a secret address is written {env: NAME}, NAME being an environment variable",
        '6: "https://mirror.example/\'; reboot" is not the address of a package index (http://… or https://…), or none',
        "8: leave out the scheme: the prefix of a registry (registry.example:5000/dockerhub)",
        "9: must be the prefix of a registry (registry.example:5000/dockerhub)",
        "10: 'proxy' is not an address (http://… or https://…)",
        f"11: ca_bundle: {tmp_path}/nowhere.pem: no such file or directory",
        (
            "12: partition: 'a\\nb' is not one line of text; gpu_type: '4090' is not a GRES type; `sinfo -o %G` lists those "
            "of the site; version: 'new' is not a version (numbers with dots, such as 580.65.06); modules: 'a b' is not "
            "the name of a module; image_folder: '$HOME/images' must be a folder written out: nothing expands it"
        ),
        "13: unknown key mirror (known: format, indexes, wheels, registries, proxies, ca_bundle, ca_pem, slurm)",
    ]


def test_a_password_is_not_repeated_in_the_message(tmp_path: Path) -> None:
    [mistake] = _mistakes(tmp_path, "wheels: ['https://user:hunter2@wheels.example/']\n")
    assert "hunter2" not in mistake


@pytest.mark.parametrize(
    ("text", "mistake"),
    [
        ("no certificate", "not certificates in PEM form"),
        ("-----BEGIN CERTIFICATE-----\nMIIB\n", "not certificates in PEM form"),
        (PEM, "certificate 1 of 1 is damaged"),
        (CERTIFICATE + PEM, "certificate 2 of 2 is damaged"),
        (CERTIFICATE + "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "a private key is in it"),
    ],
)
def test_a_bundle_that_is_none(tmp_path: Path, text: str, mistake: str) -> None:
    (tmp_path / "ca.pem").write_text(text, encoding="utf-8")
    [message] = _mistakes(tmp_path, "ca_bundle: ca.pem\n")
    assert message.startswith(f"1: ca_bundle: {mistake}")


def test_a_bundle_may_stand_in_the_file_but_not_twice(tmp_path: Path) -> None:
    indented = CERTIFICATE.replace("\n", "\n  ").rstrip()
    assert load_site(_write(tmp_path, f"ca_pem: |\n  {indented}\n")).ca_pem == CERTIFICATE
    [message] = _mistakes(tmp_path, f"ca_bundle: ca.pem\nca_pem: |\n  {indented}\n")
    assert "keep one" in message


def test_a_secret_address_is_read_when_it_is_used() -> None:
    site = Site(indexes={"pypi": IndexAddress("${SITE_INDEX}")})
    environment = {"SITE_INDEX": "https://user:hunter2@mirror.example/"}
    assert "hunter2" not in repr(site)
    assert read_address(site.indexes["pypi"], environment) == "https://user:hunter2@mirror.example/"
    assert secrets_of(site, environment) == ("https://user:hunter2@mirror.example/",)
    assert secrets_of(site, {}) == ()
    with pytest.raises(UsageError, match="SITE_INDEX, which is not set"):
        read_address(site.indexes["pypi"], {})


def test_an_index_is_looked_up_exactly_then_by_its_group_then_by_the_matrix() -> None:
    site = Site(
        indexes={"pytorch/*": IndexAddress("https://m.example/*/"), "pytorch/cu126": IndexAddress("https://old.example/")}
    )
    assert index_address(site, "pytorch/cu126", "https://default.example/") == "https://old.example/"
    assert index_address(site, "pytorch/cu130", "https://default.example/") == "https://m.example/cu130/"
    assert index_address(site, "jax/cuda12", "https://default.example/") == "https://default.example/"
    assert index_address(site, "pypi", None) is None


def test_a_site_without_the_default_index_has_only_what_it_names() -> None:
    site = Site(indexes={"pypi": IndexAddress("none"), "pytorch/cpu": IndexAddress("https://m.example/")})
    assert index_address(site, "pytorch/cu130", "https://default.example/") == "none"
    assert index_address(site, "pytorch/cpu", "https://default.example/") == "https://m.example/"


@pytest.mark.parametrize(
    ("reference", "registry", "repository"),
    [
        ("python:3.12-slim", "docker.io", "library/python:3.12-slim"),
        ("nvidia/cuda:12.8.1-base-ubuntu24.04", "docker.io", "nvidia/cuda:12.8.1-base-ubuntu24.04"),
        ("nvcr.io/nvidia/pytorch:25.06-py3", "nvcr.io", "nvidia/pytorch:25.06-py3"),
        ("localhost:5000/a:1", "localhost:5000", "a:1"),
        ("localhost/a:1", "localhost", "a:1"),
    ],
)
def test_a_reference_has_a_registry_even_where_none_is_written(reference: str, registry: str, repository: str) -> None:
    assert split_reference(reference) == (registry, repository)
    assert (
        mirrored(Site(registries={registry: RegistryPrefix("mirror.example:5000/x")}), reference)
        == f"mirror.example:5000/x/{repository}"
    )
    assert mirrored(Site(), reference) == reference


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("http://mirror.example:3141/simple", "mirror.example:3141"),
        ("http://mirror.example", "mirror.example"),
        ("https://mirror.example/", None),
        ("http://127.0.0.1:8000/", None),
        ("http://localhost/", None),
        ("${NAME}", None),
    ],
)
def test_which_hosts_pip_must_be_told_to_trust(address: str, host: str | None) -> None:
    assert unencrypted_host(address) == host
