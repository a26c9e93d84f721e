"""A source of Grain pipelines."""

try:
    import grain as _grain  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "grain":
        raise
    raise ModuleNotFoundError(
        "loaderd.grain requires Grain, unlike loaderd.Client, which returns numpy arrays: pip install grain",
        name="grain",
    ) from None

from loaderd.grain._dataset import StepIterDataset

__all__ = ["StepIterDataset"]
