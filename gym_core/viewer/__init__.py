"""The page on which runs are looked at: reads a run's files and serves them to a browser, or writes one HTML file."""
