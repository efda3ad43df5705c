"""Compares candle-graph documents by the rules of the fixtures' README: free texts count only as present or
absent, floats may differ by one unit in the last place, `tool` names the writing program.

    differences(ours, theirs) -> ["summary.outer_wall_time_ns: 5 instead of 6", ...]
"""
import math

# Worded freely by each program. Exact all the same: the message of `capture_failed`.
FREE_KEYS = {"message", "reason", "summary", "definition", "purpose", "timing_unavailable_reason", "label"}


def _is_free(key, parent):
    if key == "message":
        return parent.get("code") != "capture_failed"
    return key in FREE_KEYS and isinstance(parent.get(key), str)


def _same_number(a, b):
    if isinstance(a, bool) or isinstance(b, bool) or isinstance(a, int) and isinstance(b, int):
        return type(a) is type(b) and a == b
    return a == b or math.nextafter(a, b) == b


def _walk(ours, theirs, path, out):
    if isinstance(ours, dict) and isinstance(theirs, dict):
        for key in sorted(ours.keys() | theirs.keys()):
            here = f"{path}.{key}" if path else key
            if key not in theirs or key not in ours:
                out.append(f"{here}: {'missing' if key not in ours else 'too much'}")
            elif here == "tool":
                continue
            elif _is_free(key, ours) and isinstance(theirs[key], str):
                continue
            elif here in ("gaps", "gaps.rows"):
                if len(ours[key]) != len(theirs[key]):
                    out.append(f"{here}: {len(ours[key])} texts instead of {len(theirs[key])}")
            else:
                _walk(ours[key], theirs[key], here, out)
    elif isinstance(ours, list) and isinstance(theirs, list):
        if len(ours) != len(theirs):
            out.append(f"{path}: {len(ours)} items instead of {len(theirs)}")
        for i, (a, b) in enumerate(zip(ours, theirs)):
            _walk(a, b, f"{path}[{i}]", out)
    elif isinstance(ours, (int, float)) and isinstance(theirs, (int, float)):
        if not _same_number(ours, theirs):
            out.append(f"{path}: {ours!r} instead of {theirs!r}")
    elif ours != theirs or type(ours) is not type(theirs):
        out.append(f"{path}: {ours!r} instead of {theirs!r}")


def differences(ours, theirs):
    out = []
    _walk(ours, theirs, "", out)
    return out
