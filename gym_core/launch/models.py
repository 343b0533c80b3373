"""Which model servers play and judge in an environment, and what their endpoints charge."""

from gym_core.config.blocks import CheckedConfig
from gym_core.config.roots import ServerType
from gym_core.config.schema import EnvironmentConfig
from gym_core.launch.identity import references
from gym_core.servers.agent import AgentServerConfig
from gym_core.servers.model.config import ModelServerConfig
from gym_core.servers.resources import ResourcesServerConfig
from gym_core.types.cost import RunPrices, TokenPrices


def policy_server(checked: CheckedConfig, environment: EnvironmentConfig) -> str | None:
    """Name of the model server that the agent asks; None while the agent's block is wrong."""
    agent = checked.blocks.get(environment.agent_server.name)
    return agent.model_server.name if isinstance(agent, AgentServerConfig) else None


def judge_server(checked: CheckedConfig, environment: EnvironmentConfig) -> str | None:
    """Name of the first model server that the resources server's block refers to, but for the one that sandboxes may
    reach. None where no model grades."""
    block = checked.blocks.get(environment.resources_server.name)
    if not isinstance(block, ResourcesServerConfig):
        return None
    fields = block.model_dump(mode="json", exclude={"sandbox_model_server"})
    models = (name for name in references(fields) if _is_model(checked, name))
    return next(models, None)


def environment_prices(checked: CheckedConfig, environment: EnvironmentConfig) -> RunPrices:
    return RunPrices(
        policy=_prices(checked, policy_server(checked, environment)),
        judge=_prices(checked, judge_server(checked, environment)),
    )


def _is_model(checked: CheckedConfig, name: str) -> bool:
    server = checked.run.servers.get(name)
    return server is not None and server.type is ServerType.MODEL


def _prices(checked: CheckedConfig, name: str | None) -> TokenPrices | None:
    block = checked.blocks.get(name) if name else None
    return block.prices if isinstance(block, ModelServerConfig) else None
