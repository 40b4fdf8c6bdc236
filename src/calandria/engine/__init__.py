"""The engine: decides what a run does next. Pure: no I/O, no clock, no randomness of its own."""
