"""Rows are chosen by a mask of NumPy, by number, and by what is not null."""

import numpy as np

import saeta as sa

trips = sa.table({"city": ["Lyon", "Bern", None], "fare": [12.5, 8.0, 9.5]}, "host")
fare = trips["fare"].to_numpy()  # the same memory
print(trips.filter(fare > 9)["city"].to_pylist())  # ['Lyon', None]
print(trips.filter((fare > 9) & (fare < 10)).num_rows)  # 1
print(trips.take(np.argsort(fare))["fare"].to_pylist())  # [8.0, 9.5, 12.5]
known = trips.drop_null("city").append_column("tip", [1, 2])
print(known.to_pylist()[1])  # {'city': 'Bern', 'fare': 8.0, 'tip': 2}
try:
    trips.filter(trips["fare"] > 9)
except TypeError as refusal:
    print("to_numpy()" in str(refusal))  # True
