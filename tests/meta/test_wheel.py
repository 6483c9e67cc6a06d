"""The built wheel, not only the checkout: what it contains, and that it works with no checkout near."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Where the top level of the checkout lies inside the package (pyproject.toml, force-include).
INSIDE = ("compat_matrix.yaml", "examples", "playbooks", "templates")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel made from the source distribution, as an index would get it."""
    folder = tmp_path_factory.mktemp("dist")
    argv = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment that holds nothing but the wheel; its dependencies come from this environment."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=False)
    argv = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(folder / "bin" / "python"),
        "install",
        "--quiet",
        "--no-deps",
        str(wheel),
    ]
    subprocess.run(argv, check=True, capture_output=True)
    return folder / "bin" / "provisioner"


def _shipped() -> dict[str, Path]:
    """Each file of the checkout that belongs into the wheel, by its name there."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\0")
    names = {name: ROOT / name for name in listed if name.startswith("provisioner/")}
    return names | {f"provisioner/data/{name}": ROOT / name for name in listed if name.split("/")[0] in INSIDE}


def test_the_wheel_contains_the_checkout_byte_for_byte(wheel: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no git checkout to compare with")
    with zipfile.ZipFile(wheel) as archive:
        inside = {name: archive.read(name) for name in archive.namelist() if ".dist-info/" not in name}
    (compiled,) = [name for name in inside if name.endswith(".json")]
    assert compiled.startswith("provisioner/data/compat_matrix.")
    del inside[compiled]
    assert inside == {name: path.read_bytes() for name, path in _shipped().items()}


def test_the_installed_wheel_works_with_no_checkout_near(installed: Path, tmp_path: Path) -> None:
    dependencies = os.pathsep.join(entry for entry in sys.path if entry.endswith("site-packages"))
    site = tmp_path / "site.yaml"
    site.write_text('format: 1\nindexes: {pypi: "http://127.0.0.1:9/", "pytorch/*": "http://127.0.0.1:9/*/"}\n')
    env = {**os.environ, "PYTHONPATH": dependencies, "UV_HTTP_RETRIES": "0"}

    def run(*arguments: str) -> str:
        done = subprocess.run([str(installed), *arguments], cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    where = subprocess.run(
        [str(installed.with_name("python")), "-c", "import provisioner; print(provisioner.__file__)"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert str(installed.parents[1]) in where.stdout, "it is the wheel that runs, and no checkout"
    assert "cu128" in run("resolve", "torch==2.9.1", "--gpu", "h100", "--driver", "535.183.01", "--offline")
    run("lock", "torch==2.9.1", "--gpu", "h100", "--driver", "535.183.01", "--offline", "-o", "stack.lock.yaml")
    run("render", "stack.lock.yaml", "--to", "tree")
    run("up", "--site", str(site), "--to", "out")
    for name in ("tree/Dockerfile", "out/Dockerfile", "out/job.sbatch", "out/host-setup.sh", "out/report.md"):
        assert (tmp_path / name).is_file()
    assert not list((tmp_path / "out").rglob("*.tmp"))
