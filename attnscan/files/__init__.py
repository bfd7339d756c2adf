"""What is kept in files: pairs to read, a scan's state, every pair's scores, saved weights."""
