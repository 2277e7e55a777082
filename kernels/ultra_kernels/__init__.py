"""A small machine: an instruction set, its executors, and the proofs that a program is sound."""
