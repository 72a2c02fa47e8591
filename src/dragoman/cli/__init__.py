"""The command line: each command parses, calls the public function of its own name, and prints.

Only this room draws. Results go to standard output; notes, bars and errors go to standard error.
"""
