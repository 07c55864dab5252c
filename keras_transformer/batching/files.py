"""Files of a prepared folder: whole, or not there."""

import hashlib
import io
import json

import numpy as np

from keras_transformer.files import replacing


def checksum(path):
    """SHA-256 of a file, as hexadecimal digits."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def write(path, data):
    """Writes bytes. All files of a folder pass here."""
    with replacing(path) as beside:
        beside.write_bytes(data)


def write_json(path, content):
    """Writes what JSON can hold."""
    write(path, json.dumps(content, indent=1, ensure_ascii=False).encode())


def write_array(path, array):
    """Writes an array, as `np.save` does."""
    # Through memory: `np.save` to a full disk does not say what is wrong.
    buffer = io.BytesIO()
    np.save(buffer, array)
    write(path, buffer.getbuffer())
