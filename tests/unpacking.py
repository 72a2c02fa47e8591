"""The way back from the arrays of a page, for tests to compare with."""

import base64
from typing import Any

import numpy as np


def unpack(packed: dict[str, Any]) -> np.ndarray[Any, Any]:
    """What `pack` packed, floats rounded."""
    if "list" in packed:
        return np.array(packed["list"], dtype=np.int64).reshape(packed["shape"])
    upper = np.frombuffer(base64.b64decode(packed["f24"]), dtype=np.uint8).reshape(-1, 3)
    words = np.zeros((len(upper), 4), dtype=np.uint8)
    words[:, 1:] = upper
    return words.view("<f4").reshape(packed["shape"])
