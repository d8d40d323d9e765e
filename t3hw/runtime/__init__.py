"""Software of a ring: plans, the driver of a node, transports, and a functional model of nodes.

`plan` makes plans as plain data; `device` programs one node's part of a plan into it and waits;
`transport` is what lies between; `functional_ring` is a ring without hardware, for trying all of
it.
"""
