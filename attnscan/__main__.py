"""`python -m attnscan` is the `attnscan` command."""

from attnscan.cli.app import main

main()
