"""Programs that keep the repository's data; no part of the package."""
