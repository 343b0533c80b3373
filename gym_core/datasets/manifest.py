"""`X_manifest.json`: what a prepare script says about the rows of X.jsonl. It may hold more than what is read here."""

from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

MAX_MANIFEST_BYTES = 1 << 20
_MAX_WARNINGS = 5


class _Manifest(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    warnings: list[str] = []


def manifest_path(jsonl_fpath: Path) -> Path:
    return jsonl_fpath.with_name(f"{jsonl_fpath.stem}_manifest.json")


def manifest_warnings(jsonl_fpath: Path) -> list[str]:
    """Its `warnings`, the first few; none where there is no manifest, or one that is not like this."""
    try:
        with manifest_path(jsonl_fpath).open("rb") as file:
            return _Manifest.model_validate_json(file.read(MAX_MANIFEST_BYTES)).warnings[:_MAX_WARNINGS]
    except (OSError, ValidationError):
        return []
