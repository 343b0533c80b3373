"""The players there are."""

from model_servers.scripted_model.players.dominant_color import DOMINANT_COLOR
from model_servers.scripted_model.players.geo3k_zoom import GEO3K_ZOOM

PLAYERS = (DOMINANT_COLOR, GEO3K_ZOOM)
