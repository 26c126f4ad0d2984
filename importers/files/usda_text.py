"""Where something stands in the text of a USD layer, which OpenUSD forgets once it has read it.

Source of the grammar: OpenUSD's documentation, "Usda File Format Specification".
"""

import re

_TOKEN = re.compile(
    r"""
    \#[^\n]*                                              # comment
    | \"{3}(?:[^\\]|\\.)*?\"{3} | '{3}(?:[^\\]|\\.)*?'{3}  # texts of several lines
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*'
    | @@@.*?@@@ | @[^@\n]*@ | <[^>\n]*>                    # assets, paths
    | [+-]?\.?\d[\w.+-]*                                   # numbers
    | [^\W\d][\w:.]*                                       # names
    | [(){}\[\]]
    """,
    re.VERBOSE | re.DOTALL,
)
_SPECIFIERS = ("def", "over", "class")


def place_in_usda(text: str, prim: str, name: str | None) -> tuple[int, int] | None:
    """Return line and column, from 1, of a property of a prim, or of the prim where it is not written.

    Args:
        text: Contents of the layer.
        prim: Path of the prim in the layer, with the variants that it stands in: "/World{size=big}Box".
        name: The property, None for the prim itself.

    Returns:
        The place of the name of the property or of the word that begins the prim; None if neither is there.
    """
    blocks: list[str | None] = ["/"]  # the prims, sets of variants and variants around the token
    head, opened = "", None  # what the next text names, and what the next brace opens
    begin, found, depth = 0, None, 0
    for match in _TOKEN.finditer(text):
        token = match[0]
        if depth or token in "([":  # metadata and values of several numbers
            depth += (token in "([") - (token in ")]")
        elif token == "{":
            blocks.append(opened)
            opened = None
        elif token == "}":
            if len(blocks) > 1 and blocks.pop() == prim:
                break
        elif token in _SPECIFIERS or token == "variantSet":
            head, begin = token, match.start()
        elif token[0] in "\"'":
            opened = _opened(head, token[1:-1], blocks[-1])
            if head in _SPECIFIERS and opened == prim:
                found = begin
            head = ""
        elif name is not None and blocks[-1] == prim and token.split(".")[0] == name:
            found = match.start()
            break
    return None if found is None else (text.count("\n", 0, found) + 1, found - text.rfind("\n", 0, found))


def _opened(head: str, name: str, inside: str | None) -> str | None:
    """Return the path of what a quoted name announces, None for a value."""
    if inside is None:
        return None
    if head == "variantSet":
        return f"{inside}{{{name}="
    if head in _SPECIFIERS:
        return f"{inside}{name}" if inside.endswith(("/", "}")) else f"{inside}/{name}"
    return f"{inside}{name}}}" if inside.endswith("=") else None
