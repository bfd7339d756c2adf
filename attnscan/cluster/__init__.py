"""Many machines: what the Ray engine is made of."""
