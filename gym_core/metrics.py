"""Other names of `gym_core.statistics`, for modules that still use them."""

from gym_core.statistics.clustered_mean import estimate as estimate
from gym_core.statistics.outcome import Outcome as Outcome
from gym_core.statistics.outcome import outcome_of as outcome_of
from gym_core.statistics.pass_at_k import pass_at_k as pass_at_k
from gym_core.statistics.report import aggregate as aggregate
from gym_core.statistics.report import sequence_report as sequence_report
