"""Files of others as DataFrames, and which of their rows cannot be taken in.

- files and rows that cannot be ingested: `bad_input`, `bad_rows`,
  `ingest.sources.files.quarantine`
- types of columns that nobody declared, text that is not UTF-8: `text_schema`,
  `column_inference`, `text_encoding`
"""
