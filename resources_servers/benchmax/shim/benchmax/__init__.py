"""Stands in for the package `benchmax` where that is not installed: the names that a BaseEnv-style class imports.

Only what a class needs to be defined and to be called by this gym: no chat loop, no client, no launcher. Written from
the published contract; the folder is put at the end of the import path, so that an installed `benchmax` is used instead
(docs/decisions/014-benchmax-classes-unchanged.md).
"""
