"""Every test runs in folders of its own, with no setting of the person who runs it; each lane says its minutes."""

from __future__ import annotations

import collections
import os
import signal
import threading
from typing import TYPE_CHECKING, Final, NoReturn

import pytest

from tests.testbed.require import VARIABLE

if TYPE_CHECKING:
    from pathlib import Path

# A test belongs to the first of these whose fixtures it uses, unless a `lane` marker says otherwise.
_LANES: Final = (
    ("engine", {"engine", "base_image", "docker_host", "local_engine"}),
    ("slurm", {"slurm"}),
    ("ssh", {"sshd"}),
    ("packages", {"registry", "wheels"}),
)
_told_to_end: Final = threading.Event()
_lane_of: Final[dict[str, str]] = {}
_seconds: Final[collections.defaultdict[str, float]] = collections.defaultdict(float)


@pytest.fixture(autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home: Path | None = None
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        home = home or tmp_path_factory.mktemp("xdg")
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    for name in os.environ:
        if name.startswith("PROVISIONER_") and name != VARIABLE:
            monkeypatch.delenv(name)


def pytest_configure() -> None:
    """End like Ctrl-C when told to end, so that fixtures stop what they started."""

    def interrupt(*_: object) -> NoReturn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # a second one would cut the stopping short
        _told_to_end.set()
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Note which lane each test counts towards."""
    for item in items:
        marker = item.get_closest_marker("lane")
        used = set(getattr(item, "fixturenames", ()))
        default = item.path.relative_to(item.config.rootpath / "tests").parts[0]
        _lane_of[item.nodeid] = marker.args[0] if marker else next((name for name, uses in _LANES if uses & used), default)


def pytest_runtest_logfinish() -> None:
    """End after the test that was told to: a verb under test takes an interrupt for its own, and only its test would end."""
    if _told_to_end.is_set():
        pytest.exit("told to end", returncode=130)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the seconds of set-up, call and tear-down."""
    _seconds[_lane_of.get(report.nodeid, "other")] += report.duration


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say the minutes of each lane."""
    lanes = ", ".join(f"{lane} {seconds / 60:.1f}" for lane, seconds in sorted(_seconds.items()))
    if lanes:
        terminalreporter.write_line(f"minutes by lane: {lanes}")
