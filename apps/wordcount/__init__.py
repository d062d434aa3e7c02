"""The words of a text: how often each occurs, and which were the most frequent lately.

Input: files of text, read one after the other in path order.

Word count (`topology.yaml`)
    How often each word occurs, in every 1,000 lines.
Top words (`top.yaml`)
    The ten most frequent words of the last 1,000 lines, anew after every 100.

Source: top words are the first of the two applications that Wu and Tan, "ChronoStream: elastic stateful
stream computation in the cloud" (ICDE 2015), section V, measure their system by. There, processing operators
leave out stop words and count the others over a sliding window, and what they found is ranked behind them.

Decisions of this program:

Words
    Runs of the letters A to Z, in lower case. Everything else separates words, letters beyond ASCII too.
Stop words
    Of top words, those of three letters and fewer: they are frequent everywhere, and tell nothing. That needs
    no list for each language.
Lines
    count in the order of the input, empty ones too. One that is not UTF-8 is a dead letter: it has no words,
    and still is one of the 1,000 or 100.
Windows
    of top words are as wide as ten times 100 lines and end with every 100. The first ones begin before the
    text and the last ones end behind it, so they hold fewer lines; one without words has no ranks.
Ranks
    More occurrences come first; of as many, the word that comes first in the alphabet.

Run, check and draw::

    scripts/run apps/wordcount/topology.yaml
    .venv/bin/python -m apps.wordcount.check
    scripts/run apps/wordcount/top.yaml
    .venv/bin/python -m apps.wordcount.check_top
    .venv/bin/python -m apps.wordcount.draw_top
"""
