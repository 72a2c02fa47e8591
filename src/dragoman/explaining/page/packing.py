"""Arrays as a page carries them: float32 in 3 of its 4 bytes, far fewer than its digits would take.

A packed number keeps its sign, its exponent and 15 bits of its fraction: its relative error is at most 2^-16, so the
four digits that a page shows are right.
"""

import base64
from typing import Any

import numpy as np

Packed = dict[str, Any]


def pack(array: np.ndarray[Any, Any]) -> Packed:
    """Its shape, and its numbers in row-major order: integers as a list, others as `f24` in base64.

    >>> pack(np.array([[1.0, 2.0]], dtype=np.float32))
    {'shape': [1, 2], 'f24': 'AIA/AABA'}
    >>> pack(np.array([3, 4]))
    {'shape': [2], 'list': [3, 4]}
    """
    shape = list(array.shape)
    if np.issubdtype(array.dtype, np.integer):
        return {"shape": shape, "list": array.ravel().tolist()}
    return {"shape": shape, "f24": base64.b64encode(_upper_bytes(array.astype("<f4").ravel())).decode()}


def unpack(packed: Packed) -> np.ndarray[Any, Any]:
    """What `pack` packed, floats rounded."""
    if "list" in packed:
        return np.array(packed["list"], dtype=np.int64).reshape(packed["shape"])
    upper = np.frombuffer(base64.b64decode(packed["f24"]), dtype=np.uint8).reshape(-1, 3)
    words = np.zeros((len(upper), 4), dtype=np.uint8)
    words[:, 1:] = upper
    return words.view("<f4").reshape(packed["shape"])


def _upper_bytes(floats: np.ndarray[Any, Any]) -> bytes:
    """The upper three bytes of each float32, little-endian, after rounding to the nearest, ties to even."""
    words = floats.view("<u4")
    halfway = np.uint32(0x7F) + ((words >> np.uint32(8)) & np.uint32(1))
    rounded = np.where(np.isnan(floats), np.uint32(0x7FC00000), words + halfway).astype("<u4")
    return rounded.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()
