"""Whole programs built on the gym, one a folder."""
