"""attnscan: which attention head does what."""

__version__ = "0.1.0"
