"""DuckDB joins two tables, and its result is a table on the device again."""

import duckdb

import saeta as sa

ctx = sa.context("host")
trips = sa.table({"zone": [1, 2, 1, 3], "fare": [7.5, 3.0, 9.0, 12.5]}, ctx)
zones = sa.table({"zone": [1, 2], "city": ["Lyon", "Bern"]}, ctx)
sums = "select city, sum(fare) as fare from trips join zones using (zone) group by city order by city"
joined = sa.table(duckdb.sql(sums), ctx)  # DuckDB finds the tables by the names of their variables
print(joined.to_pydict())  # {'city': ['Bern', 'Lyon'], 'fare': [3.0, 16.5]}
