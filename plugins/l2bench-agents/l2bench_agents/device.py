"""The device an agent computes on: only ``auto`` may choose, anything else is taken literally."""

from __future__ import annotations

import re

import torch

from l2bench.errors import Unsupported, UsageError, nearest


def choose_device(asked: str) -> torch.device:
    """Return the device of this name; ``auto`` is the first GPU, or the CPU where there is none.

    Raises:
        UsageError: unknown device, with the choices.
        Unsupported: a GPU that is not there, with the choices.
    """
    gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    known = ["auto", "cpu", *(["cuda"] if gpus else []), *(f"cuda:{n}" for n in range(gpus))]
    listing = f"choose one of {', '.join(known)}"
    if asked == "auto":
        return torch.device("cuda:0" if gpus else "cpu")
    if asked == "cpu":
        return torch.device("cpu")
    if asked in known:
        return torch.device("cuda:0" if asked == "cuda" else asked)
    if asked == "cuda" or re.fullmatch(r"cuda:\d+", asked):
        found = f"{gpus} CUDA GPU{'s' if gpus != 1 else ''}" if gpus else "no CUDA GPU"
        raise Unsupported(
            f"device '{asked}' was asked for, but torch {torch.__version__} finds {found} here; "
            f"{listing}"
        )
    raise UsageError(f"unknown device '{asked}'{nearest(asked, [*known, 'cuda'])}; {listing}")


def set_threads(threads: int | None, light: bool) -> None:
    """Limit the CPU threads of torch in this process.

    Without a number, a light network gets one: more would only wait for each other, and the
    simulators need the cores. Other networks keep torch's own choice.
    """
    if threads is not None or light:
        torch.set_num_threads(threads or 1)
