"""The version, for those who must not import the package's public names to say it."""

__version__ = "0.1.0"
