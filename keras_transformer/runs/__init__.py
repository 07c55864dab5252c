"""Training runs: settings, checkpoints, the run folder.

Nothing is imported here: the command line reads `settings` alone, without
TensorFlow.
"""
