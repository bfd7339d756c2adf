"""The commands, a module for each group of the help, from parsing to writing."""
