"""Write requirements.lock anew: the SHA-256 of each wheel of each package in pins.toml, for every Python version and
machine named there. Asks the package index that pip is configured for.

    python sandbox_image/relock.py
"""

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

FOLDER = Path(__file__).parent
GLIBC_MINORS = (28, 27, 17)
"""manylinux tags that are accepted; 2.28 is RHEL 8, older than anything OpenCode's own binary runs on."""


def wheel_hashes(packages: list[str], python_version: str, machine: str) -> dict[str, str]:
    """Requirement to SHA-256, as pip would install them there."""
    tags = [f"manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS] + [f"manylinux2014_{machine}"]
    abi = "cp" + python_version.replace(".", "")
    argv = [
        *(
            sys.executable,
            "-m",
            "pip",
            "install",
            "--dry-run",
            "--quiet",
            "--report",
            "-",
            "--ignore-installed",
            "--no-deps",
        ),
        *("--only-binary", ":all:", "--target", "unused", "--implementation", "cp", "--abi", abi, "--abi", "abi3"),
        *("--python-version", python_version, *(word for tag in tags for word in ("--platform", tag)), *packages),
    ]
    environment = {**os.environ, "PIP_CONSTRAINT": os.devnull}
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return {
        f"{item['metadata']['name']}=={item['metadata']['version']}": item["download_info"]["archive_info"]["hashes"][
            "sha256"
        ]
        for item in json.loads(done.stdout)["install"]
    }


def main() -> None:
    python = tomllib.loads((FOLDER / "pins.toml").read_text("utf-8"))["python"]
    hashes: dict[str, set[str]] = {package: set() for package in python["packages"]}
    for version in python["versions"]:
        for machine in python["machines"]:
            for package, sha256 in wheel_hashes(python["packages"], version, machine).items():
                hashes[package].add(sha256)
    lines = ["# Written by relock.py from pins.toml; not to be edited."]
    for package in sorted(hashes):
        lines.append(" \\\n    ".join([package, *(f"--hash=sha256:{sha256}" for sha256 in sorted(hashes[package]))]))
    (FOLDER / "requirements.lock").write_text("\n".join(lines) + "\n", "utf-8")


if __name__ == "__main__":
    main()
