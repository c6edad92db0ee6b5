"""Common parts of public functions: tracing, options, kernels, array labels and derivatives."""
