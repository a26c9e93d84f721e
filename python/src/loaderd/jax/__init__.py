"""Batches of sharded arrays for JAX.

`StepLoader` yields the batches of a run as dicts of `jax.Array`.
"""

try:
    import jax as _jax  # noqa: F401
except ModuleNotFoundError as error:
    if error.name not in ("jax", "jaxlib"):
        raise
    raise ModuleNotFoundError(
        "loaderd.jax requires JAX, unlike loaderd.Client, which returns numpy arrays: pip install jax",
        name=error.name,
    ) from None

from loaderd.jax._loader import StepLoader

__all__ = ["StepLoader"]
