"""The OpenAPI schema of a shape, with its CEL rules: what the parser checks, for the API server."""

from __future__ import annotations

from typing import Any

from tideline_operator.resources.shape import Flag, Free, Items, Members, Named, Shape, Text, Whole

Schema = dict[str, Any]
_ANY_OBJECT: Schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def shape_schema(shape: Shape) -> Schema:
    """What a CustomResourceDefinition says of a value of this shape."""
    match shape:
        case Text():
            return _text(shape)
        case Whole():
            schema: Schema = {"type": "integer", "format": "int64", "minimum": shape.minimum}
            return _removable(schema, shape.is_removable)
        case Flag():
            return {"type": "boolean"} | ({} if shape.only is None else {"enum": [shape.only]})
        case Free():
            return dict(_ANY_OBJECT)
        case Named():
            return _named(shape)
        case Items():
            schema = {"type": "array", "x-kubernetes-list-type": "atomic"}
            if shape.items_min:
                schema["minItems"] = shape.items_min
            return {**schema, "maxItems": shape.items_max, "items": shape_schema(shape.item)}
        case Members():
            return _members(shape)
    raise TypeError(f"no schema is known for {shape}")


def _text(shape: Text) -> Schema:
    schema: Schema = {"type": "string", "maxLength": shape.length_max}
    if shape.choices:
        schema = {"type": "string", "enum": list(shape.choices)}
    if shape.unlike:
        schema["x-kubernetes-validations"] = [
            {"rule": f"!self.startsWith('{start}')", "message": reason}
            for start, reason in shape.unlike.items()
        ]
    return _removable(schema, shape.is_removable)


def _named(shape: Named) -> Schema:
    member: Schema = {"type": "string", "maxLength": shape.length_max, "nullable": True}
    if shape.are_quantities:
        member = {"x-kubernetes-int-or-string": True}
    schema: Schema = {
        "type": "object",
        "maxProperties": shape.items_max,
        "additionalProperties": member,
    }
    if shape.domains:
        prefix = "k.split('/')[0]"
        foreign = " || ".join(
            f"{prefix} == '{domain}' || {prefix}.endsWith('.{domain}')" for domain in shape.domains
        )
        rule = f"self.all(k, !k.contains('/') || k in {list(shape.excepted)} || !({foreign}))"
        schema["x-kubernetes-validations"] = [{"rule": rule, "message": shape.reason}]
    return schema


def _members(shape: Members) -> Schema:
    properties = {
        name: {**shape_schema(inner), "description": reason}
        for name, (inner, reason) in shape.taken.items()
    }
    properties |= {
        name: {**_of_kind(refused.kind), "description": "Refused."}
        for name, refused in shape.refused.items()
    }
    rules: list[Schema] = [
        {"rule": f"!has(self.{name})", "message": refused.reason, "fieldPath": f".{name}"}
        for name, refused in shape.refused.items()
    ]
    if shape.one_of:
        present = ", ".join(f"has(self.{name})" for name in shape.one_of)
        rule = f"[{present}].filter(one, one).size() == 1"
        rules.append({"rule": rule, "message": shape.one_of_rule})
    schema: Schema = {"type": "object", "properties": properties}
    if shape.required:
        schema["required"] = list(shape.required)
    return {**schema, "x-kubernetes-validations": rules} if rules else schema


def _of_kind(kind: str) -> Schema:
    """A schema that CEL can ask about."""
    if kind == "object":
        return dict(_ANY_OBJECT)
    if kind == "array":
        array: Schema = {"type": "array", "x-kubernetes-list-type": "atomic", "maxItems": 64}
        return {**array, "items": dict(_ANY_OBJECT)}
    return {"type": kind, "maxLength": 253} if kind == "string" else {"type": kind}


def _removable(schema: Schema, is_removable: bool) -> Schema:
    return {**schema, "nullable": True} if is_removable else schema
