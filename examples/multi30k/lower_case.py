"""Files in lower case: python lower_case.py FOLDER FILE.gz ..."""

import gzip
import sys
from pathlib import Path


def main(folder, *paths):
    Path(folder).mkdir(parents=True, exist_ok=True)
    for path in map(Path, paths):
        text = gzip.decompress(path.read_bytes()).decode("utf-8").lower()
        # No time in the file, so that the same text is the same file.
        packed = gzip.compress(text.encode("utf-8"), mtime=0)
        (Path(folder) / path.name).write_bytes(packed)
    print(f"Wrote {folder}, {len(paths)} files in lower case.")


if __name__ == "__main__":
    main(*sys.argv[1:])
