"""What single scores do not tell: how heads work, what they are worth, which are alike.

explanation.py    queries, keys and interventions to explanations
trial.py          one input with something changed: at once, then in full
predictions.py    what a model says of one input, before and after
interventions.py  positions and segments changed
causes.py         what a change makes of the scores: sums, with errors
neurons.py        a consumer of attention: which neurons make a pattern
rotations.py      other bases of a head, which change no weight
ablation.py       sets of heads switched off
switched_off.py   questions put to a model with heads switched off
head_sets.py      which heads, chosen by names or by one half of the pairs
controls.py       the other sets that a set of heads is compared with
effects.py        what sets are worth beside their controls, with its error
losses.py         what a model loses: masked words, next sentences, classes
similarity.py     every head beside every other
comparison.py     two models on the same pairs
divergence.py     Jensen-Shannon divergence between heads
draws.py          what is drawn of an input by the input itself
checkpoint.py     a checkpoint examined
"""
