"""The pins, the lock beside them, and what is said when one is missing."""

import re
import shutil
from pathlib import Path

import pytest

from gym_core.errors import ConfigError
from gym_core.sandbox.toolkit.pins import image_folder, load_pins


def test_the_pins_name_the_opencode_that_the_readme_promises() -> None:
    pins = load_pins("x86_64")
    assert pins.opencode.spec == "opencode-linux-x64@1.17.11"
    assert {package.split("==")[0] for package in pins.python_packages} == {
        *("av", "matplotlib", "numpy", "opencv-python-headless", "pillow", "scipy"),
        *("contourpy", "cycler", "fonttools", "kiwisolver", "packaging", "pyparsing", "python-dateutil", "six"),
    }


def test_a_machine_without_pins_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"no pinned OpenCode for 'riscv64' machines, only for: x86_64"):
        load_pins("riscv64")


def test_a_line_that_is_missing_is_named(tmp_path: Path) -> None:
    folder = _copy(tmp_path)
    pins = folder / "pins.toml"
    pins.write_text(re.sub(r"(?m)^wheel_sha256 = .*$", "", pins.read_text("utf-8")), "utf-8")
    with pytest.raises(ConfigError, match="'wheel_sha256' is missing for 'x86_64'"):
        load_pins("x86_64", folder)


@pytest.mark.parametrize("name", ["pins.toml", "requirements.lock"])
def test_a_change_to_pins_or_lock_changes_the_digest(tmp_path: Path, name: str) -> None:
    folder = _copy(tmp_path)
    before = load_pins("x86_64", folder).digest
    with (folder / name).open("a") as file:
        file.write("# a word\n")
    assert load_pins("x86_64", folder).digest != before


def test_the_lock_holds_each_package_for_each_python_and_machine_and_no_address() -> None:
    pins = load_pins("x86_64")
    text = pins.lock.read_text("utf-8")
    locked = dict(re.findall(r"(?m)^(\S+==\S+)((?: \\\n    --hash=sha256:[0-9a-f]{64})+)$", text))
    assert set(locked) == set(pins.python_packages)
    machines = 2  # x86_64 and aarch64
    one_for_every_version = {"av", "opencv-python-headless"}
    pure = {"cycler", "packaging", "pyparsing", "python-dateutil", "six"}
    for package, hashes in locked.items():
        name = package.split("==")[0]
        built = machines if name in one_for_every_version else machines * len(pins.python_versions)
        expected = 1 if name in pure else built
        assert hashes.count("--hash=") == expected, package
    assert "//" not in text


def _copy(folder: Path) -> Path:
    return Path(shutil.copytree(image_folder(), folder / "sandbox_image"))
