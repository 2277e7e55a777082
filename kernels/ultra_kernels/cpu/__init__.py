"""Executor 2: resident C++ threads that walk the program. Importing this package needs no compiled library."""
