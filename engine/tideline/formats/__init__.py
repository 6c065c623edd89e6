"""Bytes to values and back, for the file formats inside a Hudi table. No input or output here.

- bloom filter, parquet footer, Avro: this package
- base files of every format that is read: `base_file`, `parquet_rows`, `orc_rows`, `lance_rows`
- HFiles, whole, and keys looked up in them: `hfile`, `hfile_lookup`
- log blocks, their contents: `log_block`, `hudi.log.data_block`
- conditions in SQL: the text, as an expression of Arrow: `filter_parser`, `filter_expression`
"""
