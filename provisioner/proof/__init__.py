"""The proof: images are built and smoke-tested."""
