"""The measurements of `saeta bench`: transfers of files and tables to the device and back.

Each is compared with other tools for the same job.
"""
