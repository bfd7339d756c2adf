"""What single scores do not tell: how heads work, what they are worth, which are alike.

explanation.py    queries, keys and interventions to explanations
trial.py          one input with something changed: at once, then in full
predictions.py    what a model says of one input, before and after
interventions.py  positions and segments changed, and what that makes of the scores
neurons.py        a consumer of attention: which neurons make a pattern, in this basis or another
ablation.py       sets of heads switched off: what they are worth beside their controls
head_sets.py      which heads are switched off, their controls, and a model that answers without them
losses.py         what a model loses: masked words, next sentences, classes
card.py           a closer look at some heads, word by word
similarity.py     every head beside every other, by Jensen-Shannon divergence
comparison.py     two models on the same pairs
draws.py          what is drawn of an input by the input itself
checkpoint.py     a checkpoint examined
"""
