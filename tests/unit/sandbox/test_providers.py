"""How a config block names its sandbox provider."""

from pathlib import Path

import pytest

from gym_core.errors import ConfigError
from gym_core.sandbox.contract import SandboxSpec
from gym_core.sandbox.labelled import LabelledProvider
from gym_core.sandbox.providers import SandboxConfig, open_provider, provider_class
from gym_core.sandbox.providers.local import LocalSandboxConfig
from gym_core.types.wire import JsonObject
from tests.fakes.sandbox import FakeProvider


def test_a_block_names_one_provider_and_its_settings() -> None:
    config = SandboxConfig.parse({"local": {"max_memory_mib": 4096}, "default_metadata": {"team": "eyes"}})
    assert (config.provider, config.default_metadata) == ("local", {"team": "eyes"})
    assert config.settings == LocalSandboxConfig(max_memory_mib=4096)


def test_a_provider_without_settings_has_its_defaults() -> None:
    assert SandboxConfig.parse({"local": None}).settings == LocalSandboxConfig()
    assert open_provider({"local": {}}).name == "local"


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ({}, "sandbox: needs one provider, has none"),
        ({"local": {}, "other": {}}, "sandbox: needs one provider, has 'local', 'other'"),
        ({"locl": {}}, "sandbox.locl: no sandbox provider 'locl'; did you mean 'local'?"),
        ({"firecracker": {}}, "no sandbox provider 'firecracker'; known: "),
        ({"local": {"max_memory": 1}}, "sandbox.local.max_memory: unknown field; did you mean 'max_memory_mib'?"),
        ({"local": {"max_memory_mib": 0}}, "sandbox.local.max_memory_mib: 0 is not > 0"),
        ({"local": {}, "default_metadata": {"a": []}}, "default_metadata"),
    ],
)
def test_mistakes_name_their_place_and_the_nearest_word(block: JsonObject, complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        SandboxConfig.parse(block)
    assert complaint in str(caught.value)


async def test_default_metadata_is_on_every_sandbox_under_its_owner_s(tmp_path: Path) -> None:
    fake = FakeProvider()
    provider = LabelledProvider(fake, {"team": "eyes", "episode": "none"})
    await provider.create("box", SandboxSpec(metadata={"episode": "e-a0"}))
    assert fake.sandboxes["box"].spec.metadata == {"team": "eyes", "episode": "e-a0"}
    opened = open_provider({"local": {"state_dir": str(tmp_path)}, "default_metadata": {"team": "eyes"}})
    assert isinstance(opened, LabelledProvider)
    assert (opened.name, (await opened.sweep()).kept) == ("local", 0)


def test_the_class_of_a_provider_s_settings_is_found_by_name() -> None:
    assert provider_class("local") is LocalSandboxConfig
    with pytest.raises(ConfigError, match="^no sandbox provider 'dokcer'; did you mean 'docker'"):
        provider_class("dokcer")


@pytest.mark.parametrize("provider", ["local", "docker"])
def test_a_state_folder_is_absolute_and_ours_or_free(provider: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for name, files in {"taken": "notes", "half": "docker", "ours": "owners/1", "shared": "docker/boxes/b"}.items():
        (tmp_path / name / files).mkdir(parents=True)
        (tmp_path / name / "more").touch()
    for wrong, said in {
        "boxes": "is not absolute",
        "": "is not absolute",
        f"{tmp_path}/file": "is, or is below, a file",
        f"{tmp_path}/file/boxes": "is, or is below, a file",
        f"{tmp_path}/taken": "with other things in it",
        f"{tmp_path}/half": "with other things in it",
    }.items():
        with pytest.raises(ConfigError, match=f"sandbox.{provider}.state_dir: .*{said}"):
            SandboxConfig.parse({provider: {"state_dir": wrong}})
    (tmp_path / "private").mkdir(mode=0o700)
    (tmp_path / "private/head.log").touch()
    for right in ("ours", "shared", "new/er", "private"):
        SandboxConfig.parse({provider: {"state_dir": f"{tmp_path}/{right}"}})
