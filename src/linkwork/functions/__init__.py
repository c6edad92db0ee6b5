"""The public functions: they compile on first use and remember; `load`, `compile`, `export_c`,
`count_operations`.
"""
