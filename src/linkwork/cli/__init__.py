"""The command line: `linkwork`, its demonstration and its benchmarks."""
