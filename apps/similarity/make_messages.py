"""Writes the messages that the search starts with.

The same call writes the same bytes everywhere: ``python -m apps.similarity.make_messages [FOLDER]``.

An hour of messages out of eight areas. Each area talks about some topics for a while; some messages say
again, in part, what one of the last ones has said.
"""

from __future__ import annotations

import csv
import io
import random
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "data"
MESSAGES = 1_500
AREAS = (
    "altstadt",
    "blasewitz",
    "cotta",
    "friedrichstadt",
    "johannstadt",
    "loschwitz",
    "neustadt",
    "plauen",
)
SECONDS = 3_600
FIRST_SECOND = 1_433_160_000
SEED = 2015

TOPICS = (
    "bridge traffic closed morning lorry queue detour police tram waiting river north",
    "market cheese apples honey stall baker early crowd square sunny bread music",
    "concert tonight tickets stage guitar singer encore doors queue garden free drums",
    "storm rain umbrella lightning thunder flooded street cellar wind roof trees dark",
    "football match goal keeper penalty referee crowd second half corner scarf derby",
    "library reading author novel signing chairs questions evening poems history signed",
    "train delay platform seven announcement signal late again connection missed station",
    "harvest vineyard wine tasting terrace grapes cellar autumn steep view evening slope",
)
FILLERS = (
    "today",
    "really",
    "still",
    "just",
    "about",
    "think",
    "maybe",
    "never",
    "people",
    "always",
    "with",
)


def messages(seed: int = SEED) -> list[tuple[int, int, str, str]]:
    """(number, second, area, text), in the order of their times."""
    chance = random.Random(seed)
    # random() gives the same numbers in every Python; other methods do not promise it.
    seconds = sorted(int(chance.random() * SECONDS) for _ in range(MESSAGES))
    topics = [topic.split() for topic in TOPICS]
    said: dict[str, list[str]] = {area: [] for area in AREAS}
    found = []
    for number, second in enumerate(seconds):
        # the product of two even chances lies near 0 more often than not
        area = AREAS[int(len(AREAS) * chance.random() * chance.random())]
        if said[area] and chance.random() < 0.3:
            words = said[area][-1 - int(min(9, len(said[area])) * chance.random())].split()
            words = [word for word in words if chance.random() < 0.7]
        else:
            topic = topics[(second // 600 + len(area) + int(2 * chance.random())) % len(topics)]
            words = [topic[int(len(topic) * chance.random())] for _ in range(4)]
        words += [FILLERS[int(len(FILLERS) * chance.random())] for _ in range(3)]
        text = " ".join(words).capitalize() + ("!" if chance.random() < 0.2 else ".")
        said[area].append(text.lower().strip("!."))
        found.append((number, FIRST_SECOND + second, area, text))
    return found


def write_messages(folder: Path) -> Path:
    """Write the file, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "messages.csv"
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(("message", "ts", "area", "text"))
    rows.writerows(messages())
    path.write_bytes(text.getvalue().encode())
    return path


if __name__ == "__main__":
    written = write_messages(Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER)
    print(f"{written}: {written.stat().st_size:,} bytes")
