"""Runs worker scripts, which need devices or processes of their own."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def start(script, *arguments, **environment):
    """A script of this folder, or a module by its dotted name."""
    program = [HERE / script] if script.endswith(".py") else ["-m", script]
    return subprocess.Popen(
        [sys.executable, *program, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": "", **environment},
    )


def start_workers(script, *arguments, num_workers=2):
    """One process for each list of arguments, as workers on loopback."""
    addresses = [f"localhost:{port}" for port in free_ports(num_workers)]
    return [
        start(
            script,
            *arguments[index],
            TF_CONFIG=json.dumps(
                {
                    "cluster": {"worker": addresses},
                    "task": {"type": "worker", "index": index},
                }
            ),
        )
        for index in range(num_workers)
    ]


def wait(*processes, timeout=240):
    """Waits for all; fails with what a failing one has printed."""
    try:
        for process in processes:
            printed, _ = process.communicate(timeout=timeout)
            assert process.returncode == 0, printed[-4000:]
    finally:
        for process in processes:
            process.kill()


def free_ports(number):
    sockets = [socket.socket() for _ in range(number)]
    try:
        for s in sockets:
            s.bind(("localhost", 0))
        return [s.getsockname()[1] for s in sockets]
    finally:
        for s in sockets:
            s.close()
