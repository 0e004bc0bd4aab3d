"""How a GPU is cut in each regime: the rulers, and what is made under a vGPU (placements, GPU instances)."""
