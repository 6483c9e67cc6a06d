"""What is known of a host: `HostFacts`, and `FACTS`, one row for each fact with its command and its pure parser.

A fact is a command and a parser; the parser never sees the host. Every field is a `Seen`: a host without a driver answers None,
a host that could not be asked is unseen with the reason.
"""

from __future__ import annotations

from provisioner.facts.files import facts_data, facts_json, read_facts
from provisioner.facts.records import DriverFact, EngineFact, GpuFact, HostFacts, SystemFact
from provisioner.facts.smi import gpus_from_nvidia_smi
from provisioner.facts.table import FACTS, Fact, facts_of

__all__ = [
    "FACTS",
    "DriverFact",
    "EngineFact",
    "Fact",
    "GpuFact",
    "HostFacts",
    "SystemFact",
    "facts_data",
    "facts_json",
    "facts_of",
    "gpus_from_nvidia_smi",
    "read_facts",
]
