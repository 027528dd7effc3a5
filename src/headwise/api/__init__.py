"""What Python and the command line share: each command's work, as functions and the class `Run`.

`headwise.__all__` has the names that are stable. The modules print nothing and end no process: lines for the user go to
a function that is given, and errors are exceptions.
"""
