"""The frozen objects that cross a process or a file. Nothing in here does I/O or knows a server."""
