"""Benchmarks that come with the package: `linkwork bench`."""
