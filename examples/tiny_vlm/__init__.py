"""A vision-language policy small enough for tests: built here, served over vLLM's wire, on a CPU, without downloads.

Real forward passes, real sampling, real log-probabilities, random weights. For tests and examples; not fast.
"""
