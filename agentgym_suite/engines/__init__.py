"""Token generation: one protocol (``tokens``), and the engines that keep it.

Nothing is imported here, so that the protocol costs neither torch nor vLLM.
"""
