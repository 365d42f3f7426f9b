"""Earlier observations and actions put before the current one, as the original can."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from agentgym_suite.data import canonical_json
from agentgym_suite.webshop.segments import SEPARATOR


class Past(NamedTuple):
    """What was shown and said before, oldest first."""

    observations: tuple[str, ...] = ()
    actions: tuple[str, ...] = ()


class History:
    """The latest observations and actions of one episode.

    Args:
        observations: how many earlier observations are put before the current one.
        actions: how many earlier actions are put before the current observation.
    """

    def __init__(self, observations: int, actions: int) -> None:
        self.active = observations > 0 or actions > 0
        self.tells_actions = actions > 0
        self._observations: deque[str] = deque(maxlen=observations)
        self._actions: deque[str] = deque(maxlen=actions)

    def start(self, observation: str) -> str:
        """Begin an episode; its first observation stands alone."""
        self.past = Past((observation,))
        return observation

    def tell(self, action: str, observation: str) -> str:
        """The chronological text up to an observation that followed an action."""
        self._actions.append(action)
        parts = [observation]
        for back in range(1, 1 + max(len(self._actions), len(self._observations))):
            if len(self._actions) >= back:
                parts.append(self._actions[-back])
            if len(self._observations) >= back:
                parts.append(self._observations[-back])
        self._observations.append(observation)
        return SEPARATOR.join(reversed(parts))

    @property
    def past(self) -> Past:
        """What the next text will begin with."""
        return Past(tuple(self._observations), tuple(self._actions))

    @past.setter
    def past(self, past: Past) -> None:
        self._observations.clear()
        self._actions.clear()
        self._observations.extend(past.observations)
        self._actions.extend(past.actions)

    def canonical_state(self) -> str:
        """Canonical JSON of the past."""
        return canonical_json(self.past)
