"""A sandbox whose process 1 is ours: one protocol for commands and files, whoever starts that process."""
