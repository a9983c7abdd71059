"""The reference of the public API, from the signatures and docstrings."""

import dataclasses
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any

from .markdown import prose

# The names of `webhooks`, by topic. Other modules list their names in the order of ``__all__``.
GROUPS: Mapping[str, Sequence[str]] = {
    "decorators": ("validating", "mutating", "authorizing", "authenticating", "image_policy", "WORKLOADS"),
    "outcomes": ("Allow", "Deny", "Replace", "Patch", "NoOpinion", "Authenticated", "Unauthenticated"),
    "outcome-types": ("Decision", "Mutation", "Opinion", "Identity"),
    "reviews": ("AdmissionReview", "AccessReview", "TokenReview", "ImageReview"),
    "review-parts": ("User", "Container", "Image", "ImageReference"),
    "helpers": ("deny_new", "introduced", "field", "items", "pointer", "parse_quantity"),
    "policies": ("Policy", "bundled", "load", "create_app"),
    "errors": ("WebhooksError", "ConfigurationError", "MalformedReview"),
}
MODULES = ("webhooks.testing", "webhooks.plugins", "webhooks.auth")

_WIDTH = 100
_QUOTES = str.maketrans("'", '"')
_SECTION = re.compile(r"^(Args|Returns|Yields|Raises|Attributes):$", re.MULTILINE)
_ITEM = re.compile(r"^(\w+(?: \([^)]*\))?): (.*(?:\n +.*)*)", re.MULTILINE)
# Classes that the server creates: their constructors are not part of the interface.
_NO_CONSTRUCTOR = {*GROUPS["reviews"], "Container", "Image", "ImageReference", "Policy", "Result"}
_NO_MEMBERS = {"Settings", "Limits"}


def regions() -> Mapping[str, Callable[[], str]]:
    """Return a generator for each region of the page."""
    topics = {topic: partial(_entries, "webhooks", names) for topic, names in GROUPS.items()}
    return topics | {
        module: partial(_module, module) for module in MODULES if hasattr(import_module(module), "__all__")
    }


def _module(name: str) -> str:
    return _entries(name, import_module(name).__all__)


def _entries(module: str, names: Sequence[str]) -> str:
    prefix = "" if module == "webhooks" else f"{module.removeprefix('webhooks.')}."
    return "\n".join(_entry(prefix, name, getattr(import_module(module), name)) for name in names)


def _entry(prefix: str, name: str, value: Any) -> str:
    if not (inspect.isclass(value) or inspect.isfunction(value)):
        text = repr(value) if isinstance(value, tuple) else _type_name(value)
        return f"### {prefix}{name}\n\n```py\n{name} = {text.translate(_QUOTES)}\n```\n"
    parts = [f"### {prefix}{name}\n"]
    if not (name in _NO_CONSTRUCTOR or (inspect.isclass(value) and issubclass(value, BaseException))):
        parts.append(f"```py\n{_signature(name, value)}\n```\n")
    parts.append(_document(inspect.getdoc(value) or ""))
    if inspect.isclass(value) and name not in _NO_MEMBERS:
        members = list(_members(value))
        parts += [f"Members:\n\n{''.join(members)}"] if members else []
    return "\n".join(parts)


def _signature(name: str, value: Any) -> str:
    texts: list[str] = []
    needs_star = True
    for parameter in inspect.signature(value).parameters.values():
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and needs_star:
            texts.append("*")
        needs_star &= parameter.kind not in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_POSITIONAL)
        texts.append(_parameter(parameter))
    line = f"{name}({', '.join(texts)})"
    if len(line) <= _WIDTH:
        return line
    return f"{name}(\n" + "".join(f"    {text},\n" for text in texts) + ")"


def _parameter(parameter: inspect.Parameter) -> str:
    star = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    text = f"{star}{parameter.name}"
    if parameter.annotation is not inspect.Parameter.empty:
        text += f": {_type_name(parameter.annotation)}"
    if parameter.default is not inspect.Parameter.empty:
        text += f" = {_default(parameter.default)}"
    return text


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty or type(value).__name__ == "_HAS_DEFAULT_FACTORY_CLASS":
        return "..."
    text = f"{type(value).__name__}()" if dataclasses.is_dataclass(value) else repr(value)
    return "..." if text.startswith("<") else text


def _type_name(annotation: Any) -> str:
    """Return an annotation as authors would write it, without modules."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"\b[a-z_]\w*(?:\.\w+)*\.(?=\w)", "", text)
    text = re.sub(r"Annotated\[(\w+),[^\]]*\]", r"\1", text)
    return re.sub(r"Optional\[(.*)\]", r"\1 | None", text)


def _members(value: type) -> Iterator[str]:
    documented = set(re.findall(r"^    (\w+): ", inspect.getdoc(value) or "", re.MULTILINE))
    for name, member in inspect.getmembers_static(value):
        text = _summary(member)
        is_inherited = not any(name in vars(base) for base in value.__mro__ if base.__module__.startswith("webhooks"))
        if name.startswith("_") or not text or is_inherited or name in documented:
            continue
        if isinstance(member, property):
            yield f"- `{name}`: {text}\n"
        elif inspect.isfunction(member) or isinstance(member, (classmethod, staticmethod)):
            yield f"- `{name}({_arguments(member)})`: {text}\n"


def _arguments(member: Any) -> str:
    function = getattr(member, "__func__", member)
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name not in ("self", "cls")]
    return ", ".join(str(p.replace(annotation=p.empty)) for p in parameters)


def _summary(member: Any) -> str:
    """Return the first paragraph of a docstring."""
    if not (isinstance(member, (property, classmethod, staticmethod)) or inspect.isfunction(member)):
        return ""
    return prose(" ".join((inspect.getdoc(member) or "").split("\n\n")[0].split()))


def _document(docstring: str) -> str:
    """Convert a docstring with Google-style sections to Markdown."""
    text, *sections = _SECTION.split(docstring)
    parts = [_text(text)]
    for title, body in zip(sections[::2], sections[1::2], strict=True):
        items = textwrap.dedent(body.strip("\n"))
        if title in ("Returns", "Yields"):
            parts.append(f"{title}: {_join(items)}\n")
        else:
            listed = "".join(f"- `{name}`: {_join(meaning)}\n" for name, meaning in _ITEM.findall(items))
            parts.append(f"{'Arguments' if title == 'Args' else title}:\n\n{listed}")
    return "\n".join(part for part in parts if part.strip())


def _text(text: str) -> str:
    """Convert paragraphs; indented ones become code blocks."""
    paragraphs = [paragraph for paragraph in re.split(r"\n\s*\n", text.rstrip()) if paragraph.strip()]
    converted: list[str] = []
    for paragraph in paragraphs:
        if paragraph.startswith("    "):
            converted.append(f"```py\n{textwrap.dedent(paragraph)}\n```")
        else:
            converted.append(_join(re.sub(r"::$", ":", paragraph)))
    return "".join(f"{paragraph}\n\n" for paragraph in converted).rstrip("\n") + "\n"


def _join(text: str) -> str:
    return prose(" ".join(text.split()))
