"""What a built text and its caller hand each other; runtime/cuda_host.h and faults.h have the same fields."""

from __future__ import annotations

import ctypes


class Type(ctypes.Structure):
    """A kernel's argument."""

    _fields_ = (("name", ctypes.c_char_p), ("pointer", ctypes.c_int), ("is_const", ctypes.c_int))


class Kernel(ctypes.Structure):
    """An entry; in a module's `farm_kernels`, the last of which has no name."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("call", ctypes.c_void_p),
        ("types", ctypes.POINTER(Type)),
        ("count", ctypes.c_int),
    )


class Report(ctypes.Structure):
    """What stopped a launch."""

    _fields_ = (
        ("kind", ctypes.c_int),
        ("write", ctypes.c_int),
        ("address", ctypes.c_ulonglong),
        ("at", ctypes.c_uint),
        ("text", ctypes.c_char * 256),
    )


class Launch(ctypes.Structure):
    """What `farm_launch` is asked, and what it answers."""

    _fields_ = (
        ("call", ctypes.c_void_p),
        ("slots", ctypes.c_void_p),
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("dynamic_bytes", ctypes.c_uint),
        ("descending", ctypes.c_int),
        ("workers", ctypes.c_int),
        ("pool", ctypes.c_void_p),
        ("elapsed_us", ctypes.c_double),
        ("report", Report),
        ("next_block", ctypes.c_ulonglong),
        ("failed", ctypes.c_int),
        ("check", ctypes.c_void_p),
    )
