"""A small house of config files in a temporary folder, and the blocks its servers read."""

from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

from pydantic import Field, SecretStr

from gym_core.config.compose import Composed, compose_config
from gym_core.config.roots import Roots
from gym_core.config.schema import ServerInstance, ServerRef
from gym_core.errors import ConfigError
from gym_core.types.wire import Secret, Wire


class PolicyBlock(Wire):
    base_url: str
    api_key: Secret = SecretStr("")
    timeout_s: float = Field(default=60.0, gt=0)
    max_output_tokens: int = 1024
    headers: dict[str, SecretStr] = {}


class GraderBlock(Wire):
    sandbox_provider: str | None = None
    sandbox_model_server: ServerRef | None = None
    judge: str = "llm"


class AgentBlock(Wire):
    timeout_s: float = Field(default=1800.0, gt=0)


class SandboxBlock(Wire):
    api_key: SecretStr | None = None


BLOCKS: dict[str, type[Wire]] = {"vllm_model": PolicyBlock, "grader": GraderBlock, "player": AgentBlock}


def block_class(server: ServerInstance) -> type[Wire]:
    return BLOCKS[server.implementation]


def provider_class(provider: str) -> type[Wire]:
    return SandboxBlock


POLICY = """
    policy_model:
      responses_api_models:
        vllm_model:
          base_url: ${policy_base_url}
          api_key: ${policy_api_key}
    """
BENCHMARK = """
    config_paths:
      - resources_servers/grader/configs/grader.yaml
    puzzles:
      environment_servers:
        single_agent_turn_legacy:
          resources_server: {type: resources_servers, name: grader}
          agent_server: {type: responses_api_agents, name: player}
          datasets:
            - {name: puzzles, type: benchmark, jsonl_fpath: benchmarks/puzzles/data/puzzles.jsonl}
    """
GRADER = """
    grader:
      resources_servers:
        grader:
          sandbox_provider: sandbox
          sandbox_model_server: {type: responses_api_models, name: policy_model}
    player:
      responses_api_agents:
        player:
          timeout_s: 900
    sandbox:
      local: {}
    """


@dataclass
class House:
    folder: Path

    @property
    def roots(self) -> Roots:
        return Roots((self.folder,))

    def write(self, path: str, text: str) -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text))
        return file

    def furnish(self) -> None:
        """A benchmark `puzzles` with a grader, a player and a policy."""
        self.write("benchmarks/puzzles/config.yaml", BENCHMARK)
        self.write("resources_servers/grader/configs/grader.yaml", GRADER)
        self.write("model_servers/vllm_model/configs/vllm_model.yaml", POLICY)
        (self.folder / "agent_servers" / "player").mkdir(parents=True)

    def compose(self, *overrides: str, files: tuple[str, ...] = ("main.yaml",)) -> Composed:
        return compose_config(files, overrides, roots=self.roots)

    def puzzles(self, *overrides: str) -> Composed:
        files = ("benchmarks/puzzles/config.yaml", "model_servers/vllm_model/configs/vllm_model.yaml")
        given = ("++policy_base_url=http://127.0.0.1:8000/v1", "++policy_api_key=sk-very-secret")
        return compose_config(files, (*given, *overrides), roots=self.roots)


def problems_of(error: ConfigError) -> str:
    return "\n".join(error.problems)
