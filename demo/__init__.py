"""830 real orders against a real shop: fulfilled or rolled back whole, also under kill -9."""
