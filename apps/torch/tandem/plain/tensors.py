"""What operations do with tensors: their memory, checks of them, and how their elements are combined."""

import torch
from torch.distributed import ReduceOp

from . import library as c

TYPES = {torch.float32: c.FLOAT32, torch.float64: c.FLOAT64, torch.int32: c.INT32, torch.int64: c.INT64, torch.int8: c.INT8,
         torch.int16: c.INT16, torch.uint8: c.UINT8, torch.uint16: c.UINT16, torch.uint32: c.UINT32, torch.uint64: c.UINT64,
         torch.float16: c.FLOAT16, torch.bfloat16: c.BFLOAT16, torch.float8_e4m3fn: c.FLOAT8_E4M3,
         torch.float8_e5m2: c.FLOAT8_E5M2, torch.bool: c.UINT8,  # 0 or 1 in a byte
         torch.complex64: c.FLOAT32, torch.complex128: c.FLOAT64, torch.complex32: c.FLOAT16}  # as pairs
OPS = {ReduceOp.SUM: c.SUM, ReduceOp.AVG: c.AVERAGE, ReduceOp.PRODUCT: c.PRODUCT, ReduceOp.MIN: c.MINIMUM,
       ReduceOp.MAX: c.MAXIMUM, ReduceOp.BAND: c.BAND, ReduceOp.BOR: c.BOR, ReduceOp.BXOR: c.BXOR,
       ReduceOp.PREMUL_SUM: c.PREMULTIPLIED_SUM}
WITH_PARTS = (c.SUM, c.AVERAGE, c.PREMULTIPLIED_SUM)
NOTHING = c.Buffer(None, 0, c.HOST, 0)
# PyTorch for ROCm calls AMD's GPUs "cuda".
GPU_MEMORY = c.HIP if torch.version.hip else c.CUDA


def check_tensor(call, tensor):
    if tensor.layout != torch.strided:
        raise ValueError(f"tandem: {call}: the tensor's layout is {tensor.layout}; pass a dense tensor")
    if not (tensor.is_cpu or tensor.is_cuda):
        raise ValueError(f"tandem: {call}: the tensor is on {tensor.device}; move it to the CPU or to a GPU of NVIDIA or AMD")


def only_one(call, tensors):
    if len(tensors) != 1:
        raise ValueError(f"tandem: {call}: {len(tensors)} tensors, expected one")
    check_tensor(call, tensors[0])
    return tensors[0]


def check_same_type(call, one, other):
    if one.dtype != other.dtype:
        raise ValueError(f"tandem: {call}: tensors of types {one.dtype} and {other.dtype}")


def check_list(call, tensors, ranks):
    if len(tensors) != ranks:
        raise ValueError(f"tandem: {call}: {len(tensors)} tensors, expected one for each of {ranks} ranks")
    for tensor in tensors:
        check_tensor(call, tensor)
        check_same_type(call, tensor, tensors[0])


def is_dense(tensor):
    """Whether its elements lie one after the other in memory, as they are."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def dense(tensor):
    """A tensor of the same elements for which that is so: itself, or a copy."""
    return tensor if is_dense(tensor) else tensor.detach().resolve_conj().resolve_neg().contiguous()


def buffer_of(tensor):
    if tensor.is_cpu:
        return c.Buffer(tensor.data_ptr(), tensor.nbytes, c.HOST, 0)
    return c.Buffer(tensor.data_ptr(), tensor.nbytes, GPU_MEMORY, tensor.get_device())


def are_equally_long(tensors):
    return all(tensor.numel() == tensors[0].numel() for tensor in tensors)


def lengths_of(tensors):
    return c.lengths([tensor.nbytes for tensor in tensors])


def unequal_lengths_of(tensors):
    """None for blocks of one length."""
    return None if are_equally_long(tensors) else lengths_of(tensors)


def are_consecutive(tensors):
    """Whether all are views of one memory and follow each other there, so that they are one buffer."""
    storage, expected = tensors[0].untyped_storage().data_ptr(), tensors[0].data_ptr()
    for tensor in tensors:
        if not is_dense(tensor) or tensor.data_ptr() != expected or tensor.untyped_storage().data_ptr() != storage:
            return False
        expected += tensor.nbytes
    return True


def joined_memory(tensors):
    """One tensor for the elements of all: over their own memory if they follow each other there. Also whether it is."""
    first, elements = tensors[0].detach(), sum(tensor.numel() for tensor in tensors)
    if are_consecutive(tensors):
        return first.as_strided((elements,), (1,)), True
    return torch.empty(elements, dtype=first.dtype, device=first.device), False


def joined(tensors):
    into, is_their_own = joined_memory(tensors)
    if not is_their_own:
        for part, tensor in zip(into.split([tensor.numel() for tensor in tensors]), tensors):
            part.copy_(tensor.detach().reshape(-1))
    return into


def distribute(source, tensors):
    for part, tensor in zip(source.split([tensor.numel() for tensor in tensors]), tensors):
        tensor.copy_(part.view(tensor.size()))


def split_lengths(which, splits, tensor, ranks):
    """Lengths in bytes of blocks of the first dimension."""
    rows = tensor.numel() if tensor.dim() == 0 else tensor.size(0)
    if not splits:
        if rows % ranks != 0:
            raise ValueError(f"tandem: all_to_all_single: the {which}'s first dimension, {rows}, is not divisible by {ranks} ranks")
        return [tensor.nbytes // ranks] * ranks
    if len(splits) != ranks:
        raise ValueError(f"tandem: all_to_all_single: {len(splits)} {which} splits, expected one for each of {ranks} ranks")
    if sum(splits) != rows:
        raise ValueError(f"tandem: all_to_all_single: the {which} splits add up to {sum(splits)}, its first dimension is {rows}")
    row_bytes = tensor.nbytes // rows if rows else 0
    return [split * row_bytes for split in splits]


def reduction_of(op, tensor):
    """How elements of a tensor are combined. Complex numbers are pairs of real ones; the sum of bools is "or", as in NCCL."""
    if tensor.dtype not in TYPES:
        raise TypeError(f"tandem: tensors of type {tensor.dtype} cannot be reduced")
    if op.op not in OPS:
        raise ValueError(f"tandem: unknown reduction {op.op}")
    how = c.Reduction(TYPES[tensor.dtype], OPS[op.op], 1)
    if how.op == c.PREMULTIPLIED_SUM:
        how.factor = float(op.factor)
    if tensor.dtype == torch.bool:
        if how.op == c.AVERAGE:
            raise TypeError("tandem: bool tensors have no average")
        how.op = {c.SUM: c.MAXIMUM, c.PRODUCT: c.MINIMUM}.get(how.op, how.op)
    if tensor.is_complex() and how.op not in WITH_PARTS:
        raise TypeError("tandem: complex numbers have sums and averages only")
    return how
