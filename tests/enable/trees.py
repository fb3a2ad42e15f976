"""File trees for the tests of `brdma enable`: a small system below a directory, and what it holds, to the byte."""

import contextlib
import os
import pathlib
import shutil
import stat
import subprocess
import tempfile

LIBRARY = "/usr/lib/libbitmaprdma.so"
HOME = "/home/someone"


class Failure(Exception):
    pass


def expect(condition, text):
    if not condition:
        raise Failure(text)


def snapshot(root):
    """Everything below `root`: mode, owner, extended attributes, content or target of each entry."""
    found = {}
    for folder, folders, files in os.walk(root):
        for name in sorted(folders + files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            content = ""
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                content = pathlib.Path(path).read_bytes()
            attributes = {} if stat.S_ISLNK(status.st_mode) else {key: os.getxattr(path, key) for key in os.listxattr(path)}
            found[os.path.relpath(path, root)] = (oct(status.st_mode), status.st_uid, status.st_gid, attributes, content)
    return found


def difference(before, after):
    return {path: (before.get(path), after.get(path)) for path in {**before, **after} if before.get(path) != after.get(path)}


@contextlib.contextmanager
def tree(files=None, folders=("etc",), library=LIBRARY):
    """A tree with these files (path: content) and folders, and a library."""
    root = tempfile.mkdtemp(prefix="brdma-enable-", dir="/tmp")
    os.chmod(root, 0o755)
    try:
        for folder in folders:
            os.makedirs(os.path.join(root, folder), exist_ok=True)
        contents = {**({library: "a library\n"} if library else {}), **(files or {})}
        for path, content in contents.items():
            place = pathlib.Path(root + "/" + path.lstrip("/"))
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content if isinstance(content, bytes) else content.encode())
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


def environment(**more):
    """Of a user with a home, whose session sets nothing else."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "LD_"))}
    return {**kept, "HOME": HOME, "BRDMA_IDLE_SECONDS": "1", **more}


def run(command, code=0, env=None, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=env or environment(), **options)
    expect(done.returncode == code, f"{command}: exit code {done.returncode}, not {code}:\n{done.stdout}{done.stderr}")
    return done
