"""What single scores do not tell: how heads work, what they are worth, which are alike.

explanation.py    queries, keys and interventions to explanations
trial.py          one input with something changed: at once, then in full
predictions.py    what a model says of one input, before and after
interventions.py  positions and segments changed, and what that makes of the scores
neurons.py        a consumer of attention: which neurons make a pattern, in this basis or another
ablation.py       sets of heads switched off: what they are worth beside their controls
switched_off.py   questions put to a model with heads switched off
head_sets.py      which heads, chosen by names or by one half of the pairs, and their controls
losses.py         what a model loses: masked words, next sentences, classes
card.py           a closer look at some heads, word by word
similarity.py     every head beside every other
comparison.py     two models on the same pairs
divergence.py     Jensen-Shannon divergence between heads
draws.py          what is drawn of an input by the input itself
checkpoint.py     a checkpoint examined
"""
