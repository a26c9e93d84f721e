"""A source of Grain pipelines."""

try:
    import grain as _grain  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "grain":
        raise
    raise ModuleNotFoundError(
        "loaderd.grain requires Grain: pip install grain. loaderd.Client does not require it: it returns numpy arrays",
        name="grain",
    ) from None

from loaderd.grain._dataset import StepIterDataset

__all__ = ["StepIterDataset"]
