"""What a lock and a site become: each branch of the views, read back from the files."""

from __future__ import annotations

import json
import shlex
import subprocess
from typing import TYPE_CHECKING

import pytest

from provisioner.decode import decode
from provisioner.errors import LockError, ProvisionerError, UsageError
from provisioner.files.image_view import catalogue, image_name
from provisioner.files.packages import build_secrets, context_folders
from provisioner.files.render import render
from provisioner.files.site import Address, IndexAddress, Proxies, RegistryPrefix, Site, SlurmSite, WheelPlace
from provisioner.findings import Because
from provisioner.stack.compiled import shipped_matrix
from provisioner.stack.lock import Image, Lock, Pins
from provisioner.stack.request import Job
from provisioner.values import replace
from provisioner.versions import Version
from tests.unit.files.sample import BLACKWELL, CPU, DEVEL, FORWARD, ROCKY, ROWS, SITE, UBUNTU_ROWS, VOLTA

if TYPE_CHECKING:
    from provisioner.files.image_view import Catalogue


def _dockerfile(lock: Lock, site: Site | None = None, rows: Catalogue = ROWS) -> str:
    return render(lock, site or Site(), rows).files["Dockerfile"].text


def _pip(lock: Lock, site: Site) -> list[str]:
    """The arguments of `pip install` in the Dockerfile."""
    text = _dockerfile(lock, site).replace("\\\n", " ")
    line = next(line for line in text.splitlines() if "pip install" in line)
    return shlex.split(line.partition("pip install")[2].partition("&&")[0])


def _instructions(text: str) -> list[tuple[str, str]]:
    """A Dockerfile as (instruction, rest), its comments left out and its lines joined."""
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in joined.splitlines() if line.strip()]


def _shell_words(text: str) -> list[str]:
    """The words of a line as bash reads it; nothing in it is run."""
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {text}"], capture_output=True, text=True, check=True, env={})
    return done.stdout.split("\0")[:-1]


def _job(lock: Lock = BLACKWELL, site: Site | None = None, **changes: object) -> str:
    job = replace(Job(name="train", command=("python", "train.py")), **changes)
    return render(replace(lock, jobs=(job,)), site or Site(), ROWS).files["train.sbatch"].text


def _directives(text: str) -> dict[str, str]:
    options = [line.removeprefix("#SBATCH --").partition("=") for line in text.splitlines() if line.startswith("#SBATCH ")]
    return {name: content for name, _, content in options}


def _step(text: str) -> list[str]:
    return shlex.split(text.replace("\\\n", " ").splitlines()[-1])


# ---------------------------------------------------------------------------------------------------- the tree


def test_only_makes_some_of_the_files() -> None:
    assert sorted(render(CPU, Site(), ROWS, only=("sbatch",)).files) == [
        "job.sbatch",
        "provisioner/expect.json",
        "provisioner/smoke.py",
        "requirements.txt",
        "stack.lock.yaml",
    ]
    assert "job.sbatch" not in render(CPU, Site(), ROWS, only=("dockerfile",)).files
    assert sorted(render(CPU, Site(), ROWS, only=(), host_script="x").files) == ["stack.lock.yaml"]
    with pytest.raises(UsageError, match="there is no output helm") as caught:
        render(CPU, Site(), ROWS, only=("helm",))
    assert "dockerfile, sbatch, host-setup" in str(caught.value.hint)


def test_the_host_script_is_carried_as_it_is() -> None:
    file = render(CPU, Site(), ROWS, host_script="#!/bin/sh\nexit 0\n").files["host-setup.sh"]
    assert (file.text, file.mode) == ("#!/bin/sh\nexit 0\n", 0o755)


def test_the_lock_in_the_tree_is_the_lock() -> None:
    text = render(BLACKWELL, Site(), ROWS).files["stack.lock.yaml"].text
    assert decode(text, "the file", Lock) == BLACKWELL


def test_the_rows_of_a_lock_come_from_the_matrix() -> None:
    matrix = shipped_matrix()
    rows = catalogue(CPU, matrix)
    assert (rows.indexes["pypi"], rows.indexes["pytorch/cpu"]) == (None, "https://download.pytorch.org/whl/cpu")
    assert (rows.framework.smoke, rows.system and rows.system.id) == ("torch.py", "debian12")
    unknown = replace(CPU, stack=replace(CPU.stack, framework="no-such-framework"))
    with pytest.raises(ProvisionerError, match="this matrix does not know"):
        catalogue(unknown, matrix)


# ---------------------------------------------------------------------------------------------------- base images


def test_a_mirrored_base_keeps_its_digest_and_the_label_names_the_original() -> None:
    text = _dockerfile(BLACKWELL, Site(registries={"docker.io": RegistryPrefix("registry.example:5000/hub")}))
    digest = BLACKWELL.stack.image.digest
    assert f"FROM registry.example:5000/hub/library/python:3.12-slim-bookworm@{digest} AS base\n" in text
    assert 'base.name="docker.io/library/python:3.12-slim-bookworm"' in text
    assert f'base.digest="{digest}"' in text


def test_a_cuda_image_takes_the_python_of_its_distribution_or_is_refused() -> None:
    assert "      python3-venv \\\n" in _dockerfile(FORWARD, rows=UBUNTU_ROWS)
    wrong = replace(FORWARD, stack=replace(FORWARD.stack, python="3.12"))
    with pytest.raises(ProvisionerError, match=r"has no Python of its own, and that of ubuntu22.04 is 3.10, not 3.12"):
        _dockerfile(wrong, rows=UBUNTU_ROWS)
    with pytest.raises(ProvisionerError, match="is not known"):
        _dockerfile(FORWARD, rows=replace(UBUNTU_ROWS, system=None))


def test_apt_packages_need_a_system_with_apt() -> None:
    with pytest.raises(ProvisionerError, match=r"apt packages are needed \(git\), and debian12 is not a system with apt"):
        _dockerfile(replace(CPU, apt=("git",)), rows=replace(ROWS, system=ROCKY))


def test_a_compiler_is_lent_to_the_build_stage_only() -> None:
    instructions = _instructions(_dockerfile(DEVEL))
    froms = [rest for name, rest in instructions if name == "FROM"]
    assert froms == [
        "nvidia/cuda:12.6.3-cudnn-devel-ubuntu22.04 AS toolkit",
        "python:3.11-slim-bookworm AS base",
        "base AS build",
        "base",
    ]
    assert 'TORCH_CUDA_ARCH_LIST="7.0"' in _dockerfile(DEVEL)
    assert not [rest for name, rest in instructions if name == "COPY" and "toolkit" in rest]


def test_an_option_that_compiles_brings_a_compiler() -> None:
    assert "      g++ \\\n" in _dockerfile(replace(CPU, options={"torch_compile": "true"}))
    assert "apt-get" not in _dockerfile(replace(CPU, options={"torch_compile": "false"}))


def test_versions_of_apt_packages_that_are_pinned_need_no_ignore() -> None:
    assert "hadolint ignore" not in _dockerfile(replace(CPU, apt=("git=1:2.39.5-0+deb12u2",)))


# ---------------------------------------------------------------------------------------------------- packages


def test_a_hash_locked_set_is_installed_by_its_hashes_alone() -> None:
    assert _pip(BLACKWELL, Site()) == ["--no-deps", "--require-hashes", "--requirement", "/run/requirements.txt"]


def test_pins_without_hashes_say_so() -> None:
    lock = replace(BLACKWELL, pins=replace(BLACKWELL.pins, hashed=False, why_not="the index has none"))
    assert _pip(lock, Site()) == ["--no-deps", "--requirement", "/run/requirements.txt"]
    assert "# Versions without hashes: the index has none.\n" in render(lock, Site(), ROWS).files["requirements.txt"].text
    assert "not checked against hashes: the index has none." in _dockerfile(lock)


def test_without_pins_pip_decides_and_the_reason_is_said() -> None:
    tree = render(CPU, Site(), ROWS).files
    assert "--no-deps" not in tree["Dockerfile"].text
    assert "# Not locked: no package index could be reached.\n" in tree["requirements.txt"].text
    assert tree["requirements.txt"].text.endswith("\ntorch==2.13.0+cpu\n")


def test_mirrors_stand_in_for_the_indexes() -> None:
    assert _pip(VOLTA, SITE)[2:-2] == [
        *("--index-url", "http://mirror.example:3141/root/pypi/+simple/"),
        *("--extra-index-url", "https://mirror.example/pytorch/cu126/"),
        *("--find-links", "https://wheels.example/site/"),
        *("--trusted-host", "mirror.example:3141"),
    ]


def test_a_site_without_indexes_installs_from_its_wheels_alone() -> None:
    none = {"pypi": IndexAddress("none")}
    cut_off = Site(indexes=none, wheels=(WheelPlace("/srv/wheels"),))
    assert _pip(VOLTA, cut_off)[2:-2] == ["--no-index", "--find-links", "/wheels"]
    assert context_folders(VOLTA, cut_off) == (("wheels", "/srv/wheels"), ("project", "src"))
    assert "!wheels\n" in render(VOLTA, cut_off, ROWS).files[".dockerignore"].text
    with pytest.raises(ProvisionerError, match="nothing to install from"):
        _pip(VOLTA, Site(indexes=none))


def test_several_folders_of_wheels_lie_side_by_side() -> None:
    site = Site(indexes={"pypi": IndexAddress("none")}, wheels=(WheelPlace("/srv/a"), WheelPlace("/srv/b")))
    assert _pip(CPU, site)[:-2] == ["--no-index", "--find-links", "/wheels/1", "--find-links", "/wheels/2"]
    assert context_folders(CPU, site) == (("wheels/1", "/srv/a"), ("wheels/2", "/srv/b"))


def test_an_index_that_nobody_knows_is_refused() -> None:
    with pytest.raises(ProvisionerError, match="nobody says where the index pytorch/cpu is"):
        render(CPU, Site(), replace(ROWS, indexes={"pypi": None}))


def test_a_secret_address_reaches_the_build_as_a_secret() -> None:
    site = Site(
        indexes={"pypi": IndexAddress("${SITE_INDEX}")},
        proxies=Proxies(https=Address("${SITE_PROXY}")),
    )
    lock = replace(BLACKWELL, secrets=("netrc",))
    tree = render(lock, site, ROWS).files
    assert build_secrets(lock, site) == ("SITE_INDEX", "SITE_PROXY", "netrc")
    text = tree["Dockerfile"].text
    assert '--index-url "$(cat /run/secrets/SITE_INDEX)" \\\n' in text
    assert "--mount=type=secret,id=netrc,target=/root/.netrc \\\n" in text
    assert text.count("--mount=type=secret,id=SITE_PROXY") == 2  # apt for the compiler, and pip
    assert 'export https_proxy="$(cat /run/secrets/SITE_PROXY)"\n' in tree["site-proxy.sh"].text


def test_the_site_leaves_nothing_in_what_stays() -> None:
    final = _dockerfile(VOLTA, SITE).split("\nFROM base\n")[1]
    assert "example" not in final
    assert "proxy" not in final


# ---------------------------------------------------------------------------------------------------- the image


def test_a_cpu_stack_says_nothing_of_gpus() -> None:
    text = _dockerfile(CPU)
    assert "NVIDIA_" not in text
    assert "It runs on the CPU: no GPU is used." in text
    assert "io.gpu-provisioner.cuda" not in text


def test_a_gpu_stack_on_a_slim_image_says_what_the_toolkit_reads() -> None:
    text = _dockerfile(BLACKWELL)
    assert "NVIDIA_VISIBLE_DEVICES=all" in text
    assert 'NVIDIA_REQUIRE_DRIVER="driver>=580"' in text
    unknown = _dockerfile(replace(BLACKWELL, stack=replace(BLACKWELL.stack, min_driver=None)))
    assert "NVIDIA_REQUIRE_DRIVER" not in unknown
    assert "The driver that it needs is not known." in unknown
    assert "NVIDIA_VISIBLE_DEVICES" not in _dockerfile(FORWARD, rows=UBUNTU_ROWS)  # the CUDA image has its own


def test_the_user_is_a_number_and_the_last_stage_fetches_nothing() -> None:
    text = _dockerfile(VOLTA, SITE)
    final = _instructions(text.split("\nFROM base\n")[1])
    assert ("USER", "10001:0") in final
    assert not [rest for name, rest in final if name == "RUN" and ("pip" in rest or "apt" in rest)]
    assert [name for name, _ in final][-1] == "CMD"


def test_the_label_holds_the_lock_without_its_hashes_and_its_reasons() -> None:
    told = replace(BLACKWELL, stack=replace(BLACKWELL.stack, because=(Because(fact="a page of it", source="a document"),)))
    line = next(line for line in _dockerfile(told).splitlines() if line.startswith("LABEL io.gpu-provisioner.lock="))
    [label] = shlex.split(line.partition("=")[2])
    lock = decode(label, "the label", Lock)
    assert lock.stack == BLACKWELL.stack
    assert lock.pins.why_not == "the hashes are in /opt/provisioner/stack.lock.yaml"
    assert not lock.pins.hashed
    assert [pin.version for pin in lock.pins.packages] == [pin.version for pin in BLACKWELL.pins.packages]


def test_the_head_says_what_is_not_known_and_for_which_machine_it_is_built() -> None:
    note = "flash-attn is not in the data: it goes along as it is"
    arm = replace(CPU, stack=replace(CPU.stack, platform="linux/arm64", notes=(note,)))
    head = _dockerfile(arm).split("\nFROM ")[0].splitlines()
    assert f"# Note: {note}" in head
    assert any(line.startswith("# docker buildx build --platform linux/arm64 -t ") for line in head)
    assert "--platform" not in _dockerfile(CPU)


def test_what_the_image_must_be_stands_beside_the_smoke_script() -> None:
    expected = json.loads(render(BLACKWELL, Site(), ROWS).files["provisioner/expect.json"].text)
    assert (expected["cuda"], expected["gpus"], expected["version"]) == ("13.0", True, "2.13.0")
    assert json.loads(render(CPU, Site(), ROWS).files["provisioner/expect.json"].text)["gpus"] is False


@pytest.mark.parametrize(
    ("version", "name"), [("2.13.0", "torch-2.13.0-cpu"), ("2.14.0.dev20261101+x", "torch-2.14.0.dev20261101-x-cpu")]
)
def test_the_name_of_an_image(version: str, name: str) -> None:
    assert image_name(replace(CPU.stack, version=Version(version))) == name


# ---------------------------------------------------------------------------------------------------- batch scripts


@pytest.mark.parametrize(
    ("slurm", "option", "text"),
    [
        (SlurmSite(), "gres", "gpu:2"),
        (SlurmSite(gpu_type="a100"), "gres", "gpu:a100:2"),
        (SlurmSite(gpu_request="gpus-per-node", gpu_type="a100"), "gpus-per-node", "a100:2"),
        (SlurmSite(gpu_request="gpus"), "gpus", "2"),
    ],
)
def test_gpus_are_asked_for_as_the_site_wants_it(slurm: SlurmSite, option: str, text: str) -> None:
    directives = _directives(_job(site=Site(slurm=slurm), gpus_per_node=2, cpus_per_gpu=8))
    assert directives[option] == text
    assert directives["cpus-per-task"] == "16"


def test_the_options_stand_in_the_order_that_sites_use() -> None:
    assert list(_directives(_job(VOLTA, SITE))) == [
        *("job-name", "nodes", "ntasks", "cpus-per-task", "mem", "gpus-per-node"),
        *("time", "output", "partition", "account", "constraint"),
    ]


@pytest.mark.parametrize("launcher", ["apptainer", "pyxis", "venv"])
def test_a_cpu_job_asks_for_no_gpu_anywhere(launcher: str) -> None:
    text = _job(CPU, launcher=launcher)
    assert not {"gres", "gpus", "gpus-per-node"} & set(_directives(text))
    assert "nvidia" not in text
    assert "--nv" not in text


def test_a_gpu_job_stops_early_where_the_node_shows_no_gpu() -> None:
    assert "if ! nvidia-smi -L; then" in _job()
    assert "nvidia-smi" not in _job(gpus_per_node=0)


def test_modules_come_before_set_u_in_a_login_shell() -> None:
    text = _job(VOLTA, SITE)
    assert text.startswith("#!/bin/bash -l\n")
    assert text.index("module load apptainer/1.4 || exit 1") < text.index("set -euo pipefail")


def test_apptainer() -> None:
    assert _step(_job(mounts=("/data:/data:ro",)))[2:] == [
        *("apptainer", "exec", "--nv", "--no-home", "--bind", "${SLURM_SUBMIT_DIR}:/workspace", "--bind", "/data:/data:ro"),
        *("--pwd", "/workspace", "${SLURM_SUBMIT_DIR}/torch-2.13.0-cu130.sif", "python", "train.py"),
    ]


def test_pyxis() -> None:
    site = Site(slurm=SlurmSite(image_folder="/shared/images"))
    assert _step(_job(site=site, launcher="pyxis", mounts=("/data:/data",), command=()))[2:] == [
        "--container-image=/shared/images/torch-2.13.0-cu130.sqsh",
        "--container-mounts=${SLURM_SUBMIT_DIR}:/workspace,/data:/data",
        *("--container-workdir=/workspace", "--no-container-mount-home", "python", "/opt/provisioner/smoke.py"),
    ]


def test_venv() -> None:
    site = Site(
        indexes={"pypi": IndexAddress("${SITE_INDEX}")},
        wheels=(WheelPlace("/srv/my wheels"),),
        slurm=SlurmSite(image_folder="envs"),
    )
    text = _job(site=site, launcher="venv", command=())
    assert _step(text)[2:] == ["python", "provisioner/smoke.py"]
    assert 'export PATH="${SLURM_SUBMIT_DIR}/envs/torch-2.13.0-cu130/bin:${PATH}"\n' in text
    lines = [
        _shell_words(line.partition(" printf ")[2].removesuffix(" >&2"))[1]
        for line in text.splitlines()
        if line.startswith("  printf '  %s\\n' ")
    ]
    assert lines == [
        "python3.12 -m venv envs/torch-2.13.0-cu130",
        (
            'envs/torch-2.13.0-cu130/bin/pip install --no-deps --require-hashes --index-url "${SITE_INDEX}" '
            "--find-links '/srv/my wheels' -r requirements.txt"
        ),
    ]


def test_the_step_has_its_cpus_on_every_release_of_slurm() -> None:
    assert _step(_job())[:2] == ["srun", "--cpus-per-task=${SLURM_CPUS_PER_TASK:-1}"]


# ---------------------------------------------------------------------------------------------------- a lock that is wrong


def test_every_mistake_of_a_lock_is_named_at_once() -> None:
    first, second = BLACKWELL.pins.packages[:2]
    lock = replace(
        CPU,
        stack=replace(CPU.stack, image=Image(reference="python", flavour="slim", os="debian12", digest="sha256:1")),
        pins=Pins(packages=(replace(first, name="--evil", hashes=("md5:1",)), replace(second, hashes=())), hashed=True),
        apt=("git; reboot",),
        env={"A B": "x", "GOOD": "line\nbreak"},
        secrets=("a/b",),
        command=("a\0",),
        jobs=(
            Job(name="x", gpus_per_node=1, mounts=("/a\u2028b:/c",), command=("a\nb",)),
            Job(name="Same"),
            Job(name="same"),
        ),
    )
    with pytest.raises(LockError) as caught:
        render(lock, Site(), ROWS)
    said = [problem.message for problem in caught.value.problems]
    for start in (
        "image: 'python' is not a reference with a tag",
        "image: 'sha256:1' is not a digest",
        "apt: 'git; reboot' is not the name of a Debian package",
        "env: 'A B' is not the name",
        "env: GOOD has a line break",
        "secrets: 'a/b' is not an id",
        "command: 'a\\x00' contains a NUL",
        "pins: '--evil' '2.13.0' is not a package",
        "pins: --evil: 'md5:1' is not a hash",
        "pins: typing-extensions has no hash",
        "jobs: 2 of them are called same",
        "jobs: 'x': gpus_per_node: it asks for 1 GPUs, and the stack is a CPU build",
        "jobs: 'x': mounts: '/a\\u2028b:/c' has a control character",
        "jobs: 'x': command: 'a\\nb'",
    ):
        assert any(message.startswith(start) for message in said), (start, said)
    assert len(said) == 14
