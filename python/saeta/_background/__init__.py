"""Threads of Python, and what ends with an object, whatever interrupts come."""
