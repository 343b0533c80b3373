"""Procedural visual puzzles with exact answers: one module per subtype, each a generator and an independent solver."""
