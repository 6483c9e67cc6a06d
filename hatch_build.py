"""The wheel's build hook: adds the compiled form of compat_matrix.yaml.

The name carries the SHA-256 of the YAML text it was made from, so a reader that hashes the text it has finds exactly
the JSON that belongs to it, or none.
"""

import hashlib
import importlib
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class MatrixHook(BuildHookInterface):  # type: ignore[type-arg]  # its parameter, the builder's configuration, has no public type
    """Compile the matrix with the very function that the package compiles it with in a checkout."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write provisioner/data/compat_matrix.<sha256>.json into a wheel; put no copies beside an editable install."""
        self._scratch = Path(tempfile.mkdtemp(prefix="gpu-provisioner-build-"))
        if version == "editable":
            # The checkout's own files are read. Hatchling would copy the forced files into site-packages, where they
            # go stale; an empty folder in their stead is how to say "none".
            build_data["force_include_editable"] = {str(self._scratch): "provisioner/data"}
            return
        text = (Path(self.root) / "compat_matrix.yaml").read_text(encoding="utf-8")
        compiled = self._scratch / "compat_matrix.json"
        compiled.write_text(self._compile(text), encoding="utf-8")
        name = f"compat_matrix.{hashlib.sha256(text.encode()).hexdigest()}.json"
        build_data["force_include"][str(compiled)] = f"provisioner/data/{name}"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:  # noqa: ARG002  # hatchling's signature
        """Remove the scratch folder; by now its file is in the wheel."""
        shutil.rmtree(self._scratch, ignore_errors=True)

    def _compile(self, text: str) -> str:
        # provisioner.stack.compiled.compile_json(text: str) -> str: the build environment has only hatchling and PyYAML,
        # so neither that module nor what it imports may need more at module level.
        sys.path.insert(0, self.root)
        try:
            return str(importlib.import_module("provisioner.stack.compiled").compile_json(text))
        finally:
            sys.path.remove(self.root)
