"""Did-you-mean: the nearest right word to a wrong one."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(word: str, words: Iterable[str]) -> str | None:
    """The word that was probably meant, or None when nothing is near. Ties go by name."""
    by_folded = {right.casefold(): right for right in sorted(words, reverse=True)}
    found = get_close_matches(word.casefold()[:200], sorted(by_folded), n=1, cutoff=0.6)
    return by_folded[found[0]] if found else None


def did_you_mean(word: str, words: Iterable[str]) -> str:
    """``; did you mean 'x'?`` or nothing, to be put behind a statement."""
    right = nearest(word, words)
    return f"; did you mean '{right}'?" if right is not None and right != word else ""


def hint(word: str, words: Iterable[str]) -> str:
    """The end of a statement that another sentence follows: did-you-mean, or a full stop."""
    return did_you_mean(word, words) or "."


def listed(words: Iterable[str], limit: int = 20) -> str:
    """The words with commas, cut after `limit` of them."""
    all_words = list(words)
    text = ", ".join(all_words[:limit])
    return f"{text}, … ({len(all_words)} in all)" if len(all_words) > limit else text
