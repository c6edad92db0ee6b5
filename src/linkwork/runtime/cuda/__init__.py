"""Kernels on NVIDIA GPUs. Nothing here is imported before the first one is asked for."""

from linkwork.runtime.cuda.kernel import CudaKernel
from linkwork.runtime.cuda.making import build_cuda_kernel, build_named_cuda_kernel

__all__ = ["CudaKernel", "build_cuda_kernel", "build_named_cuda_kernel"]
