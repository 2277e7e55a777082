"""Executor 2: resident C++ threads that walk the program. Importing this needs no compiled library."""
