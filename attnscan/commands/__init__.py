"""The commands, a module each: parse, call, print. Nothing is computed here."""
