"""The page, alive: a model that stays loaded, and answers what a browser on this machine asks.

app.py       what is refused before anything else sees it; the addresses, and what each answers
question.py  JSON from the network, made a question
serving.py   `attnscan.serve`: models made ready, and the address
session.py   models, questions, the thread that answers them, and the answers that are held
"""
