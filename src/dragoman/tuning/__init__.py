"""What is changed in a finished model before the same loop trains it: parts that are frozen, adapters of low rank.

Start with `tune`. This room sees only modules and the names of their weights; it knows no family, task or file.
"""
