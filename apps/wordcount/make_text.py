"""Writes the small text that the word count starts with: a year in a harbour town, in four files.

The same call writes the same bytes everywhere: ``python -m apps.wordcount.make_text [FOLDER]``.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

FOLDER = Path(__file__).parent / "text"
SEASONS = ("spring", "summer", "autumn", "winter")
PARAGRAPHS_PER_SEASON = 150
SEED = 2015


def _phrases(text: str) -> list[str]:
    return text.split(",")


_PEOPLE = _phrases(
    "the harbour master,the baker,a young clerk,the lighthouse keeper,an old sailor,the miller,"
    "the schoolteacher,a fisherman,the ferryman,a travelling merchant,the doctor,the clockmaker,"
    "a shepherd from the hills,the captain's daughter,the postman,the widow at the corner"
)
_DEEDS = _phrases(
    "counted,mended,watched,sold,carried,painted,remembered,forgot,weighed,described,borrowed,"
    "measured,inspected,praised,collected,repaired,sorted,admired"
)
_THINGS = _phrases(
    "the nets,a crate of oranges,the northern beacon,every boat in the harbour,two barrels of salt,"
    "the morning letters,a broken compass,the church bell,the long stone pier,a map of the islands,"
    "the flour sacks,an unfinished letter,the tide tables,a basket of herring,the old copper lamp,"
    "a bundle of sailcloth,the ledger of the guild,three silver coins"
)
_PLACES = _phrases(
    "on the quay,behind the market hall,by the river mouth,at the foot of the tower,"
    "under the linden trees,in the narrow street,near the western gate,along the sea wall,"
    "beside the ferry landing,in the back room of the inn,on the highest roof,at the mill pond"
)
_TIMES = _phrases(
    "before sunrise,at noon,when the fog had lifted,after the evening bell,while the rain fell,"
    "as the tide turned,on market day,long after midnight,for the third time that week,"
    "without a single word,with great care,as if nothing had happened"
)
_REMARKS = _phrases(
    "Nobody asked why.,The wind had turned to the east.,It was a day like any other.,"
    "The gulls were louder than usual.,There was still time.,The lamps were lit early.,"
    "That was the end of it.,The sea stayed calm."
)
_WEATHER = {
    "spring": "mild,windy,bright,showery,fresh",
    "summer": "hot,still,cloudless,golden,dry",
    "autumn": "misty,stormy,grey,damp,amber",
    "winter": "frosty,dark,silent,white,bitter",
}


def paragraphs(season: str, seed: int = SEED) -> Iterator[list[str]]:
    """Paragraphs of a season, each a list of lines of one sentence."""
    chance = random.Random(f"{season} {seed}")

    def one_of(words: list[str]) -> str:
        # random() gives the same numbers in every Python; choice() does not promise it.
        return words[int(chance.random() * len(words))]

    for number in range(1, PARAGRAPHS_PER_SEASON + 1):
        weather = one_of(_WEATHER[season].split(","))
        lines = [f"Day {number} of the {season} was {weather}."]
        for _ in range(3 + int(chance.random() * 4)):
            subject = one_of(_PEOPLE)
            sentence = f"{one_of(_TIMES)}, {subject} {one_of(_DEEDS)} {one_of(_THINGS)}"
            if chance.random() < 0.5:
                sentence += f" and {one_of(_DEEDS)} {one_of(_THINGS)} {one_of(_PLACES)}"
            lines.append(f"{sentence[0].upper()}{sentence[1:]}.")
        if chance.random() < 0.4:
            lines.append(one_of(_REMARKS))
        yield lines


def write_text(folder: Path) -> list[Path]:
    """Write one file per season, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = []
    for number, season in enumerate(SEASONS, start=1):
        text = "\n".join("\n".join(lines) + "\n" for lines in paragraphs(season))
        path = folder / f"{number}-{season}.txt"
        path.write_bytes(text.encode())
        paths.append(path)
    return paths


if __name__ == "__main__":
    for written in write_text(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER):
        print(f"{written}: {written.stat().st_size:,} bytes")
