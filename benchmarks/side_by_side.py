"""Times several programs on the same work, turn by turn, each in a process.

A machine that is slow for a minute is slow for all of them, and no library's
threads or memory are in another's way.
"""

import datetime
import multiprocessing
import os
import platform
import statistics
import subprocess
import time
from importlib import metadata
from pathlib import Path


def compare(make_step, candidates, case, repeats=7, threads=2):
    """Runs one case with every candidate.

    Args:
        make_step: `make_step(candidate, case)` returns a function without
            arguments that does the work once. Called in a process of its own.
        candidates: Names of the programs.
        case: Settings of the work, a dictionary.
        repeats: Number of rounds after one to warm up.
        threads: Number of threads for each program.

    Returns:
        For each candidate `{"milliseconds": median, "megabytes": peak growth
        of memory, "ready_seconds": until the work was done for the first
        time}`, or `{"error": words}`.
    """
    context = multiprocessing.get_context("spawn")
    workers = {}
    for name in candidates:
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_work, args=(theirs, make_step, name, case, threads)
        )
        process.start()
        workers[name] = (process, ours)
    answers = {name: pipe.recv() for name, (_, pipe) in workers.items()}
    alive = [name for name in candidates if "error" not in answers[name]]
    times = {name: [] for name in alive}
    for _ in range(repeats):
        for name in alive:
            pipe = workers[name][1]
            # Threads of the one before spin for a while after their work.
            time.sleep(0.5)
            pipe.send("again")
            times[name].append(pipe.recv())
    for name in alive:
        answers[name]["milliseconds"] = 1000 * statistics.median(times[name])
    for process, pipe in workers.values():
        pipe.close()
        process.join()
    return answers


def _work(pipe, make_step, candidate, case, threads):
    os.environ["OMP_NUM_THREADS"] = str(threads)
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    begin = time.perf_counter()
    try:
        step = make_step(candidate, case)
        before = _memory("VmRSS")
        Path("/proc/self/clear_refs").write_text("5")  # forget earlier peaks
        step()
        ready_seconds = time.perf_counter() - begin
        step()
        megabytes = (_memory("VmHWM") - before) / 1024
        pipe.send({"megabytes": megabytes, "ready_seconds": ready_seconds})
    except Exception as error:
        pipe.send({"error": f"{type(error).__name__}: {error}"[:200]})
        return
    while True:
        try:
            pipe.recv()
        except EOFError:
            return
        start = time.perf_counter()
        step()
        pipe.send(time.perf_counter() - start)


def _memory(field):
    """Kilobytes, from the kernel."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    raise ValueError(f"the kernel does not tell {field}")


def tensorflow_threads(threads=2):
    """The same number of threads for TensorFlow as for the others."""
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)


def origin(*packages):
    """Date, commit, machine and versions, for a table of results."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
        check=False,
    ).stdout.strip()
    models = {
        line.split(":")[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    }
    versions = ", ".join(
        f"{name} {metadata.version(name)}" for name in packages
    )
    return (
        f"{datetime.date.today()}, commit {commit}, {os.cpu_count()} cores "
        f"({', '.join(models) or platform.machine()}), {versions}"
    )
