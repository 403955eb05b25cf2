"""Conversions between columns or tables and the objects of Python and of other libraries."""
