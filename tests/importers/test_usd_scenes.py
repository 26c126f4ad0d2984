"""Whole stages: scenes, groups, filters, instances, clones, choices of what is read, and what comes back."""

import numpy as np
import pytest
from pxr import UsdPhysics
from usd_text import BODY, ROOT, SOLID, ops, prim, read, remarks, run, stage_of

import newtonsim
from newtonsim.importers import parse_usd

SCENE = prim("PhysicsScene", "scene")


def ball(name: str, at: tuple = (0, 0, 0), *schemas: str, inside: str = "") -> str:
    """A ball of radius 1."""
    return prim("Sphere", name, SOLID, *schemas, inside=ops(translate=at) + inside)


def touching(builder: newtonsim.ModelBuilder) -> set[frozenset[str]]:
    """Names of the shapes in each pair that may touch."""
    pairs = builder.finalize("cpu").shape_contact_pairs.numpy().tolist()
    return {frozenset(builder.shape_key[shape] for shape in pair) for pair in pairs}


def group(name: str, members: list[str], inside: str) -> str:
    """A CollisionGroup with colliders."""
    paths = ", ".join(f"<{path}>" for path in members)
    return prim(
        "PhysicsCollisionGroup",
        name,
        "CollectionAPI:colliders",
        inside=f"rel collection:colliders:includes = [{paths}]\n{inside}",
    )


@pytest.mark.parametrize(
    "inside",
    [
        ("rel physics:filteredGroups = </g1>", "", ""),
        ("", "rel physics:filteredGroups = [</g0>, </g2>]", ""),
        ("rel physics:filteredGroups = </g1>\nbool physics:invertFilteredGroups = 1", "", ""),
        (
            'string physics:mergeGroup = "m"',
            'string physics:mergeGroup = "m"\nrel physics:filteredGroups = </g2>',
            "",
        ),
    ],
)
def test_collision_groups_as_openusd_tables_them(inside):
    """Filtered, inverted and merged groups; what is in no group touches all."""
    groups = "".join(group(f"g{k}", [f"/b{k}"], lines) for k, lines in enumerate(inside))
    text = "".join(ball(f"b{k}", (3 * k, 0, 0), BODY) for k in range(4)) + groups
    builder, _ = read(text)
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(stage_of(text))
    expected = {
        frozenset((f"/b{i}", f"/b{j}"))
        for i in range(4)
        for j in range(i)
        if 3 in (i, j) or table.IsCollisionEnabled(f"/g{i}", f"/g{j}")
    }
    assert touching(builder) == expected


def test_groups_filter_their_own_members():
    """A group that filters itself."""
    text = (
        ball("a", (0, 0, 0), BODY)
        + ball("b", (3, 0, 0), BODY)
        + group("g", ["/a", "/b"], "rel physics:filteredGroups = </g>")
    )
    assert touching(read(text)[0]) == set()


def test_filtered_pairs():
    """Named on colliders, or on a prim with colliders below it; the rest touches."""
    below = prim("Xform", "robot", inside=ball("x", (9, 0, 0), BODY) + ball("y", (12, 0, 0), BODY))
    text = ball(
        "a", (0, 0, 0), BODY, "PhysicsFilteredPairsAPI", inside="rel physics:filteredPairs = [</b>, </robot>]"
    )
    text += ball("b", (3, 0, 0), BODY) + below
    free = {frozenset(pair) for pair in (("/b", "/robot/x"), ("/b", "/robot/y"), ("/robot/x", "/robot/y"))}
    assert touching(read(text)[0]) == free


def test_self_collisions_of_articulations():
    """PhysX's switch keeps the parts of one robot apart, not those of two."""

    def robot(name: str, x: float) -> str:
        arm = ball("a", (0, 0, 0), BODY) + ball("b", (0, 0, 3), BODY) + ball("c", (0, 0, 6), BODY)
        hinges = "".join(
            prim(
                "PhysicsRevoluteJoint",
                f"h{k}",
                inside=f"rel physics:body0 = </{name}/{first}>\n"
                f"rel physics:body1 = </{name}/{second}>\npoint3f physics:localPos0 = (0, 0, 3)",
            )
            for k, (first, second) in enumerate((("a", "b"), ("b", "c")))
        )
        off = "custom bool physxArticulation:enabledSelfCollisions = 0\n" if x else ""
        return prim("Xform", name, ROOT, inside=ops(translate=(x, 0, 0)) + off + arm + hinges)

    pairs = touching(read(robot("one", 0.0) + robot("two", 9.0))[0])
    assert frozenset(("/one/a", "/one/c")) in pairs
    assert frozenset(("/two/a", "/two/c")) not in pairs
    assert frozenset(("/one/a", "/two/c")) in pairs


def test_several_scenes():
    """The first counts, which is told; bodies of different scenes pass through each other."""
    text = prim("PhysicsScene", "s1", inside="float physics:gravityMagnitude = 1") + prim(
        "PhysicsScene", "s2", inside="float physics:gravityMagnitude = 2"
    )
    text += ball("a", (0, 0, 0), BODY, inside="rel physics:simulationOwner = </s1>")
    text += ball("b", (3, 0, 0), BODY, inside="rel physics:simulationOwner = </s2>") + ball(
        "stone", (6, 0, 0)
    )
    builder, result = read(text)
    assert builder.gravity == pytest.approx(-1.0)
    assert "gravity" in remarks(result, "unsupported", "/s2")[0]
    assert result["scene_attributes"]["physics:gravityMagnitude"] == 1.0
    assert touching(builder) == {frozenset(("/a", "/stone")), frozenset(("/b", "/stone"))}


def test_only_warp_scenes():
    """The scene of Warp counts, and only what it owns is loaded."""
    text = prim("PhysicsScene", "s1") + prim(
        "PhysicsScene", "s2", "warpSceneAPI", inside="float physics:gravityMagnitude = 2"
    )
    text += ball("a", (0, 0, 0), BODY) + ball(
        "b", (3, 0, 0), BODY, inside="rel physics:simulationOwner = </s2>"
    )
    text += prim("PhysicsFixedJoint", "j", inside="rel physics:body0 = </a>\nrel physics:body1 = </b>")
    builder, result = read(text, only_load_warp_scene=True)
    assert list(result["path_body_map"]) == ["/b"]
    assert list(result["path_shape_map"]) == ["/b"]
    assert builder.gravity == pytest.approx(-2.0)


BALLS = ball("base", (0, 0, 0), BODY) + ball("tip", (0, 0, 3), BODY)
PROTOTYPE = prim("Xform", "proto", word="class", inside=BALLS + prim(
    "PhysicsRevoluteJoint", "hinge", inside="rel physics:body0 = </proto/base>\n"
        "rel physics:body1 = </proto/tip>\npoint3f physics:localPos0 = (0, 0, 3)",
))  # fmt: skip


def test_instances_are_robots_of_their_own():
    """Two instances of one prototype, each with its bodies and joint."""
    text = PROTOTYPE + "".join(
        prim(
            "Xform",
            name,
            meta="instanceable = true\nprepend references = </proto>",
            inside=ops(translate=(x, 0, 0)),
        )
        for name, x in (("one", 0), ("two", 5))
    )
    builder, result = read(text)
    assert set(result["path_body_map"]) == {
        f"/{n}/{part}" for n in ("one", "two") for part in ("base", "tip")
    }
    joint = result["path_joint_map"]["/two/hinge"]
    assert builder.joint_child[joint] == result["path_body_map"]["/two/tip"]
    np.testing.assert_allclose(list(builder.body_q[result["path_body_map"]["/two/tip"]])[:3], [5, 0, 3])


def test_point_instances():
    """Placed, turned and stretched by the instancer; hidden ones are left out, joints stay inside each."""
    inside = """rel prototypes = </field/proto>
        int[] protoIndices = [0, 0, 0]
        int64[] invisibleIds = [1]
        point3f[] positions = [(0, 0, 0), (10, 0, 0), (20, 0, 0)]
        quath[] orientations = [(1, 0, 0, 0), (1, 0, 0, 0), (0, 1, 0, 0)]
        float3[] scales = [(1, 1, 1), (1, 1, 1), (2, 2, 2)]\n"""
    proto = PROTOTYPE.replace("class Xform", "def Xform").replace("</proto", "</field/proto")
    text = prim("PointInstancer", "field", inside=inside + ops(translate=(0, 0, 7)) + proto)
    builder, result = read(text)
    assert set(result["path_body_map"]) == {
        f"/field/proto_{n}/{part}" for n in (0, 2) for part in ("base", "tip")
    }
    tip = result["path_body_map"]["/field/proto_2/tip"]
    np.testing.assert_allclose(list(builder.body_q[tip])[:3], [20.0, 0.0, 1.0], atol=1e-5)
    assert builder.shape_geo_scale[result["path_shape_map"]["/field/proto_2/tip"]][0] == pytest.approx(2.0)
    joint = result["path_joint_map"]["/field/proto_2/hinge"]
    assert builder.joint_child[joint] == tip
    np.testing.assert_allclose(list(builder.joint_X_p[joint])[:3], [0, 0, 6], atol=1e-5)


def test_variants_and_references(tmp_path):
    """What the composed stage says counts: the chosen variant, and files next to the first."""
    (tmp_path / "parts.usda").write_text(
        '#usda 1.0\n(\ndefaultPrim = "part"\n'
        ")\n" + prim("Sphere", "part", BODY, SOLID, inside="double radius = 3")
    )
    variants = 'variantSet "size" = {\n"small" {\ndouble radius = 1\n}\n"large" {\ndouble radius = 2\n}\n}\n'
    choice = 'variants = {\nstring size = "large"\n}\nprepend variantSets = "size"'
    text = "#usda 1.0\n(\nmetersPerUnit = 1\n)\n" + prim(
        "Sphere", "chosen", BODY, SOLID, meta=choice, inside=variants
    )
    text += prim("Sphere", "far", meta="prepend references = @./parts.usda@")
    path = tmp_path / "main.usda"
    path.write_text(text)
    builder = newtonsim.ModelBuilder()
    result = parse_usd(str(path), builder)
    sizes = {key: builder.shape_geo_scale[index][0] for key, index in result["path_shape_map"].items()}
    assert sizes == {"/chosen": 2.0, "/far": 3.0}
    assert result["report"].path == str(path)


def environments(count: int) -> str:
    """A floor, and pendulums on stands, one per environment."""

    def environment(k: int) -> str:
        hinge = (
            f"rel physics:body0 = </World/envs/env_{k}/stand>\n"
            f"rel physics:body1 = </World/envs/env_{k}/bob>\npoint3f physics:localPos0 = (0, 0, 5)\n"
            f'point3f physics:localPos1 = (-2, 0, 0)\nuniform token physics:axis = "Y"'
        )
        inside = (
            ball("stand") + ball("bob", (2, 0, 5), BODY) + prim("PhysicsRevoluteJoint", "hinge", inside=hinge)
        )
        turn = ops(translate=(10 * k, 0, 0), rotateXYZ=(0, 0, 30 * k))
        return prim("Xform", f"env_{k}", inside=turn + inside)

    envs = prim("Xform", "envs", inside="".join(environment(k) for k in range(count)))
    return SCENE + prim("Xform", "World", inside=prim("Plane", "floor", SOLID) + envs)


def test_cloned_environments_are_those_of_the_stage():
    """Copies of one environment equal the environments read one by one, each in a world of its own."""
    text = environments(3)
    plain, first = read(text)
    cloned, second = read(text, cloned_env="/World/envs/env_0")
    assert cloned.num_envs == 3
    assert {path for path in first["path_body_map"]} == set(second["path_body_map"])
    for name, lists in (("path_body_map", ("body_q", "body_mass")), ("path_shape_map", ("shape_transform",))):
        for path, index in first[name].items():
            for values in lists:
                ours, theirs = getattr(plain, values)[index], getattr(cloned, values)[second[name][path]]
                np.testing.assert_allclose(np.array(ours), np.array(theirs), atol=1e-5, err_msg=path)
    assert [cloned.body_world[second["path_body_map"][f"/World/envs/env_{k}/bob"]] for k in range(3)] == [
        0,
        1,
        2,
    ]
    assert second["path_joint_map"].keys() == first["path_joint_map"].keys()
    for keys in ("body_key", "joint_key", "shape_key"):
        assert sorted(getattr(cloned, keys)) == sorted(getattr(plain, keys))
    for path, index in second["path_body_map"].items():
        assert cloned.body_key[index] == path
    assert len(set(cloned.articulation_key)) == len(cloned.articulation_key)
    (_, a), (_, b) = run(plain, 30), run(cloned, 30)
    np.testing.assert_allclose(a.joint_q.numpy(), b.joint_q.numpy(), atol=1e-5)


def test_clones_must_be_copies():
    """A sibling of another scale is named; so is an environment that is not there."""
    text = environments(2).replace('def Xform "env_1" (\n\n\n) {\n', 'def Xform "env_1" (\n\n\n) {\n')
    stage = stage_of(text)
    from pxr import UsdGeom

    UsdGeom.Xformable(stage.GetPrimAtPath("/World/envs/env_1")).AddScaleOp().Set((2, 2, 2))
    with pytest.raises(newtonsim.ImportFileError, match="/World/envs/env_1"):
        read(stage, cloned_env="/World/envs/env_0")
    with pytest.raises(newtonsim.ImportFileError, match=r"cloned_env.*/World/nothing"):
        read(stage, cloned_env="/World/nothing")


def test_ignored_paths_go_with_all_below_them():
    """And with the joints that need them, which is told."""
    text = prim("Xform", "robot", inside=ball("arm", (0, 0, 0), BODY)) + ball("rest", (5, 0, 0), BODY)
    text += prim(
        "PhysicsFixedJoint", "j", inside="rel physics:body0 = </rest>\nrel physics:body1 = </robot/arm>"
    )
    _, result = read(text, ignore_paths=["/robot"])
    assert list(result["path_body_map"]) == ["/rest"]
    assert "/robot/arm" in remarks(result, "ignored", "/j")[0]
    with pytest.raises(newtonsim.ModelError, match="ignore_paths"):
        read(text, ignore_paths=["("])


def test_root_path():
    """Only what is below it, where the prims above put it."""
    text = (
        SCENE
        + prim("Xform", "World", inside=ops(translate=(0, 0, 4)) + ball("in", (1, 0, 0), BODY))
        + ball("out", (0, 0, 0), BODY)
    )
    builder, result = read(text, root_path="/World")
    assert list(result["path_body_map"]) == ["/World/in"]
    np.testing.assert_allclose(list(builder.body_q[0])[:3], [1, 0, 4])
    with pytest.raises(newtonsim.ImportFileError, match=r"root_path.*'/Wrld'"):
        read(text, root_path="/Wrld")


@pytest.mark.parametrize("by_scene", [True, False])
def test_collapsed_fixed_joints(by_scene):
    """Welded bodies become one, by argument or as the scene says; maps follow."""
    flag = "custom bool warp:collapse_fixed_joints = 1" if by_scene else ""
    text = (
        prim("PhysicsScene", "scene", inside=flag) + ball("a", (0, 0, 0), BODY) + ball("b", (0, 0, 3), BODY)
    )
    text += prim(
        "PhysicsFixedJoint",
        "j",
        inside="rel physics:body0 = </a>\nrel physics:body1 = </b>\npoint3f physics:localPos0 = (0, 0, 3)",
    )
    plain, result = read(text.replace(flag, ""))
    assert result["collapse_results"] is None
    builder, result = read(text, collapse_fixed_joints=not by_scene)
    assert builder.body_count == 1
    assert result["path_body_map"] == {"/a": 0, "/b": 0}
    assert result["collapse_results"]["body_merged_parent"] == {1: 0}
    assert builder.body_mass[0] == pytest.approx(sum(plain.body_mass))


def test_a_second_import_counts_on():
    """Indices are those of the caller's builder."""
    builder, _ = read(ball("a", (0, 0, 0), BODY))
    _, result = read(ball("b", (5, 0, 0), BODY), builder=builder, collapse_fixed_joints=True)
    assert (result["path_body_map"], result["path_shape_map"]) == ({"/b": 1}, {"/b": 1})
    assert result["path_joint_map"] == {"/b_free": 1}


def test_all_entries_of_the_result():
    """As the reference lists them, and cameras and lights."""
    text = prim("PhysicsScene", "scene", inside="float physics:gravityMagnitude = 3") + ball(
        "a", (0, 0, 0), BODY
    )
    text += prim(
        "Camera",
        "eye",
        inside=ops(translate=(0, 0, 200)) + "float focalLength = 35\nfloat2 clippingRange = (5, 3000)\n",
    )
    text += prim(
        "SphereLight",
        "lamp",
        inside=ops(translate=(100, 0, 0)) + "float inputs:intensity = 7\nfloat inputs:radius = 3\n",
    )
    stage = stage_of(text, "Y", 0.01, 2.0)
    stage.SetStartTimeCode(10)
    stage.SetEndTimeCode(34)
    stage.SetFramesPerSecond(30)
    _, result = read(stage)
    assert (result["fps"], result["duration"], result["up_axis"]) == (30.0, 24.0, "Y")
    assert (result["linear_unit"], result["mass_unit"]) == (0.01, 2.0)
    assert result["scene_attributes"]["physics:gravityMagnitude"] == 3.0
    np.testing.assert_allclose(result["path_shape_scale"]["/a"], 1.0)
    np.testing.assert_allclose(result["cameras"]["/eye"]["xform"][:3], [0, -2, 0], atol=1e-6)
    assert result["cameras"]["/eye"]["focal_length"] == 35.0
    np.testing.assert_allclose(result["cameras"]["/eye"]["clipping_range"], [0.05, 30.0], rtol=1e-6)
    assert result["lights"]["/lamp"]["inputs"] == {"intensity": 7.0, "radius": 3.0}
    np.testing.assert_allclose(result["lights"]["/lamp"]["xform"][:3], [1, 0, 0], atol=1e-6)
    assert (result["lights"]["/lamp"]["type"], result["lights"]["/lamp"]["intensity"]) == ("SphereLight", 7.0)


def test_the_stage_is_only_read():
    """All layers hold the same text after an import as before, the session layer nothing."""
    stage = stage_of(environments(2))
    before = {layer.identifier: layer.ExportToString() for layer in stage.GetUsedLayers()}
    target = stage.GetEditTarget().GetLayer().identifier
    read(stage, cloned_env="/World/envs/env_0", collapse_fixed_joints=True)
    assert {layer.identifier: layer.ExportToString() for layer in stage.GetUsedLayers()} == before
    assert stage.GetSessionLayer().empty
    assert stage.GetEditTarget().GetLayer().identifier == target


def test_files_that_cannot_be_read(tmp_path):
    """Missing, not USD, or composed of what is not there."""
    builder = newtonsim.ModelBuilder()
    for name, text, words in (
        ("missing.usda", None, "not found"),
        ("junk.usda", "no stage at all", "cannot be read as USD"),
        ("hole.usda", '#usda 1.0\ndef Xform "a" (\nprepend references = @gone.usda@\n) {\n}\n', "gone.usda"),
        ("circle.usda", '#usda 1.0\ndef Xform "a" (\nprepend references = </b>\n) {\n}\n'
            'def Xform "b" (\nprepend references = </a>\n) {\n}\n', "circle.usda"),
    ):  # fmt: skip
        path = tmp_path / name
        if text is not None:
            path.write_text(text)
        with pytest.raises(newtonsim.ImportFileError, match=words):
            parse_usd(path, builder, strict=True)
    with pytest.raises(newtonsim.ModelError, match="source"):
        parse_usd(3, builder)
    assert builder.body_count == 0


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("cloned_env", 3), ("root_path", None), ("ignore_paths", ".*env"), ("ignore_paths", 3)),
        *(("default_density", float("nan")), ("default_density", "a"), ("default_density", -1.0)),
        *(("joint_drive_gains_scaling", float("inf")), ("contact_mu", None)),
    ],
)
def test_wrong_arguments_are_named(name, value):
    """Before anything is read."""
    builder = newtonsim.ModelBuilder()
    with pytest.raises(newtonsim.ModelError, match=f"{name}: expected"):
        parse_usd(stage_of(ball("a", (0, 0, 0), BODY)), builder, **{name: value})
    assert builder.body_count == 0


def test_verbose_prints_the_report(capsys):
    """On request."""
    stage = stage_of(ball("a", (0, 0, 0), BODY))
    parse_usd(stage, newtonsim.ModelBuilder(), verbose=True)
    assert "1 bodies" in capsys.readouterr().out


def test_the_command_line_reads_stages(tmp_path, capsys):
    """Told by the ending of the name."""
    from newtonsim.cli.main import main

    path = tmp_path / "robot.usda"
    path.write_text('#usda 1.0\n(\nmetersPerUnit = 1\nupAxis = "Z"\n)\n' + ball("a", (0, 0, 0), BODY))
    assert main(["info", str(path)]) == 0
    assert "USD, 1 bodies" in capsys.readouterr().out


def test_report_by_type_and_schema(tmp_path, capsys):
    """What was made of prims and schemas; remarks that are the same stand together with their paths."""
    from newtonsim.cli.main import main

    path = tmp_path / "robot.usda"
    balls = "".join(ball(name, (at, 0, 0), BODY, "PhysxBodyAPI") for at, name in ((0, "a"), (4, "b")))
    rest = ball("c", (9, 0, 0)) + prim("Camera", "eye")
    path.write_text('#usda 1.0\n(\nmetersPerUnit = 1\nupAxis = "Z"\n)\n' + balls + rest)
    assert main(["info", str(path), "--report"]) == 0
    lines = capsys.readouterr().out.splitlines()
    rows = {words[0]: words[1:] for words in map(str.split, lines[2 : lines.index("")])}
    assert rows["Sphere"] == ["3", "3", "0", "0", "0", "0", "0"]
    assert rows["PhysicsRigidBodyAPI"] == ["2", "2", "0", "0", "0", "0", "0"]
    assert rows["PhysxBodyAPI"] == ["2", "0", "0", "0", "0", "0", "2"]
    assert rows["Camera"] == ["1", "0", "0", "0", "0", "0", "1"]
    assert lines[-1] == "- 2 x <prim> ignored: the schema PhysxBodyAPI is not read (/a, /b)"
