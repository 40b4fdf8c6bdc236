"""The runtime: executes runs under leases, in threads and on event loops."""
