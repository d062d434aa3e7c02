"""The connected components of a graph whose edges arrive as a stream: a topology with a loop.

Input: one edge per line, two node numbers with a blank between.

In every epoch, the nodes whose component has changed leave, with its name. A node's last row is its
component.

Source: the propagation of least labels is Kang, Tsourakakis and Faloutsos, "PEGASUS: a peta-scale graph
mining system" (2009), section 4.4; Murray et al., "Naiad: a timely dataflow system" (2013), section 6.4, show
it incrementally, in a loop inside of each epoch.

Decisions of this program (those of its operators are in `operators.py`):

Names
    A component is named by its least node.
Epochs
    are 25 lines of the whole input. All edges up to an epoch's end have their effect in it, unless it takes
    more than 1,000 rounds; then the rest is told with the next epochs. A line that can't be parsed is a dead
    letter, and is still one of the 25.
Edges
    have no direction, and are never taken away. One from a node to itself makes it known, as a component of
    its own.

Run, check and draw::

    scripts/run apps/components/topology.yaml
    .venv/bin/python -m apps.components.check
    .venv/bin/python -m apps.components.draw
"""
