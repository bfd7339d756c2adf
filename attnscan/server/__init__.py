"""The page, alive: a model that stays loaded, and answers what a browser on this machine asks.

app.py       what is refused before anything else sees it; the addresses, and what each answers
serving.py   `attnscan.serve`: models made ready, and the address
session.py   questions, models, the thread that answers, and the answers that are held
"""
