"""Weir beneath PyTorch. This package needs PyTorch 1.13 or later."""

from .diloco import DiLoCo, LocalSGD

__all__ = ["DiLoCo", "LocalSGD"]
