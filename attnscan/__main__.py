"""`python -m attnscan` is the `attnscan` command."""

from __future__ import annotations

from attnscan.cli.app import main

main()
