"""The shipped examples are what they say they are, and lead to files."""

from __future__ import annotations

import dataclasses

import pytest

from provisioner.decode import load
from provisioner.errors import RequestError
from provisioner.files.image_view import catalogue
from provisioner.files.render import render
from provisioner.files.site import Proxies, Site, SlurmSite, load_site
from provisioner.resources import resource
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.lock import Pins, lock
from provisioner.stack.request import Request
from provisioner.stack.resolve import resolve


def test_the_site_shows_every_key() -> None:
    path = resource("examples", "site-mirror.yaml")
    text = path.read_text(encoding="utf-8")
    for record in (Site, Proxies, SlurmSite):
        for field in dataclasses.fields(record):
            assert f"{field.name}:" in text, field.name
    site = load_site(path)
    assert site.indexes["pytorch/*"] == "https://mirror.example/pytorch/*/"
    assert site.ca_pem is None


@pytest.mark.parametrize(("name", "gpus"), [("request.yaml", True), ("cpu-pytorch.yaml", False)])
@pytest.mark.parametrize("mirrored", [False, True])
def test_a_request_leads_to_files(name: str, gpus: bool, mirrored: bool) -> None:
    request = load(resource("examples", name), Request, RequestError)
    matrix = shipped_matrix()
    stack = resolve(request, matrix)
    made = lock(stack, request, Pins(why_not="a test"), matrix)
    site = load_site(resource("examples", "site-mirror.yaml")) if mirrored else Site()

    tree = render(made, site, catalogue(made, matrix)).files

    assert {"Dockerfile", "requirements.txt", f"{request.jobs[0].name}.sbatch", "stack.lock.yaml"} <= set(tree)
    assert ("NVIDIA_VISIBLE_DEVICES" in tree["Dockerfile"].text) is gpus
    assert ("registry.example" in tree["Dockerfile"].text) is mirrored
