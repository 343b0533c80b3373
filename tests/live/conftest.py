from tests.sandboxes.fixtures import stage

__all__ = ["stage"]
