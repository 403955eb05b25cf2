"""The measurements of `saeta bench`: files and tables on their way to the device and back.

Each is measured beside the tools that people use instead.
"""
