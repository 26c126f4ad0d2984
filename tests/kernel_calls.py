"""Functions of device code called on rows of numbers, without a kernel written for each of them.

    call = DeviceFunctions(__name__, quat_exp, box_distance)

    def test_quarter_turn(device):
        q = call(device, quat_exp, [[0.0, 0.0, np.pi / 2.0]])

All functions of a test file make one Warp module, so that they are compiled at once.
"""

from typing import Any, get_type_hints

import numpy as np
import warp as wp


def bare(annotation: Any) -> Any:
    """Return the struct of an argument that is passed by reference; other types as they are."""
    return annotation.value_type if isinstance(annotation, type(wp.ref[int])) else annotation


def is_struct(annotation: Any) -> bool:
    return hasattr(annotation, "numpy_dtype")


def is_view(annotation: Any) -> bool:
    """Whether an argument is the same for all rows: an array, or a struct of arrays."""
    if is_struct(annotation):
        return any(is_view(variable.type) for variable in annotation.vars.values())
    return isinstance(annotation, wp.array)


class DeviceFunctions:
    """The functions of one test file; calling this runs one of them, one thread per row.

    Args:
        name: Name of the test module.
        functions: What the tests call; every argument has a concrete type.
    """

    def __init__(self, name: str, *functions: wp.Function):
        module = wp.get_module(name)
        self.kernels = {f: self._kernel(f, number, module) for number, f in enumerate(functions)}

    def _kernel(self, function: wp.Function, number: int, module) -> wp.Kernel:
        """A kernel that calls a function with entry i of what is given by rows."""
        hints = get_type_hints(function.func)
        given = {name: bare(hint) for name, hint in hints.items() if name != "return"}
        result = hints.get("return")
        names = {"wp": wp, "function": function, "T_result": result}
        names |= {f"T_{name}": hint for name, hint in given.items()}
        arguments = [
            f"a_{name}: T_{name}" if is_view(hint) else f"a_{name}: wp.array(dtype=T_{name})"
            for name, hint in given.items()
        ]
        values = ", ".join(f"a_{name}" if is_view(hint) else f"a_{name}[i]" for name, hint in given.items())
        call = f"function({values})"
        if result is not None:
            arguments.append("result: wp.array(dtype=T_result)")
            call = f"result[i] = {call}"
        source = f"def call_{number}({', '.join(arguments)}):\n    i = wp.tid()\n    {call}\n"
        exec(source, names)
        options = {"enable_backward": False}
        return wp.Kernel(names[f"call_{number}"], module=module, source=source, options=options)

    def __call__(self, device: str, function: wp.Function, *values: Any) -> np.ndarray | None:
        """Return what a function gives for every row.

        Args:
            device: Where it runs.
            function: One of those of this object.
            values: Its arguments: arrays and structs of arrays as they are; of all else an entry, or one for
                each row; of small structs a dict of such values by field.
        """
        hints = {name: bare(hint) for name, hint in get_type_hints(function.func).items()}
        result = hints.pop("return", None)
        rows = [
            value if is_view(hint) else columns(hint, value) for hint, value in zip(hints.values(), values)
        ]
        by_row = [(r, hint) for r, hint in zip(rows, hints.values()) if not is_view(hint)]
        count = max([len(r) for r, _ in by_row], default=1)
        inputs = [
            r if is_view(hint) else wp.array(np.resize(r, (count, *r.shape[1:])), dtype=hint, device=device)
            for r, hint in zip(rows, hints.values())
        ]
        outputs = []
        if result is not None:
            outputs.append(wp.zeros(count, dtype=result, device=device))
        wp.launch(self.kernels[function], count, inputs, outputs, device=device)
        return outputs[0].numpy() if outputs else None


def columns(hint: Any, value: Any) -> np.ndarray:
    """The rows of one argument as Warp lays them out, at least one."""
    if is_struct(hint):
        fields = {name: columns(hint.vars[name].type, entry) for name, entry in value.items()}
        rows = np.zeros(max(len(field) for field in fields.values()), hint.numpy_dtype())
        for name, field in fields.items():
            rows[name] = field
        return rows
    entry = wp.zeros(1, dtype=hint, device="cpu").numpy()
    return np.asarray(value, entry.dtype).reshape(-1, *entry.shape[1:])
