"""The edges to the world; the only place that imports fabric, docker, pynvml, subprocess and sockets."""
