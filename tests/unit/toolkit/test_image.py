"""The container image is built by our own builder, from our own pins; the builder needs nothing but Python for it."""

import re
import subprocess
import sys
from pathlib import Path

from gym_core.sandbox.toolkit.pins import image_folder, load_pins

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = (image_folder() / "Dockerfile").read_text("utf-8")


def _modules_of_the_builder() -> set[str]:
    """What importing the builder loads of ours. `-S` hides every installed package, so that needing one fails."""
    program = (
        f"import sys; sys.path.insert(0, {str(ROOT)!r}); import gym_core.cli.sandbox\n"
        "print('\\n'.join(m.__file__ for n, m in sys.modules.items() if n.split('.')[0] == 'gym_core'))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True)
    return {str(Path(line).relative_to(ROOT)) for line in done.stdout.splitlines()}


def test_the_build_stage_copies_every_module_that_the_builder_imports() -> None:
    copied = [word for line in re.findall(r"(?m)^COPY (?!--)(.*)$", DOCKERFILE) for word in line.split()[:-1]]
    for module in _modules_of_the_builder():
        assert any(module == source or (source.endswith("/") and module.startswith(source)) for source in copied), (
            module
        )
    assert {"sandbox_image/pins.toml", "sandbox_image/requirements.lock"} <= set(copied)


def test_the_dockerfile_runs_the_builder_and_states_no_version_and_no_hash_of_its_own() -> None:
    pins = load_pins("x86_64")
    assert "python3 -m gym_core.cli.sandbox build" in DOCKERFILE
    assert not re.search(r"[0-9a-f]{40}", DOCKERFILE)
    assert pins.opencode.version not in DOCKERFILE
    assert not re.search(r"\b(npm|pip) install\b", DOCKERFILE)


def test_the_image_runs_as_an_ordinary_user_without_set_user_id_programs() -> None:
    assert "USER 1000:1000" in DOCKERFILE
    assert "-perm /6000" in DOCKERFILE
