"""Files in lower case."""

import argparse
import gzip
from pathlib import Path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where to write them")
    parser.add_argument(
        "files", type=Path, nargs="+", metavar="file.gz", help="gzipped text"
    )
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    for path in args.files:
        text = gzip.decompress(path.read_bytes()).decode("utf-8").lower()
        # No time in the file, so that the same text is the same file.
        packed = gzip.compress(text.encode("utf-8"), mtime=0)
        (args.folder / path.name).write_bytes(packed)
    print(f"Wrote {args.folder}, {len(args.files)} files in lower case.")


if __name__ == "__main__":
    main()
