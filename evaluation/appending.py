"""Appending to a file so that what a failed write leaves behind is taken back."""

from __future__ import annotations

import os


def append_whole(descriptor: int, data: bytes) -> int:
    """Append all of ``data`` and bring it to the disk, or leave the file as it was.

    Args:
        descriptor: a file that is open for appending, with no other writer.
        data: what to append; one write, unless the system takes it in parts.

    Returns:
        Where ``data`` starts in the file, in bytes.

    Raises:
        OSError: the disk's own error, such as no space left.
    """
    start = os.fstat(descriptor).st_size
    rest = memoryview(data)
    try:
        while rest:
            rest = rest[os.write(descriptor, rest) :]
        os.fsync(descriptor)
    except BaseException:
        os.ftruncate(descriptor, start)
        raise
    return start
