"""Teach a hopper to run: a short-horizon actor-critic follows gradients of the simulation.

The actor of SHAC follows the gradient of the discounted reward of a short rollout plus the critic's value at
its end, through physics and contact. Run it with ``python -m newtonsim.examples shac_hopper``; it needs
``newtonsim[torch]`` and ``newtonsim[plot]``. After ``shac_hopper FOLDER PPO``, the plot in the folder has the
curve of PPO, too, which sees rewards alone, with the same networks, environment and number of samples.

Sources: Xu et al., "Accelerated policy learning with parallel differentiable simulation", ICLR 2022; Schulman
et al., "Proximal policy optimization algorithms", 2017.
"""

import copy
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

import newtonsim
from newtonsim import diff
from newtonsim.examples import asset_path
from newtonsim.importers import parse_mjcf
from newtonsim.solvers import FeatherstoneSolver

WORLDS, DT, SUBSTEPS, HORIZON = 64, 1.0 / 240.0, 4, 16
SAMPLES = 150 * WORLDS * HORIZON
EPISODE = 300  # steps of an episode: 5 s
GAMMA, LAMBDA = 0.99, 0.95
REWARD_SCALE = 0.1  # brings values to the size of one
LONGEST = 10.0  # of the gradient of a state by one world, over that of one step's reward
EFFORT = 200.0  # [N m]
STANDING = 1.25  # height of the torso where its slide is at 0 [m]


def hoppers(worlds: int) -> newtonsim.Model:
    """Return worlds with one hopper each."""
    robot = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    path = asset_path("hopper.xml")
    parse_mjcf(path, robot, ignore_inertial_definitions=False, contact_restitution=0.0)
    scene = newtonsim.ModelBuilder(up_vector=(0, 0, 1))
    scene.replicate(robot, worlds, spacing=(0, 0, 0))
    scene.set_ground_plane()
    model = scene.finalize(requires_grad=True)
    model.joint_effort_limit.fill_(float("inf"))  # actions are bounded already
    return model


class Hopper:
    """Worlds with one hopper each, whose step is a function of tensors."""

    def __init__(self, seed: int):
        model = hoppers(WORLDS)
        solver = FeatherstoneSolver(model)
        rollout = diff.Rollout(
            model,
            solver,
            SUBSTEPS,
            DT,
            wrt=("state.joint_q", "state.joint_qd", "control.joint_act"),
            checkpoint="tape",
        )
        self.advance = diff.torch_function(
            rollout,
            ("state.joint_q", "state.joint_qd", "control.joint_act"),
            outputs=("joint_q", "joint_qd"),
        )
        self.home = torch.tensor(model.joint_q.numpy()[:6])
        self.noise = torch.Generator().manual_seed(seed)
        self.reset_all()

    def reset_all(self) -> None:
        """Put all hoppers back, at different times of their episodes."""
        self.q, self.qd = self.starts(WORLDS)
        self.age = torch.randint(0, EPISODE, (WORLDS,), generator=self.noise)
        self.gained = torch.zeros(WORLDS)
        self.ended: list[float] = []

    def starts(self, count: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Slightly different starts (count, 6) each."""
        q = self.home + 0.05 * torch.randn(count, 6, generator=self.noise)
        q[:, 0] = 0.0
        return q, 0.05 * torch.randn(count, 6, generator=self.noise)

    def observe(self) -> torch.Tensor:
        """What the policy sees: all but the way run (WORLDS, 11)."""
        return observe(self.q, self.qd)

    def step(self, action: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Advance by four steps; returns rewards, falls, and ends of episodes (WORLDS,) each."""
        before = self.q[:, 0]
        torque = torques(action)
        _, q, qd = self.advance(self.q.reshape(-1), self.qd.reshape(-1), torque)
        self.q, self.qd = q.reshape(WORLDS, 6), qd.reshape(WORLDS, 6)
        for tensor in (self.q, self.qd):
            if tensor.requires_grad:
                tensor.register_hook(shorten)
        speed = (self.q[:, 0] - before) / (SUBSTEPS * DT)
        height, pitch = STANDING + self.q[:, 1], self.q[:, 2]
        reward = 2.0 * speed.clamp(-3.0, 3.0) + 0.5 - 2.0 * pitch**2 - 2.0 * (height - 1.2) ** 2
        reward = REWARD_SCALE * (reward - 0.1 * (action**2).sum(dim=1))
        self.age += 1
        self.gained += torch.nan_to_num(reward.detach())
        fallen = has_fallen(height, pitch) | ~torch.isfinite(reward)
        return reward, fallen.detach(), (self.age >= EPISODE) & ~fallen.detach()

    def restart(self, ended: torch.Tensor) -> None:
        """Put the hoppers back that fell or whose time is over."""
        if ended.any():
            q, qd = self.starts(WORLDS)
            self.q = torch.where(ended[:, None], q, self.q)
            self.qd = torch.where(ended[:, None], qd, self.qd)
            self.ended = (self.ended + self.gained[ended].tolist())[-100:]
            self.age[ended], self.gained[ended] = 0, 0.0

    def detach(self) -> None:
        """Cut the gradient off the past."""
        self.q, self.qd = self.q.detach(), self.qd.detach()


def observe(q: torch.Tensor, qd: torch.Tensor) -> torch.Tensor:
    """Return all coordinates but the way run, and all speeds (worlds, 11)."""
    return torch.cat([q[:, 1:], qd.clamp(-10.0, 10.0) * 0.2], dim=1)


def has_fallen(height: torch.Tensor | float, pitch: torch.Tensor | float) -> torch.Tensor | bool:
    """Whether the torso is too low [m], or leans too far [rad]."""
    return (height < 0.8) | (abs(pitch) > 0.9)


def torques(action: torch.Tensor) -> torch.Tensor:
    """Return generalised forces (6 worlds,) for actions (worlds, 3): nothing moves the root."""
    return torch.cat([torch.zeros(len(action), 3), EFFORT * action], dim=1).reshape(-1)


def shorten(gradient: torch.Tensor) -> torch.Tensor:
    """Bound the gradient of each world's state: single falls would outweigh all else."""
    longest = LONGEST / (WORLDS * HORIZON)
    return gradient * (longest / gradient.norm(dim=1, keepdim=True).clamp(min=longest))


def network(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers."""
    net = nn.Sequential(
        nn.Linear(inputs, 64), nn.ELU(), nn.LayerNorm(64), nn.Linear(64, 64), nn.ELU(), nn.Linear(64, outputs)
    )
    nn.init.orthogonal_(net[-1].weight, 0.01)
    return net


class Policy(nn.Module):
    """Gaussian before a tanh."""

    def __init__(self):
        super().__init__()
        self.mean = network(11, 3)
        self.log_std = nn.Parameter(torch.full((3,), -1.0))

    def distribution(self, seen: torch.Tensor) -> torch.distributions.Normal:
        """Distribution of actions before the tanh."""
        return torch.distributions.Normal(self.mean(seen), self.log_std.exp())


def update(optimizer: torch.optim.Optimizer, loss: torch.Tensor, modules: nn.Module, most: float) -> None:
    """One step with a clipped gradient; a gradient that is not finite is left out."""
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(modules.parameters(), most)
    if torch.isfinite(norm):
        optimizer.step()


def fit_critic(
    critic: nn.Module, optimizer: torch.optim.Optimizer, seen: torch.Tensor, wanted: torch.Tensor
) -> None:
    """A few epochs of regression."""
    for _ in range(4):
        for batch in torch.randperm(len(seen)).split(256):
            error = (critic(seen[batch])[:, 0] - wanted[batch]).square().mean()
            update(optimizer, error, critic, 1.0)


class Batch:
    """What happened in HORIZON steps of all worlds; lists over time."""

    def __init__(self):
        self.seen, self.raw, self.reward, self.fallen, self.over, self.after = [], [], [], [], [], []

    def returns(self, critic: nn.Module) -> tuple[torch.Tensor, torch.Tensor]:
        """TD(λ) returns and the values of the critic, (HORIZON, WORLDS) each."""
        with torch.no_grad():
            values = torch.stack([critic(x)[:, 0] for x in self.seen])
            after = torch.stack([critic(x)[:, 0] for x in self.after])
        result, later = torch.zeros_like(values), after[-1]
        for t in reversed(range(HORIZON)):
            ends = self.over[t] | (torch.tensor(t == HORIZON - 1))
            mixed = torch.where(ends, after[t], (1.0 - LAMBDA) * after[t] + LAMBDA * later)
            later = self.reward[t].detach() + GAMMA * torch.where(self.fallen[t], 0.0, mixed)
            result[t] = later
        return result, values


def collect(
    hopper: Hopper, policy: Policy, critic: nn.Module, with_gradient: bool
) -> tuple[Batch, torch.Tensor]:
    """Run HORIZON steps; returns what happened and the discounted reward, with the values of all ends."""
    batch, total, discount = Batch(), torch.zeros(()), torch.ones(WORLDS)
    hopper.detach()
    for t in range(HORIZON):
        with torch.set_grad_enabled(with_gradient):
            seen = hopper.observe()
            raw = policy.distribution(seen).rsample()
            reward, fallen, over = hopper.step(torch.tanh(raw))
            after = hopper.observe()
            ends = over | torch.tensor(t == HORIZON - 1)
            value = torch.where(ends & ~fallen, GAMMA * critic(after)[:, 0], 0.0) if with_gradient else 0.0
            total = total + (discount * torch.where(torch.isfinite(reward), reward + value, 0.0)).sum()
            discount = torch.where(fallen | over, 1.0, GAMMA * discount)
            for store, item in zip(
                (batch.seen, batch.raw, batch.reward, batch.fallen, batch.over, batch.after),
                (seen, raw, reward, fallen, over, after),
                strict=True,
            ):
                store.append(item.detach())
            hopper.restart(fallen | over)
    return batch, total / (WORLDS * HORIZON)


def train_shac(seed: int) -> tuple[list[float], Policy]:
    """Follow the gradient of the short-horizon return."""
    torch.manual_seed(seed)
    hopper, policy, critic = Hopper(seed), Policy(), network(11, 1)
    target = copy.deepcopy(critic)
    actor_steps = torch.optim.Adam(policy.parameters(), lr=4e-3, betas=(0.7, 0.95))
    critic_steps = torch.optim.Adam(critic.parameters(), lr=2e-3)
    curve = []
    for iteration in range(SAMPLES // (WORLDS * HORIZON)):
        share = 1.0 - 0.9 * iteration * WORLDS * HORIZON / SAMPLES
        actor_steps.param_groups[0]["lr"] = 4e-3 * share
        batch, total = collect(hopper, policy, target, with_gradient=True)
        update(actor_steps, -total, policy, 1.0)
        wanted, _ = batch.returns(target)
        fit_critic(critic, critic_steps, torch.cat(batch.seen), wanted.reshape(-1))
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), critic.parameters(), strict=True):
                slow.lerp_(fast, 0.6)
        curve.append(float(np.mean(hopper.ended or [0.0])) / REWARD_SCALE)
    return curve, policy


def train_ppo(seed: int) -> tuple[list[float], Policy]:
    """Proximal policy optimization from rewards."""
    torch.manual_seed(seed)
    hopper, policy, critic = Hopper(seed), Policy(), network(11, 1)
    actor_steps = torch.optim.Adam(policy.parameters(), lr=1e-3)
    critic_steps = torch.optim.Adam(critic.parameters(), lr=1e-3)
    curve = []
    for iteration in range(SAMPLES // (WORLDS * HORIZON)):
        share = 1.0 - 0.9 * iteration * WORLDS * HORIZON / SAMPLES
        actor_steps.param_groups[0]["lr"] = 1e-3 * share
        batch, _ = collect(hopper, policy, critic, with_gradient=False)
        wanted, values = batch.returns(critic)
        seen, raw = torch.cat(batch.seen), torch.cat(batch.raw)
        advantage = (wanted - values).reshape(-1)
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-6)
        with torch.no_grad():
            before = policy.distribution(seen).log_prob(raw).sum(dim=1)
        for _ in range(5):
            for part in torch.randperm(len(seen)).split(256):
                ratio = (policy.distribution(seen[part]).log_prob(raw[part]).sum(dim=1) - before[part]).exp()
                clipped = ratio.clamp(0.8, 1.2)
                gain = torch.minimum(ratio * advantage[part], clipped * advantage[part]).mean()
                update(actor_steps, -gain, policy, 0.5)
        fit_critic(critic, critic_steps, seen, wanted.reshape(-1))
        curve.append(float(np.mean(hopper.ended or [0.0])) / REWARD_SCALE)
    return curve, policy


def play(policy: Policy) -> tuple[float, float]:
    """Let one hopper run without noise, until it falls or for an episode; return the way [m] and time [s]."""
    model = hoppers(1)
    sim = newtonsim.Simulator(model, FeatherstoneSolver(model), DT)
    for _ in range(EPISODE):
        q, qd = (torch.tensor(array.numpy())[None] for array in (sim.state.joint_q, sim.state.joint_qd))
        with torch.no_grad():
            action = torch.tanh(policy.distribution(observe(q, qd)).mean)
        sim.control.joint_act.assign(torques(action).numpy())
        sim.step(SUBSTEPS)
        way, height, pitch = (float(x) for x in sim.state.joint_q.numpy()[:3])
        if has_fallen(STANDING + height, pitch):
            break
    return way, sim.time


TRAIN = {"SHAC": train_shac, "PPO": train_ppo}


def main(folder: str = ".", *others: str) -> None:
    """Train SHAC, and others by name; print and plot the rewards."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    torch.set_num_threads(1)
    curves, policies = {}, {}
    for name in ("SHAC", *others):
        start = time.perf_counter()
        curve, policies[name] = TRAIN[name](seed=0)
        curves[name] = np.array(curve)
        spent = time.perf_counter() - start
        print(f"{name}: episodes return {curves[name][-1]:.0f} after {SAMPLES} steps, {spent:.0f} s")
    figure, axes = plt.subplots(figsize=(6, 4))
    for name, curve in curves.items():
        axes.plot(np.arange(1, len(curve) + 1) * WORLDS * HORIZON / 1000, curve, label=name)
    axes.set(xlabel="thousands of steps of the environment", ylabel="return of the last 100 episodes")
    axes.legend()
    path = Path(folder) / "shac_hopper.png"
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    print(f"curves in {path}")
    way, seconds = play(policies["SHAC"])
    print(f"without noise the hopper of SHAC runs {way:.1f} m in {seconds:.1f} s")
    # a hopper that stands still for a whole episode gets 150
    assert curves["SHAC"][-1] > 250.0, "the hopper should run"


if __name__ == "__main__":
    main(*sys.argv[1:])
