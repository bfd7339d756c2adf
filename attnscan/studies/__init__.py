"""What single scores do not tell: how heads work, what they are worth, which are alike.

explanation.py    interventions, and neurons of queries and keys, of one input or of many pairs
trial.py          one input with something changed, with what the model says of it
interventions.py  positions and segments changed, where a model allows it
ablation.py       which heads are switched off, and what these are worth beside their controls
losses.py         what a model loses: masked words, next sentences, classes
card.py           a closer look at some heads: what explain and similar say, links, examples
comparison.py     every head beside every other, and two models on the same pairs
checkpoint.py     a checkpoint examined
trace.py          the checkpoints of a training run: which there are, and their order
"""
