"""Kernels on NVIDIA GPUs, imported when the first one is requested."""

from linkwork.compiler.runtime.cuda.build import build_cuda_kernel, build_named_cuda_kernel
from linkwork.compiler.runtime.cuda.kernel import CudaKernel

__all__ = ["CudaKernel", "build_cuda_kernel", "build_named_cuda_kernel"]
