"""What every row of the matrix says of itself, and the words that rows of several sections share."""

from __future__ import annotations

from typing import Literal

#: How far a row is verified: read from a package index or inside a published wheel; read in the named document; computed from
#: those; from a third party; remembered. A row of level `recall` may inform, but is never the only reason to refuse.
Verified = Literal["metadata", "source", "derived", "secondary", "recall"]
#: `seen` in use, `named` by a document but not seen, `no`: known not to exist.
Published = Literal["seen", "named", "no"]
Platform = Literal["linux/amd64", "linux/arm64"]
#: Who brings the CUDA libraries: the wheels pull them in, or the system (the image) must have them.
CudaFrom = Literal["wheels", "system"]
