"""Which joints of an SDFormat file form kinematic trees, and which close loops."""

from dataclasses import dataclass, field

from newtonsim.importers.sdf.records import WORLD, Joint, Scene


@dataclass(slots=True)
class Tree:
    """Joints by their part in the trees.

    Attributes:
        roots: Moving links that float or hang on the world, in the order of the file.
        above: Joint above each link that has one.
        below: Joints below each moving link.
        loops: Joints that close loops, or that hold a link at the world from below.
        needless: Joints between links that do not move.
    """

    roots: list[str] = field(default_factory=list)
    above: dict[str, Joint] = field(default_factory=dict)
    below: dict[str, list[Joint]] = field(default_factory=dict)
    loops: list[Joint] = field(default_factory=list)
    needless: list[Joint] = field(default_factory=list)


def find_tree(scene: Scene) -> Tree:
    """Sort the joints: each moving link gets the first joint that names it as child and closes no circle."""
    tree, group = Tree(), {name: name for name in scene.links}

    def is_static(name: str) -> bool:
        return name == WORLD or scene.links[name].static

    def leader(name: str) -> str:
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    for joint in scene.joints:
        if joint.kind == "gearbox":
            continue
        fixed = is_static(joint.parent), is_static(joint.child)
        if all(fixed):
            tree.needless.append(joint)
        elif fixed[1] or joint.child in tree.above:
            tree.loops.append(joint)
        elif fixed[0]:
            tree.above[joint.child] = joint
        elif leader(joint.parent) == leader(joint.child):
            tree.loops.append(joint)
        else:
            group[leader(joint.child)] = leader(joint.parent)
            tree.above[joint.child] = joint
            tree.below.setdefault(joint.parent, []).append(joint)
    for name, link in scene.links.items():
        joint = tree.above.get(name)
        if not link.static and (joint is None or is_static(joint.parent)):
            tree.roots.append(name)
    return tree
