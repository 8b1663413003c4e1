"""Strikes at random files of a folder: a cut, a flipped bit, or a removal."""

import random
import shutil


def struck(folder, draw: random.Random) -> str:
    """Damage one file, or remove a file or folder; the name of what was hit, relative to `folder`."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.stat().st_size)
    kind, path = draw.choice(["cut", "flip", "remove"]), draw.choice(files)
    if kind == "remove":
        path = draw.choice([path, *(part for part in path.parents if folder in part.parents)])
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[: draw.randrange(path.stat().st_size)])
    else:
        content = bytearray(path.read_bytes())
        content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
    return f"{kind} {path.relative_to(folder)}"
