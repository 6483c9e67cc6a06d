"""The plan of a host set-up: what of a playbook is still to be done on a host, and what forbids it. Pure."""
