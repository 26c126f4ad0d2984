"""Environments of `newtonsim.envs` behind the interfaces of learning libraries.

`newtonsim.adapters.rsl_rl_env.RslRlEnv` (extra "learn") is one of rsl-rl's,
`newtonsim.adapters.stable_baselines3_env.Sb3Env` (extra "stable-baselines3") one of stable-baselines3's, and
`newtonsim.adapters.skrl_env.SkrlEnv` (extra "skrl") one of skrl's.
"""
