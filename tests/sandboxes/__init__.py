"""The sandbox providers that the suites run over: one entry each, with what it cannot do and why."""
