"""The real parts that tests start on loopback and stop again: engine, registry, sshd, Slurm, a package index.

Each module has one part, as a context manager that owns a folder, its processes and nothing else. Fixtures are in
tests/integration/conftest.py; `python -m tests.testbed` fetches what the parts need.
"""
