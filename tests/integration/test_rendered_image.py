"""A rendered Dockerfile builds unchanged: a real engine, the real PyTorch CPU build, on a stand-in for the base image.

The site of these tests is cut off: one page of wheels behind a certificate that only its own authority signed, and proxies that
nobody answers at.
"""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import ssl
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from provisioner.decode import decode
from provisioner.files.render import render
from provisioner.files.site import Address, IndexAddress, Proxies, Site, WheelPlace, load_site
from provisioner.files.tree import write_tree
from provisioner.stack.lock import Lock, Pin, Pins
from provisioner.values import replace
from provisioner.versions import Version
from tests.testbed.processes import program, run
from tests.testbed.require import need
from tests.testbed.wheels import torch_wheelhouse
from tests.unit.files.sample import CPU, ROWS

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

    from tests.testbed.engine import Engine

TAG = "testbed:rendered"
PROXY = "http://127.0.0.1:9"


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a self-signed certificate for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("authority")
    argv = [program("openssl", "openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    argv += ["-subj", "/CN=site authority", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "2"]
    run([*argv, "-keyout", str(folder / "key.pem"), "-out", str(folder / "site.crt")])
    return folder


@pytest.fixture(scope="module")
def house() -> Path:
    """The folder with the wheels of the PyTorch CPU build."""
    with need("torch"):
        return torch_wheelhouse()


@pytest.fixture(scope="module")
def page(authority: Path, house: Path) -> Iterator[str]:
    """The address of a page of wheels, by https."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(house)))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "site.crt", authority / "key.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _locked(house: Path) -> Lock:
    """The CPU lock with the wheels of `house`, by hash."""
    wheels = sorted(house.glob("*.whl"))
    pins = []
    for wheel in wheels:
        name, version = wheel.name.split("-")[:2]
        with wheel.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        pins.append(Pin(name=name, version=version, hashes=(f"sha256:{digest}",)))
    version = next(pin.version for pin in pins if pin.name == "torch").partition("+")[0]
    return replace(CPU, stack=replace(CPU.stack, version=Version(version)), pins=Pins(packages=tuple(pins), hashed=True))


@pytest.fixture(scope="module")
def context(
    engine: Engine, base_image: str, authority: Path, house: Path, page: str, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of the rendered tree, whose image is built as TAG."""
    lock = _locked(house)
    assert lock.stack.image.reference == base_image
    site = Site(
        indexes={"pypi": IndexAddress("none")},
        wheels=(WheelPlace(page),),
        proxies=Proxies(http=Address(PROXY), https=Address(PROXY), no="127.0.0.1"),
        ca_pem=(authority / "site.crt").read_text(encoding="utf-8"),
    )
    folder = tmp_path_factory.mktemp("tree") / "out"
    write_tree(render(lock, site, ROWS), folder)
    _build(engine, folder)
    return folder


def _build(engine: Engine, folder: Path) -> subprocess.CompletedProcess[str]:
    argv = ("buildx", "build", "--network", "host", "--progress", "plain", "--tag", TAG, str(folder))
    return engine.run(*argv, timeout=1200)


def _answer(ran: subprocess.CompletedProcess[str]) -> dict[str, str]:
    [line] = ran.stdout.splitlines()
    mark, _, text = line.partition(" ")
    assert mark == "PROVISIONER-SMOKE"
    return {check["name"]: check["status"] for check in json.loads(text)["checks"]}


@pytest.mark.parametrize(
    "options",
    [(), ("--user", "54321:0", "--read-only", "--tmpfs", "/tmp")],
    ids=["as it is", "any user, group 0, read-only root"],
)
def test_the_image_multiplies_matrices(engine: Engine, context: Path, options: tuple[str, ...]) -> None:
    assert context.is_dir()
    ran = engine.run("run", "--rm", "--network", "none", *options, TAG)

    answer = _answer(ran)
    assert answer["matmul"] == "pass", ran.stderr
    assert set(answer.values()) == {"pass", "skip"}, ran.stderr


def test_the_image_runs_as_nobody_special_and_group_0_may_write_where_the_owner_may(engine: Engine, context: Path) -> None:
    assert context.is_dir()
    script = (
        "id -u; id -g; pwd; find /opt/venv /workspace ! -type l \\( ! -group 0 -o -perm -u=w ! -perm -g=w \\) | head;"
        "touch /workspace/here && echo wrote"
    )
    ran = engine.run("run", "--rm", "--network", "none", "--entrypoint", "sh", TAG, "-c", script)

    assert ran.stdout.split() == ["10001", "0", "/workspace", "wrote"]


def test_a_second_build_comes_wholly_from_the_cache(engine: Engine, context: Path) -> None:
    said = _build(engine, context).stderr

    steps = {line.split(" ")[0]: line for line in said.splitlines() if "] " in line and "[internal]" not in line}
    steps = {number: line for number, line in steps.items() if any(word in line for word in ("RUN", "COPY", "WORKDIR"))}
    cached = {line.split(" ")[0] for line in said.splitlines() if line.endswith(" CACHED")}
    assert len(steps) >= 8, said
    assert set(steps) <= cached, said


def test_the_image_carries_the_lock_and_nothing_of_the_site_but_its_certificates(engine: Engine, context: Path) -> None:
    [facts] = json.loads(engine.run("image", "inspect", TAG).stdout)
    labels = facts["Config"]["Labels"]

    inside = engine.run("run", "--rm", "--entrypoint", "sha256sum", TAG, "/opt/provisioner/stack.lock.yaml").stdout.split()[0]
    assert inside == labels["io.gpu-provisioner.lock-sha256"]
    whole = decode((context / "stack.lock.yaml").read_text(encoding="utf-8"), "the file", Lock).stack
    # the reasons are in the file, whose hash the label names; a label is read on one screen
    assert decode(labels["io.gpu-provisioner.lock"], "the label", Lock).stack == replace(whole, because=())
    said = json.dumps(facts) + engine.run("history", "--no-trunc", TAG).stdout
    assert "127.0.0.1" not in said
    assert not [name for name in facts["Config"]["Env"] if "proxy" in name.lower()]


def test_the_site_certificate_is_in_the_trust_store(engine: Engine, context: Path, authority: Path) -> None:
    assert context.is_dir()
    bundle = engine.run("run", "--rm", "--entrypoint", "cat", TAG, "/etc/ssl/certs/ca-certificates.crt").stdout
    assert (authority / "site.crt").read_text(encoding="utf-8").strip() in bundle


def test_packages_of_the_distribution_a_project_and_a_secret(
    engine: Engine, base_image: str, authority: Path, house: Path, page: str, tmp_path: Path
) -> None:
    lock = replace(
        _locked(house), apt=("hello",), project="src", env={"GREETING": 'it\'s "$HOME" # \\ {{ it }}'}, secrets=("token",)
    )
    assert lock.stack.image.reference == base_image
    # The archive of the distribution may be behind the machine's own authority.
    system = Path("/etc/ssl/certs/ca-certificates.crt").read_text(encoding="utf-8")
    (tmp_path / "bundle.crt").write_text((authority / "site.crt").read_text(encoding="utf-8") + system, encoding="utf-8")
    (tmp_path / "site.yaml").write_text(
        f"format: 1\nindexes: {{pypi: none}}\nwheels: [{page}]\nca_bundle: bundle.crt\nproxies: {{no: 127.0.0.1}}\n",
        encoding="utf-8",
    )
    folder = tmp_path / "out"
    write_tree(render(lock, load_site(tmp_path / "site.yaml"), ROWS), folder)
    (folder / "project" / ".git").mkdir(parents=True)
    (folder / "project" / "train.py").write_text("print('trained')\n", encoding="utf-8")
    (folder / "project" / ".env").write_text("PASSWORD=1\n", encoding="utf-8")
    (tmp_path / "token").write_text("s3cr3t-s3cr3t", encoding="utf-8")
    tag = "testbed:rendered-more"
    argv = ("buildx", "build", "--network", "host", "--secret", f"id=token,src={tmp_path / 'token'}", "--tag", tag, str(folder))
    engine.run(*argv, timeout=1200)

    script = (
        "hello; python train.py; ls -A; printf '%s\\n' \"$GREETING\"; ls /var/lib/apt/lists | wc -l; test -w train.py; echo $?"
    )
    ran = engine.run("run", "--rm", "--network", "none", "--user", "4321:0", "--entrypoint", "sh", tag, "-c", script)

    assert ran.stdout.splitlines() == ["Hello, world!", "trained", "train.py", lock.env["GREETING"], "0", "0"]
    facts = engine.run("image", "inspect", tag).stdout + engine.run("history", "--no-trunc", tag).stdout
    assert "s3cr3t" not in facts
