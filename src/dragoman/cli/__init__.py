"""The commands, one a file: each parses, calls the public function of its own name, and prints.

Only this room draws: bars, notes and tables that explain go to standard error, results to standard output.
"""
