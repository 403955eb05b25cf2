"""The contexts of the devices of this machine."""

from __future__ import annotations

from saeta._core import Context, context, devices

__all__ = ["contexts"]


def contexts(*, budget: int | str | None = None) -> list[Context]:
    """Returns the contexts of all GPUs that this process sees, or that of the host if it sees none.

    A context is opened on first use, as by `saeta.context`, and takes memory of its GPU then. The variable
    CUDA_VISIBLE_DEVICES says which GPUs the process sees.

    Args:
        budget: the limit of each context, as for `saeta.context`: bytes, "8GiB", or "50%" of its device.

    Returns:
        A list of Context, in the order of `saeta.devices`.

    Raises:
        InvalidError: more bytes than the budget are in use in a context that exists.

    Example:
        >>> import saeta as sa
        >>> len(sa.contexts()) >= 1
        True
    """
    gpus = [device.name for device in devices() if device.name != "host"]
    return [context(name, budget=budget) for name in gpus or ["host"]]
