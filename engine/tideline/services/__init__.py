"""What a table service is, of whichever format the table is.

- what a service of either format is, its plan, its run, its report: this package
- what services save, which goes first: `benefit`, `hudi.services.slice_benefit`, `ranking`
"""
