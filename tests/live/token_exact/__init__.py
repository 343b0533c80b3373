"""Real OpenCode sessions against a real engine, and the proof that their training samples are what it saw."""
