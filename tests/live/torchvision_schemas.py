"""Lets a CUDA build of torchvision be imported beside a CPU build of torch.

Copied into vLLM's environment, where a `.pth` file activates it; nothing else imports it.

The index carries only the CUDA build. Its compiled half cannot load there, and torchvision then dies for want of the
operators that this half declares. Image processors need only its pure-Python transforms, so that declaring the
operators, without kernels, just before the import is enough. Standard library and torch only.
"""

import contextlib
import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType

BOX = "Tensor {}, Tensor rois, float spatial_scale, SymInt pooled_height, SymInt pooled_width"
SHAPE = "SymInt batch_size, SymInt channels, SymInt height, SymInt width"
DEFORM = (
    "Tensor input, Tensor weight, Tensor offset, Tensor mask, Tensor bias, SymInt stride_h, SymInt stride_w, "
    "SymInt pad_h, SymInt pad_w, SymInt dilation_h, SymInt dilation_w, SymInt groups, SymInt offset_groups, "
    "bool use_mask"
)
SUPPRESSION = "Tensor dets, Tensor scores, float iou_threshold"
SCHEMAS = (
    f"nms({SUPPRESSION}) -> Tensor",
    f"qnms({SUPPRESSION}) -> Tensor",
    f"roi_align({BOX.format('input')}, int sampling_ratio, bool aligned) -> Tensor",
    f"_roi_align_backward({BOX.format('grad')}, {SHAPE}, int sampling_ratio, bool aligned) -> Tensor",
    f"roi_pool({BOX.format('input')}) -> (Tensor, Tensor)",
    "_roi_pool_backward(Tensor grad, Tensor rois, Tensor argmax, float spatial_scale, SymInt pooled_height, "
    f"SymInt pooled_width, {SHAPE}) -> Tensor",
    f"ps_roi_align({BOX.format('input')}, int sampling_ratio) -> (Tensor, Tensor)",
    "_ps_roi_align_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    f"SymInt pooled_height, SymInt pooled_width, int sampling_ratio, {SHAPE}) -> Tensor",
    f"ps_roi_pool({BOX.format('input')}) -> (Tensor, Tensor)",
    "_ps_roi_pool_backward(Tensor grad, Tensor rois, Tensor channel_mapping, float spatial_scale, "
    f"SymInt pooled_height, SymInt pooled_width, {SHAPE}) -> Tensor",
    f"deform_conv2d({DEFORM}) -> Tensor",
    f"_deform_conv2d_backward(Tensor grad, {DEFORM}) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)


class TorchvisionWatch:
    """A finder that finds nothing; it only notices that torchvision is about to be imported."""

    def __init__(self) -> None:
        self._has_seen_it = False
        self._library: object = None

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name == "torchvision" and not self._has_seen_it:
            self._has_seen_it = True  # before torch is imported, which looks for torchvision itself
            with contextlib.suppress(ImportError):
                self._library = _declare_operators()
        return None


def _declare_operators() -> object:
    """Returns what must be kept alive for the declarations to stay."""
    torch = importlib.import_module("torch")
    if torch.version.cuda is not None:
        return torch  # its own half will load
    library = torch.library.Library("torchvision", "DEF")
    for schema in SCHEMAS:
        with contextlib.suppress(RuntimeError):  # declared already
            library.define(schema)
    return library


def activate() -> None:
    """Once, however often it is called: Python reads `.pth` files of some environments twice."""
    if not any(isinstance(finder, TorchvisionWatch) for finder in sys.meta_path):
        sys.meta_path.insert(0, TorchvisionWatch())
