"""Compare a finished toolkit with its manifest, and its programs with the pins."""

from pathlib import Path

from gym_core.sandbox.toolkit.manifest import Entry, read_manifest, scan
from gym_core.sandbox.toolkit.pins import Pins, load_pins


def verify(path: Path) -> list[str]:
    """Every difference, in words; empty when nothing was changed, removed or added. Reads every file: about 1 s."""
    try:
        manifest = read_manifest(path)
    except (OSError, ValueError) as cause:
        return [f"{path}: no usable manifest: {cause}"]
    found = scan(path)
    problems = [f"{path / name}: missing" for name in manifest.entries.keys() - found.keys()]
    problems += [f"{path / name}: was added" for name in found.keys() - manifest.entries.keys()]
    for name in manifest.entries.keys() & found.keys():
        problems += [f"{path / name}: {change}" for change in _changes(manifest.entries[name], found[name])]
    return sorted(problems) + _against_pins(path, found, load_pins())


def _changes(expected: Entry, found: Entry) -> list[str]:
    if expected.kind != found.kind:
        return [f"was a {expected.kind}, is a {found.kind}"]
    changes = []
    if expected.mode != found.mode:
        changes.append(f"mode was {expected.mode:04o}, is {found.mode:04o}")
    if expected.content != found.content:
        word = "sha256" if expected.kind == "file" else "target"
        changes.append(f"{word} was {expected.content}, is {found.content}")
    return changes


def _against_pins(path: Path, found: dict[str, Entry], pins: Pins) -> list[str]:
    """A manifest written by somebody else does not make another program ours."""
    programs = {"bin/opencode": pins.opencode, "bin/rg": pins.ripgrep}
    return [
        f"{path / name}: is not the pinned program of {pin.spec} (sha256 {pin.binary_sha256})"
        for name, pin in programs.items()
        if name not in found or found[name].content != pin.binary_sha256
    ]
