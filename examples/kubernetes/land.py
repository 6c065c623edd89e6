"""Land files for the flights table: copy a folder into s3://lake/landing/flights/.

    kubectl -n lake port-forward service/minio 9000 &
    set -a; . examples/kubernetes/credentials.env; set +a
    python examples/kubernetes/land.py out/flights/landing

Credentials come from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Files that have landed are
skipped; `--limit` and a second run land a folder in parts.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from minio import Minio


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--endpoint", default="127.0.0.1:9000")
    parser.add_argument("--bucket", default="lake")
    parser.add_argument("--prefix", default="landing/flights/")
    parser.add_argument("--limit", type=int, help="largest number of files")
    arguments = parser.parse_args()
    client = Minio(
        endpoint=arguments.endpoint,
        access_key=os.environ["AWS_ACCESS_KEY_ID"],
        secret_key=os.environ["AWS_SECRET_ACCESS_KEY"],
        secure=False,
    )
    if not client.bucket_exists(bucket_name=arguments.bucket):
        client.make_bucket(bucket_name=arguments.bucket)
    present = {
        item.object_name
        for item in client.list_objects(
            bucket_name=arguments.bucket, prefix=arguments.prefix, recursive=True
        )
    }
    files = sorted(path for path in arguments.folder.rglob("*.parquet") if path.is_file())
    names = {
        arguments.prefix + path.relative_to(arguments.folder).as_posix(): path for path in files
    }
    missing = [name for name in names if name not in present]
    landed = missing[: arguments.limit]
    for name in landed:
        client.fput_object(
            bucket_name=arguments.bucket, object_name=name, file_path=str(names[name])
        )
    there, left = len(names) - len(missing), len(missing) - len(landed)
    print(f"files landed: {len(landed)}, there before: {there}, left for a later run: {left}")


if __name__ == "__main__":
    main()
