"""The kernels compile for a GPU, also on machines without one."""

import importlib
import pkgutil

import pytest
import warp as wp

import newtonsim.kernels

MODULES = [info.name for info in pkgutil.iter_modules(newtonsim.kernels.__path__)]
FUNCTIONS_ONLY = {
    "body_axes",
    "body_contact_solve",
    "body_rows",
    "impacts",
    "shapes",
    "ray_times",
    "manifolds",
    "rows",
    "env_views",
    "height_grid",
    "envelope",
    "implicit_work",
    "active_set",
    "vbd_elements",
    "body_points",
    "chain_algebra",
    "chain_links",
    "chain_views",
    "chains",
    "clip",
    "convex",
    "epa",
    "facets",
    "gjk",
    "manifold_points",
    "mesh_boxes",
    "minkowski",
    "queries_fields",
    "queries_surfaces",
    "ray_solids",
    "ray_surfaces",
    "sparse_blas",
    "spatial",
    "structs",
    "triangle_distance",
    "triangle_surface",
    "views",
    "self_geometry",
    "body_block_lu",
    "skyline_algebra",
    "skyline_lu",
    "rebounds",
}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(MODULES) - FUNCTIONS_ONLY))
def test_module_compiles_for_cuda(name: str, tmp_path):
    module = importlib.import_module(f"newtonsim.kernels.{name}")
    wp.compile_aot_module(module, arch=80, module_dir=str(tmp_path))
    built = [path for path in tmp_path.iterdir() if path.suffix in (".cubin", ".ptx")]
    assert built, f"no device code among {sorted(path.name for path in tmp_path.iterdir())}"
