"""What a user can do to the program by accident or malice, generated."""
