"""The command line: each command parses, calls the public function of the same name, and prints.

No other package prints. Results go to standard output; notes, bars and errors go to standard error.
"""
