"""Scenes that put contact and constraints to the test, shared by tests, documentation and benchmarks.

Each function returns a `ModelBuilder`, z up, in SI units. What ought to rest starts at rest, touching what it
lies on; what ought to fall or swing has its push in the initial state. All scenes are made for the default
solver at 1/240 s. See them by finalizing one and stepping it with `newtonsim.Simulator`::

    model = card_house().finalize()
    simulator = newtonsim.Simulator(model, FeatherstoneSolver(model), dt=1.0 / 240.0)
    simulator.step(2400)
"""

from newtonsim.examples.scenes.containers import BALL_PIT_WIDTH as BALL_PIT_WIDTH
from newtonsim.examples.scenes.containers import ball_pit as ball_pit
from newtonsim.examples.scenes.containers import bolt_in_box as bolt_in_box
from newtonsim.examples.scenes.containers import hills as hills
from newtonsim.examples.scenes.containers import humanoid_on_terrain as humanoid_on_terrain
from newtonsim.examples.scenes.deformables import CLOTH_SCRIPT as CLOTH_SCRIPT
from newtonsim.examples.scenes.deformables import gripper_and_cloth as gripper_and_cloth
from newtonsim.examples.scenes.deformables import gripper_and_soft_ball as gripper_and_soft_ball
from newtonsim.examples.scenes.deformables import quadruped_on_mat as quadruped_on_mat
from newtonsim.examples.scenes.impacts import DOMINO as DOMINO
from newtonsim.examples.scenes.impacts import domino_row as domino_row
from newtonsim.examples.scenes.impacts import newtons_cradle as newtons_cradle
from newtonsim.examples.scenes.mechanisms import FOUR_BAR as FOUR_BAR
from newtonsim.examples.scenes.mechanisms import GRASPED as GRASPED
from newtonsim.examples.scenes.mechanisms import GripperScript as GripperScript
from newtonsim.examples.scenes.mechanisms import four_bar as four_bar
from newtonsim.examples.scenes.mechanisms import gripper as gripper
from newtonsim.examples.scenes.piles import arch as arch
from newtonsim.examples.scenes.piles import box_pyramid as box_pyramid
from newtonsim.examples.scenes.piles import box_stack as box_stack
from newtonsim.examples.scenes.piles import box_wall as box_wall
from newtonsim.examples.scenes.piles import card_house as card_house
