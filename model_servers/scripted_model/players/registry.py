"""The players there are."""

from model_servers.scripted_model.players.dominant_color import DOMINANT_COLOR

PLAYERS = (DOMINANT_COLOR,)
