"""Find a good place for a cup on a cluttered table: 1024 candidates, tried at once in shadows of the world.

A place is good if the cup touches nothing else there and stays, and if the arm can reach it. Of the good
places that a camera sees, the cup is put at the one with the most room around it. Writes a picture.
Run it with ``python -m newtonsim.examples cup_on_a_table [FOLDER]``; it needs ``newtonsim[plot]``.
"""

import pathlib
import sys
import time

import numpy as np

from newtonsim.bullet_world import BulletWorld, Object, Use_shadow_world
from newtonsim.bullet_world.reasoning import contact, reachable, stable, visible

CANDIDATES = 1024
TOP = 0.625  # height of the table [m]
CAMERA = [[1.6, 0.0, 1.35], [0.0, 0.2, 0.98, 0.0]]  # beyond the table, looks back and down
HAND = "lbr_iiwa_link_7"
CLUTTER = {
    "block": ("cube_small.urdf", [(0.1, 0.1), (0.16, 0.12), (0.35, -0.3), (-0.05, -0.35), (0.5, 0.3)]),
    "lego": ("lego/lego.urdf", [(0.2, -0.1), (0.05, 0.3)]),
    "domino": ("domino/domino.urdf", [(0.3, 0.15), (0.32, 0.2), (0.34, 0.25)]),
    "duck": ("duck_vhacd.urdf", [(0.55, -0.05)]),
}


def set_table(world: BulletWorld) -> tuple[Object, Object, Object, list[Object]]:
    """Fill a world, and return the table, the cup, the arm and what else stands on the table."""
    table = Object("table", "environment", "table/table.urdf", fixed_base=True, world=world)
    arm = Object("arm", "robot", "kuka_iiwa/model.urdf", [-0.5, 0.0, TOP], fixed_base=True, world=world)
    clutter = []
    for name, (path, places) in CLUTTER.items():
        for x, y in places:
            thing = Object(name, "clutter", path, world=world)
            thing.set_position([x, y, TOP + 0.002], base=True)
            clutter.append(thing)
    cup = Object("cup", "cup", "objects/mug.urdf", [0.0, 2.0, 0.1], world=world)
    world.set_robot(arm)
    world.simulate(1.0)
    return table, cup, arm, clutter


def upright(cup: Object, places: np.ndarray) -> np.ndarray:
    """Poses (n, 7) of the cup that stands at places (n, 2) of the table."""
    with Use_shadow_world():
        twin = cup.world.get_shadow_object(cup)
        twin.set_position_and_orientation([0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0])
        height = TOP + 0.002 - twin.get_base_origin()[2]
    turn = np.tile([0.0, 0.0, 0.0, 1.0], (len(places), 1))
    return np.c_[places, np.full(len(places), height), turn]


def judge(world: BulletWorld, cup: Object, arm: Object, poses: np.ndarray) -> dict[str, np.ndarray]:
    """Answer for each candidate what makes it good, bool (n,) each."""
    others = [item for item in world.objects if item is not cup and item.type != "environment"]
    hands = poses[:, :3] + [0.0, 0.0, 0.2]
    return {
        "free": ~np.any([contact(cup, other, poses) for other in others], axis=0),
        "stable": stable(cup, poses, seconds=0.5),
        "reachable": reachable(arm, hands, HAND, tolerance=0.02),
    }


def main() -> None:
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ".")
    rng = np.random.default_rng(0)
    with BulletWorld("DIRECT") as world:
        _, cup, arm, clutter = set_table(world)
        poses = upright(cup, rng.uniform([-0.8, -0.55], [0.8, 0.55], (CANDIDATES, 2)))
        start = time.perf_counter()
        answers = judge(world, cup, arm, poses)
        seconds = time.perf_counter() - start
        good = np.all(list(answers.values()), axis=0)
        room = clearance(poses, [thing.get_position() for thing in (*clutter, arm)])
        for best in np.argsort(-np.where(good, room, -np.inf)):
            cup.set_position_and_orientation(poses[best, :3], poses[best, 3:])
            if visible(cup, CAMERA):
                break
        world.simulate(1.0)
        for name, answer in answers.items():
            print(f"{name:10} {np.count_nonzero(answer):5d} of {CANDIDATES}")
        print(f"{'good':10} {np.count_nonzero(good):5d} of {CANDIDATES}, judged in {seconds:.1f} s")
        x, y, z = cup.get_position()
        print(f"the cup stands at ({x:.2f}, {y:.2f}, {z:.2f}) m, {room[best]:.2f} m from the next thing")
        plot(folder / "cup_on_a_table.png", world, poses, good, best)


def clearance(poses: np.ndarray, things: list) -> np.ndarray:
    """Distance of each candidate from the nearest thing, or from the edge of the table [m] (n,)."""
    near = np.linalg.norm(poses[:, None, :2] - np.array(things)[None, :, :2], axis=2).min(axis=1)
    edge = np.minimum(0.75 - np.abs(poses[:, 0]), 0.5 - np.abs(poses[:, 1]))
    return np.minimum(near, edge)


def plot(path: pathlib.Path, world: BulletWorld, poses: np.ndarray, good: np.ndarray, best: int) -> None:
    """Write a picture of the table, and a map of the candidates."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    client = world.client
    view = client.computeViewMatrix([1.4, -1.6, 1.9], [-0.05, 0.0, TOP + 0.3], [0, 0, 1])
    projection = client.computeProjectionMatrixFOV(54.0, 4 / 3, 0.1, 10.0)
    picture = client.getCameraImage(640, 480, view, projection, shadow=1, lightDirection=[1, -1, 2])[2]
    figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.5))
    left.imshow(np.reshape(picture, (480, 640, 4)))
    left.set_axis_off()
    right.scatter(*poses[~good, :2].T, s=4, color="0.75", label="touches, falls or\nout of reach")
    right.scatter(*poses[good, :2].T, s=8, color="tab:green", label="good")
    right.plot(*poses[best, :2], "*", color="tab:red", markersize=16, label="chosen")
    clutter = np.array([item.get_position() for item in world.get_objects_by_type("clutter")])
    right.plot(*clutter[:, :2].T, "s", color="tab:blue", label="clutter")
    right.plot(*world.robot.get_position()[:2], "o", color="black", markersize=14, label="arm, its base")
    right.add_patch(plt.Rectangle((-0.75, -0.5), 1.5, 1.0, fill=False, label="table"))
    right.set(aspect="equal", xlabel="x [m]", ylabel="y [m]", title=f"{len(poses)} places for a cup")
    right.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
