"""`X.jsonl.prepared`: what a prepared file was made of, so that a change of any of it is seen."""

from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from gym_core.cli.prepare_script import PrepareScript
from gym_core.types.wire import JsonObject, Wire

if TYPE_CHECKING:
    from gym_core.config.datasets import SelectedDataset


class Stamp(Wire):
    code_sha256: str
    """Of the prepare script and of what lies beside it."""
    prepare_args: JsonObject
    source: str = ""
    """What the script says that it depends on besides; "" for nothing, or for whatever was used before."""


def current_stamp(selected: "SelectedDataset") -> Stamp:
    """Of the file as it would be made now. The dataset has a script."""
    assert selected.script is not None
    script, args = PrepareScript(selected.script, dataset=selected.dataset.name), selected.dataset.prepare_args
    return Stamp(code_sha256=script.code_sha256(), prepare_args=args, source=script.fingerprint(dict(args)))


def changes(selected: "SelectedDataset") -> list[str]:
    """What is no longer as it was when the file was made: words for people. None where nobody knows how it was made."""
    if selected.script is None or not stamp_path(selected).is_file():
        return []
    try:
        before = Stamp.model_validate_json(stamp_path(selected).read_bytes())
    except ValidationError:
        return ["the way it is prepared"]
    now = current_stamp(selected)
    changed = {
        "its script": now.code_sha256 != before.code_sha256,
        "its prepare_args": now.prepare_args != before.prepare_args,
        "its source": now.source not in ("", before.source),
    }
    return [what for what, is_changed in changed.items() if is_changed]


def write_stamp(selected: "SelectedDataset") -> None:
    stamp_path(selected).write_text(current_stamp(selected).model_dump_json(indent=2) + "\n", encoding="utf-8")


def stamp_path(selected: "SelectedDataset") -> Path:
    return selected.path.with_name(selected.path.name + ".prepared")
