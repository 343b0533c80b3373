"""Sandboxes: the contract, the providers that make them, and leases that lend one to another server."""
