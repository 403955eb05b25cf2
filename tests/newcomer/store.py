"""Files in S3 are written and read by their URLs. moto stands in for S3."""

import os

import boto3
from moto.server import ThreadedMotoServer

import saeta as sa

server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
url = "http://{}:{}".format(*server.get_host_and_port())
os.environ |= {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}
boto3.client("s3", endpoint_url=url, region_name="us-east-1").create_bucket(Bucket="trips")

where = {"endpoint": url, "client_options": {"allow_http": True}}  # of moto alone: S3 needs no options
trips = sa.table({"fare": [12.5, 8.0, 9.5]}, "host")
for day in range(2):
    trips.write_ipc(f"s3://trips/{day}.arrow", compression="zstd", storage_options=where)
trips.write_parquet("s3://trips/all.parquet", storage_options=where)
print(sa.read_ipc("s3://trips/*.arrow", "host", storage_options=where).num_rows)  # 6
print(sa.read_parquet("s3://trips/all.parquet", "host", storage_options=where)["fare"][1])  # 8.0
read = sa.ReadOptions(storage_options=where)
with sa.loader("s3://trips/*.arrow", "host", batch_size=4, to="numpy", read_options=read) as loader:
    print([len(batch["fare"]) for batch in loader])  # [4, 2]
server.stop()
