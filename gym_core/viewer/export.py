"""One HTML file with everything in it: the page, the rows, chosen rollouts and their pictures. Opens without a server.

What runs in it is pinned by hash in its content-security policy; what it shows is JSON in a block that no browser runs.
"""

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from gym_core.errors import ConfigError
from gym_core.types.wire import JsonObject
from gym_core.viewer.app import run_list
from gym_core.viewer.assets import page_files
from gym_core.viewer.rollout import read_rollout
from gym_core.viewer.run import ViewedRun
from gym_core.viewer.shelf import Shelf

INLINE = "inline:"
"""What stands before the hash in a picture's URL; the page finds the bytes in the file itself."""
TEXT_CHARACTERS = 100_000
"""Of each text; there is no server to ask for more."""
_ALL_TURNS = 100_000
_ENDINGS = (".html", ".htm")
_IMPORT = re.compile(r"^import [^;]*? from \"\./([a-z_]+\.js)\";\n", re.MULTILINE | re.DOTALL)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class|let) )", re.MULTILINE)
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


@dataclass(frozen=True)
class ExportLimits:
    image_bytes: int = 64 << 20
    """Of all pictures together, before base64."""
    text_bytes: int = 128 << 20
    """Of all rollouts together, as JSON."""


@dataclass
class PageReport:
    runs: int = 0
    rollouts: int = 0
    images: int = 0
    bytes: int = 0
    warnings: list[str] = field(default_factory=list)


def check_page_path(output: Path) -> None:
    """Raises ConfigError: a page has a page's name, and is written over nothing."""
    if output.suffix.lower() not in _ENDINGS:
        raise ConfigError(
            f"view: --export {output}: not the name of a page; give OUT.html, and the runs after it: "
            "`gym view --export OUT.html PATH...`"
        )
    if os.path.lexists(output):
        raise ConfigError(f"view: --export: {output} is there already; choose another name (nothing is overwritten)")


def export_page(shelf: Shelf, output: Path, rollouts: Sequence[str], limits: ExportLimits) -> PageReport:
    """Writes the file, and the folders that it lies in. Raises ConfigError, also for one that is there; OSError."""
    check_page_path(output)
    report = PageReport()
    data = _collect(shelf, rollouts, limits, report)
    page = make_page(data)
    output.parent.mkdir(parents=True, exist_ok=True)
    partial = output.with_name(f".{output.name}.part")
    try:
        partial.write_bytes(page)
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)
    report.bytes = len(page)
    return report


def make_page(data: JsonObject) -> bytes:
    """The HTML around the data."""
    files = page_files()
    script = bundle({name: file.content.decode() for name, file in files.items() if name.endswith(".js")}, "main.js")
    style = files["style.css"].content.decode()
    policy = (
        f"default-src 'none'; script-src {_hash_of(script)}; style-src {_hash_of(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
    # msgspec, because it refuses what is no text: half a surrogate pair would make the file unreadable.
    content = msgspec.json.encode(data).decode().translate(_ESCAPES)
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="referrer" content="no-referrer">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>gym view</title>'
        f'<style>{style}</style></head><body><div id="app"></div>'
        f'<script type="application/json" id="data">{content}</script>'
        f'<script type="module">{script}</script></body></html>\n'
    ).encode()


def bundle(modules: dict[str, str], entry: str) -> str:
    """Modules as one script, each after those that it imports. They share one scope: names are unique over all of them,
    imports have one form, and nothing is renamed (a test holds the page to that)."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name in done:
            return
        done[name] = ""  # circles are cut here: functions may use each other whatever the order
        for wanted in _IMPORT.findall(modules[name]):
            add(wanted)
        done[name] = done.pop(name) or _EXPORT.sub("", _IMPORT.sub("", modules[name]))

    add(entry)
    return "\n".join(done.values())


def _hash_of(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _collect(shelf: Shelf, wanted: Sequence[str], limits: ExportLimits, report: PageReport) -> JsonObject:
    runs = shelf.runs()
    for run in runs:
        run.refresh()
    found = {id for run in runs for id in run.rollout_ids()}
    if missing := [id for id in wanted if id not in found]:
        raise ConfigError([f"view: --rollout {id!r}: no such rollout in {len(runs)} runs" for id in missing])
    pictures = _Pictures(limits.image_bytes)
    text_left = limits.text_bytes
    rollouts: dict[str, JsonObject] = {}
    for run in runs:
        rollouts[run.id] = {}
        for id in run.rollout_ids():
            if wanted and id not in wanted:
                continue
            view, size = _view(run, id, report)
            if view is None:
                continue
            if size > text_left:
                report.warnings.append(f"{run.files.rollouts}: no room for all rollouts; choose some with --rollout")
                break
            text_left -= size
            rollouts[run.id][id] = view
            report.rollouts += 1
            pictures.add(run, [picture["sha256"] for picture in view["pictures"] if picture["url"]])
    report.runs, report.images = len(runs), len(pictures.urls)
    if pictures.left_out:
        report.warnings.append(f"{pictures.left_out} pictures are left out: more than {limits.image_bytes >> 20} MiB")
    return {
        "version": 1,
        "runs": run_list(runs).model_dump(mode="json"),
        "details": {run.id: run.detail().model_dump(mode="json") for run in runs},
        "rows": {run.id: run.rows(0, _inline_url, limit=_ALL_TURNS).model_dump(mode="json") for run in runs},
        "rollouts": rollouts,
        "images": pictures.urls,
    }


def _inline_url(sha256: str) -> str:
    return INLINE + sha256


def _view(run: ViewedRun, id: str, report: PageReport) -> tuple[JsonObject | None, int]:
    """The rollout as JSON and its size in bytes; None for one that cannot be read."""
    try:
        reading = read_rollout(run, id, _inline_url, clip_limit=TEXT_CHARACTERS)
    except (OSError, ValueError) as error:
        report.warnings.append(f"{id}: left out: {str(error)[:300]}")
        return None, 0
    before, after = run.neighbours(id)
    view = reading.view(before, after, turns=_ALL_TURNS)
    return view.model_dump(mode="json"), len(view.model_dump_json())


@dataclass
class _Pictures:
    bytes_left: int
    urls: dict[str, str] = field(default_factory=dict)
    """SHA-256 to data URL."""
    left_out: int = 0

    def add(self, run: ViewedRun, hashes: Sequence[str]) -> None:
        for sha256 in hashes:
            if sha256 in self.urls:
                continue
            try:
                url = run.assets.data_url(sha256)
            except (OSError, ValueError):
                continue
            size = len(url) * 3 // 4
            if size > self.bytes_left:
                self.left_out += 1
                continue
            self.bytes_left -= size
            self.urls[sha256] = url
