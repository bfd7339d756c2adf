"""`python -m attnscan` is the `attnscan` command."""

from attnscan.cli import main

main()
