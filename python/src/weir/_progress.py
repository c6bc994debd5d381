"""Progress for people: a bar of tqdm, or a line now and then where tqdm is not installed."""

from __future__ import annotations

import sys
import time
from typing import Any, Optional

__all__ = ["Progress"]

LINE_S = 10.0  # between two lines


def _bar_of_tqdm(what: str, total: Optional[int]) -> Any:
    """None: there is no tqdm."""
    try:
        from tqdm.auto import tqdm  # pyright: ignore[reportMissingModuleSource, reportMissingImports]
    except ImportError:
        return None
    shape = None if total else "{desc}: {elapsed}"
    return tqdm(total=total, desc=what, unit="step", bar_format=shape)


class Progress:
    """How far something is: `total` steps, or a wait without a known end."""

    def __init__(self, what: str, total: Optional[int] = None) -> None:
        self._what, self._total = what, total
        self._n = 0
        self._loss = ""
        self._began = self._said = time.monotonic()
        self._bar = _bar_of_tqdm(what, total)

    def at(self, n: int) -> None:
        """n steps are done. The bar never goes back."""
        step, self._n = max(0, n - self._n), max(n, self._n)
        if self._bar is not None:
            self._bar.update(step)
        else:
            self._say_now_and_then()

    def loss(self, value: float) -> None:
        """The loss of a step, shown with the next one."""
        self._loss = f"loss {value:.4g}"
        if self._bar is not None:
            self._bar.set_postfix_str(self._loss, refresh=False)

    def waits(self) -> None:
        """Called now and then while there is nothing to count."""
        if self._bar is not None:
            self._bar.refresh()
        else:
            self._say_now_and_then()

    def close(self, done: bool = False) -> None:
        """done: the end is reached."""
        if done and self._total:
            self.at(self._total)
        if self._bar is not None:
            self._bar.close()

    def _say_now_and_then(self) -> None:
        now = time.monotonic()
        if now - self._said < LINE_S:
            return
        self._said = now
        done = f"step {self._n} of {self._total}" if self._total else f"{now - self._began:.0f} s"
        print(": ".join(filter(None, (self._what, done, self._loss))), file=sys.stderr)
