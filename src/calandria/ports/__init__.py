"""Ports: the protocols and records between the runtime and its adapters."""
