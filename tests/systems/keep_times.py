"""keep_times.py OLD NEW: files of NEW that are as in OLD, byte for byte, get their times there."""
import os
import pathlib
import sys

old, new = map(pathlib.Path, sys.argv[1:])
for path in new.rglob("*"):
    before = old / path.relative_to(new)
    if path.is_file() and before.is_file() and path.read_bytes() == before.read_bytes():
        stat = before.stat()
        os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
