"""Device code only, one folder per stage of the computation; all physics is here.

Imports point one way: `views`, then `algebra`, then `trees`, `collision` and `steps`, then `constraints` and
`queries`, then `maximal`, `camera`, `envs` and `mujoco`, then `particles`, then `penalty`.

The head of each file ends with its stage, its callers, what it reads and what it writes; docs/kernels.md has
the callers and tests of all.
"""
