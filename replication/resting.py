"""When a replica has nothing to agree on, and so little to say and nobody to miss (used by `consensus`)."""

from __future__ import annotations

from streammine.model.agreement import AgreementSettings


class Rest:
    """`is_on`: nothing has been open for a while."""

    def __init__(self, settings: AgreementSettings) -> None:
        self.is_on = False
        self._settings = settings
        self._open_at = 0.0
        self._woken_at = -settings.silence_seconds

    def note(self, open_now: bool, now_seconds: float) -> None:
        if open_now:
            self._open_at = now_seconds
        rests = now_seconds - self._open_at >= 2 * self._settings.rest_seconds
        if self.is_on and not rests:
            self._woken_at = now_seconds
        self.is_on = rests

    @property
    def repeat_seconds(self) -> float:
        """Between tellings of the same."""
        return self._settings.rest_seconds if self.is_on else self._settings.repeat_seconds

    def silence_seconds(self, now_seconds: float) -> float:
        """Until a peer counts as lost: longer while it may rest."""
        silence = self._settings.silence_seconds
        woken = now_seconds - self._woken_at >= silence
        return silence if woken and not self.is_on else silence + self._settings.rest_seconds
