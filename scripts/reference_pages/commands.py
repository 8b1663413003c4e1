"""The page of the command line: every command with its arguments and options, as `--help` has them."""

import inspect
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from hpfl.cli import COMMANDS, real_command
from reference_pages.markdown import MADE, code, table

_KINDS = {"Path": "PATH", "float": "NUMBER", "int": "WHOLE NUMBER"}

_INTRO = f"""\
# The command line

{MADE}
Every command with its arguments and options, as `hpfl COMMAND --help` tells them. `hpfl --version` prints the version.

| exit status | means |
|---|---|
| 0 | done |
| 1 | the run failed, or its model was lost |
| 2 | what was asked for is not possible: an option, a file or a key, named in one line on standard error |
| 130 | stopped by Ctrl-C; what there is was saved, and the command that goes on was printed |

"""


def commands_page() -> str:
    """`docs/reference/commands.md`."""
    listed = table(
        ("command", "does"), [(f"[`hpfl {name}`](#hpfl-{name})", told.help) for name, told in COMMANDS.items()]
    )
    return _INTRO + listed + "\n" + "\n".join(text for name in COMMANDS for text in _command(name, real_command(name)))


def _command(path: str, command: Any) -> Iterator[str]:
    said = "\n\n".join(_paragraphs(command.help or COMMANDS[path.split(" ", maxsplit=1)[0]].help))
    inside = getattr(command, "commands", None)
    yield f"## hpfl {path}\n\n{said}\n"
    if inside is not None:
        for name, one in inside.items():
            yield from _command(f"{path} {name}", one)
        return
    yield f"```\n{_usage(path, command)}\n```\n"
    rows = [_row(one) for one in command.params if not getattr(one, "hidden", False) and one.name != "help"]
    if rows:
        yield table(("argument or option", "default", "meaning"), rows)
    if command.epilog:
        example = re.sub(r"^Example: ", "", _text(command.epilog))
        yield f"For example: `{example}`\n"


def _usage(path: str, command: Any) -> str:
    arguments = [_argument(one) for one in command.params if one.param_type_name == "argument"]
    return " ".join(["hpfl", path, *(["[OPTIONS]"] if len(command.params) > len(arguments) else []), *arguments])


def _argument(one: Any) -> str:
    name = _metavar(one).rstrip(".") + ("..." if one.nargs != 1 else "")
    return name if one.required else f"[{name}]"


def _row(one: Any) -> tuple[str, str, str]:
    if one.param_type_name == "argument":
        return code(_argument(one)), _default(one), _text(one.help or "")
    names = ", ".join(map(code, [*one.opts, *one.secondary_opts]))
    return names + ("" if one.is_flag else f" {code(_metavar(one))}"), _default(one), _text(one.help or "")


def _metavar(one: Any) -> str:
    """`PATH`, `NUMBER`: what the command says, or else the kind of value."""
    if one.metavar or one.param_type_name == "argument":
        return str(one.metavar or one.name).upper()
    annotation = str(one.type_descriptor.annotation)
    return next((word for kind, word in _KINDS.items() if kind in annotation), "TEXT")


def _default(one: Any) -> str:
    shown = getattr(one, "show_default", None)
    if one.required:
        return "needed"
    if isinstance(shown, str):
        return shown
    if one.default in (None, False, (), []) or callable(one.default):
        return ""
    return code(str(one.default))


def _paragraphs(said: str) -> Iterator[str]:
    """Paragraphs as text, those that keep their lines (click marks them with a backspace) as code."""
    for paragraph in inspect.cleandoc(said).split("\n\n"):
        if paragraph.lstrip().startswith("\b"):
            yield f"```\n{inspect.cleandoc(paragraph.lstrip()[1:].strip(chr(10)))}\n```"
        else:
            yield textwrap.fill(_text(paragraph), 120, break_long_words=False, break_on_hyphens=False)


def _text(said: str) -> str:
    return re.sub(r"\[/?[a-z]+\]", "", " ".join(inspect.cleandoc(said).split()))
