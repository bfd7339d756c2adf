"""The commands, a module each, from parsing to writing."""
