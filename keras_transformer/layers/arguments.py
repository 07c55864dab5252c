"""Checks of constructor arguments: the rule, what arrived, what to do."""

import math
from numbers import Real

import keras


def check_sizes(optional=False, **sizes):
    """Raises unless every given size is a whole number above zero."""
    for name, size in sizes.items():
        if optional and size is None:
            continue
        if not isinstance(size, int) or isinstance(size, bool) or size < 1:
            raise ValueError(
                f"`{name}` must be a whole number above zero. "
                f"Received: {name}={size!r}. Give an int of 1 or more."
            )


def check_rates(**rates):
    """Raises unless every given rate is at least 0 and below 1."""
    for name, rate in rates.items():
        if not isinstance(rate, int | float) or not 0 <= rate < 1:
            raise ValueError(
                f"`{name}` must be a share of at least 0 and below 1. "
                f"Received: {name}={rate!r}. Give 0 to switch it off."
            )


def check_number(what="a number", positive=False, minimum=None, **numbers):
    """Raises unless every given argument is a finite number, large enough."""
    for name, number in numbers.items():
        fits = isinstance(number, Real) and math.isfinite(number)
        if fits and minimum is not None:
            fits = number >= minimum
        if not fits or (positive and number <= 0):
            raise ValueError(
                f"`{name}` must be {what}. Received: {name}={number!r}. "
                "Leave it out for the default."
            )


def check_choice(choices, **names):
    """Raises unless every given name is one of `choices`."""
    for argument, name in names.items():
        if name not in choices:
            raise ValueError(
                f"`{argument}` must be one of {list(choices)}. "
                f"Received: {argument}={name!r}. Choose one of these."
            )


def head_dim(hidden_dim, num_heads, key_dim):
    """Width of one head: `key_dim`, or an even share of `hidden_dim`."""
    if key_dim is not None:
        return key_dim
    if hidden_dim % num_heads:
        raise ValueError(
            "`hidden_dim` must split evenly over `num_heads`. "
            f"Received: hidden_dim={hidden_dim}, num_heads={num_heads}. "
            "Change either, or give `key_dim`."
        )
    return hidden_dim // num_heads


def check_rank(name, shape):
    """Raises unless `shape` is (batch, length, width)."""
    if len(shape) != 3 or shape[-1] is None:
        raise ValueError(
            f"`{name}` must have shape (batch, length, hidden_dim), with a "
            f"known hidden_dim. Received: {name}.shape={tuple(shape)}. "
            "Add or remove an axis."
        )


def copy_of(initializer):
    """A copy for one weight.

    An initializer without a seed gives the same numbers each time it is used.
    A plain function has no copies.
    """
    return initializer.clone() if hasattr(initializer, "clone") else initializer


def activation(name):
    """The Keras activation with this name, or the function given."""
    try:
        return keras.activations.get(name)
    except ValueError as error:
        raise ValueError(
            "`activation` must be the name of a Keras activation or a "
            f"function. Received: activation={name!r}. "
            'Use for example "relu", "gelu" or "silu".'
        ) from error
