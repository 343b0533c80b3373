"""The players there are."""

from model_servers.scripted_model.players.chart_focus import CHART_FOCUS
from model_servers.scripted_model.players.dominant_color import DOMINANT_COLOR
from model_servers.scripted_model.players.dot_memory import DOT_MEMORY
from model_servers.scripted_model.players.geo3k_zoom import GEO3K_ZOOM
from model_servers.scripted_model.players.ledger import LEDGER
from model_servers.scripted_model.players.puzzle_tools import PUZZLE_TOOLS
from model_servers.scripted_model.players.pyvision import PYVISION_IMAGE, PYVISION_VIDEO
from model_servers.scripted_model.players.separate_shapes import SEPARATE_SHAPES

PLAYERS = (
    CHART_FOCUS,
    DOMINANT_COLOR,
    DOT_MEMORY,
    GEO3K_ZOOM,
    LEDGER,
    SEPARATE_SHAPES,
    PYVISION_IMAGE,
    PYVISION_VIDEO,
    *PUZZLE_TOOLS,
)
