"""Checkpoints: one file each, written beside and renamed."""

import json
import os
import re
import zipfile
from pathlib import Path

import numpy as np

from keras_transformer.files import replacing

STATE = "state.json"
# What reading a file raises that is not whole.
DAMAGE = (EOFError, zipfile.BadZipFile, KeyError, ValueError)


class OtherData(Exception):
    """A checkpoint of a run on other data than this one's."""


class OtherModel(Exception):
    """A whole checkpoint of other variables than this run's."""


class Checkpoints:
    """The checkpoints of a run, in one folder.

    A file holds all variables by name and the run's own state as JSON. Regular
    ones are `step-00000500.npz`. One that was written because a run was
    stopped is `stopped-00000612.npz`; it serves to go on and is never averaged.

    Args:
        folder: Where they are.
        keep: How many regular ones to keep.
    """

    def __init__(self, folder, keep):
        self.folder = Path(folder)
        self.keep = keep

    def write(self, step, variables, state, stopped=False):
        """Writes one, and removes those that are not needed any more."""
        self.folder.mkdir(parents=True, exist_ok=True)
        name = f"{'stopped' if stopped else 'step'}-{step:08d}.npz"
        arrays = {_key(i, v): np.asarray(v) for i, v in enumerate(variables)}
        text = np.frombuffer(json.dumps(state).encode(), np.uint8)
        with (
            replacing(self.folder / name) as beside,
            open(beside, "wb") as file,
        ):
            np.savez(file, **{STATE: text}, **arrays)
            file.flush()
            os.fsync(file.fileno())
        if not stopped:
            for path in self._all("stopped"):
                path.unlink()
            for path in self._all("step")[: -self.keep]:
                path.unlink()

    def restore(self, variables, data=None, warn=print):
        """Loads the newest whole checkpoint into the variables.

        Args:
            variables: The variables, in the order of `write`.
            data: What `state["data"]` must be, where it is.
            warn: Told of each checkpoint that is damaged.

        Returns:
            The state that was written with it, or `None` if there is none.
        """
        found = sorted(self._all("step", "stopped"), key=_step)[::-1]
        damaged = []
        for path in found:
            try:
                arrays, state = _read(path, variables, data)
            except OtherData:
                raise ValueError(
                    "A run goes on with the data it began with. Received: "
                    f"data that differs from that of {path}. Give another run "
                    "folder."
                ) from None
            except OtherModel as error:
                raise ValueError(
                    "A run goes on with the model it began with. Received: "
                    f"{path}, which has {error}. Give another run folder."
                ) from None
            except DAMAGE as error:
                warn(
                    f"{path} is damaged ({error}). Going on from the one "
                    "before it."
                )
                damaged.append(path)
                continue
            # Not before: with no whole one, the next try shall find them, too.
            for each in damaged:
                each.rename(each.with_suffix(".damaged"))
            for variable, array in zip(variables, arrays):
                variable.assign(array)
            return state
        if found:
            raise ValueError(
                "A run goes on from a whole checkpoint. Received: "
                f"{self.folder}, in which all {len(found)} are damaged. Give "
                "another run folder."
            )
        return None

    def has(self, step):
        """Whether there is a regular one of this step."""
        return step in map(_step, self._all("step"))

    def averages(self, variables, warn=print):
        """The mean of each variable over the regular checkpoints."""
        totals, count = [np.zeros(v.shape, np.float64) for v in variables], 0
        for path in self._all("step"):
            try:
                arrays, _ = _read(path, variables)
            except DAMAGE as error:
                warn(f"{path} is damaged ({error}). Averaging without it.")
                continue
            count += 1
            for total, array in zip(totals, arrays):
                total += array
        return [
            (total / count).astype(v.dtype)
            for total, v in zip(totals, variables)
        ]

    def _all(self, *kinds):
        pattern = re.compile(rf"({'|'.join(kinds)})-\d+\.npz")
        if not self.folder.is_dir():
            return []
        return sorted(
            path
            for path in self.folder.iterdir()
            if pattern.fullmatch(path.name)
        )


def _key(index, variable):
    return f"{index:05d}:{variable.name}"


def _step(path):
    return int(re.search(r"\d+", path.name)[0])


def _read(path, variables, data=None):
    with np.load(path) as file:
        state = json.loads(file[STATE].tobytes())
        if data is not None and state.get("data", data) != data:
            raise OtherData
        keys = [_key(i, v) for i, v in enumerate(variables)]
        for key in keys:
            if key not in file:
                raise OtherModel(f"no {key}")
        arrays = [file[key] for key in keys]
    for array, variable in zip(arrays, variables):
        if array.shape != tuple(variable.shape):
            raise OtherModel(
                f"{variable.path} of shape {array.shape}, not "
                f"{tuple(variable.shape)}"
            )
    return arrays, state
