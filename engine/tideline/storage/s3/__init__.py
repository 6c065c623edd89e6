"""S3, and whatever speaks its protocol.

- creating a bucket: `bucket`
- encryption, who pays, checksums: `request_headers`
"""
