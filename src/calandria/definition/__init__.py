"""Steps, reactors and everything that declares them: pure, and never executing anything."""
