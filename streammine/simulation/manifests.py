"""What must hold of the seals and manifests that committers write, as each is written."""

from __future__ import annotations

from streammine.model.manifest import Manifest, Seal, committed_chain


class ManifestBook:
    """All manifests, and the last of each committer. A paused one that was replaced may go on for a while:
    what it writes is on no chain that anybody follows, but must be in order all the same."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], Manifest] = {}
        self._all: dict[str, dict[str, Manifest]] = {}

    def sealed(self, location: str, seal: Seal) -> None:
        """What the seal goes on from counts under it, whatever is written beside it."""
        if seal.continues_from is None:
            return
        known = self._all[location]
        begins, reached = (
            known[seal.continues_from],
            committed_chain(known, seal, known.__getitem__)[-1],
        )
        assert (reached.last_epoch, reached.finished) >= (begins.last_epoch, begins.finished), (
            f"{location}, committer {seal.generation}: epoch {begins.last_epoch} was committed, and "
            f"what counts ends with epoch {reached.last_epoch}"
        )

    def written(self, location: str, manifest: Manifest) -> None:
        before = self._last.get((location, manifest.generation))
        self._last[location, manifest.generation] = manifest
        self._all.setdefault(location, {})[manifest.name] = manifest
        where = f"{location}, committer {manifest.generation}"
        self._check_lost(where, location, manifest)
        assert manifest.first_epoch <= manifest.last_epoch, f"{where}: epochs in reverse"
        if before is None:
            return
        assert not before.finished, f"{where}: a manifest follows the last one"
        assert manifest.sequence == before.sequence + 1, f"{where}: sequence {manifest.sequence}"
        assert manifest.previous == before.name, f"{where}: follows {manifest.previous}"
        assert manifest.finished or manifest.first_epoch > before.last_epoch, (
            f"{where}: epochs from {manifest.first_epoch} on were committed after epoch "
            f"{before.last_epoch}"
        )

    def _check_lost(self, where: str, location: str, manifest: Manifest) -> None:
        """What is lost before a manifest is counted in it, whoever wrote what is before it."""
        lost = 0
        if manifest.previous is not None:
            previous = self._all[location][manifest.previous]
            lost = previous.lost_before + previous.lost_count
        assert manifest.lost_before == lost, (
            f"{where}: {manifest.name} counts {manifest.lost_before} lost epochs before it, which are {lost}"
        )
