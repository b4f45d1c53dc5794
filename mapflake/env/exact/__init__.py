"""What is behind solver.py and generator.py: the exact search, in plain Python and compiled."""
