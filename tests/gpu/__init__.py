"""The checks that need a real GPU: `python3 -m tests.gpu`, with what is there. No pytest, no docker, no network, five minutes."""
