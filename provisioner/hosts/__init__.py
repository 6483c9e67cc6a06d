"""Hosts: inventory, probe, playbooks, plans."""
