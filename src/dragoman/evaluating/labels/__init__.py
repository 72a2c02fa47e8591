"""How good classifiers and taggers are: scores, entities, confusions and baselines. Start with `evaluation`.

Gold and found labels are names. A row is what the bootstrap draws as a whole: a text with its one label, or a sentence
with a label for each word.
"""
