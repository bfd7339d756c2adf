"""How heads make their patterns: from queries and keys, and by changing what the model reads."""
