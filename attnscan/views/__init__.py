"""Results as something to look at: text or bytes, never written anywhere from here."""
