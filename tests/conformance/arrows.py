"""Fails on an #include that goes against the arrows of the architecture.

    arrows.py REPOSITORY        prints file:line for each wrong include; exit 1 if there is one

    proto <- format <- {probe, analyzers} <- collector; tests may use all.

Besides: nothing under probe/ includes spdlog, fmt, Boost or simdjson (a probe brings the job no library that the job
may have in another version; CLI11 in probe/launch and probe/attach is a program's own, and header-only), and only probe/torch includes
torch's headers.
"""
import os
import re
import sys

MAY_USE = {
    "format": {"format"},
    "analyzers": {"analyzers", "format"},
    "probe": {"probe", "format"},
    "collector": {"collector", "analyzers", "format"},
    "tests": {"tests", "collector", "analyzers", "probe", "format"},
}
NOT_IN_A_JOB = re.compile(r"^(spdlog|fmt|boost|simdjson)([/.]|$)")
TORCH = re.compile(r"^(torch|ATen|c10|caffe2)/")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


def sources(root, folder):
    for path, _, names in os.walk(os.path.join(root, folder)):
        for name in sorted(names):
            if name.endswith((".h", ".hpp", ".c", ".cpp", ".cc", ".S")):
                yield os.path.relpath(os.path.join(path, name), root)


def wrong(folder, path, header):
    first = header.split("/")[0]
    if first in MAY_USE and "/" in header and first not in MAY_USE[folder]:
        return "%s may not use %s" % (folder, first)
    if folder == "probe" and NOT_IN_A_JOB.match(header):
        return "nothing under probe/ uses %s" % first
    if folder == "probe" and header.startswith("CLI/") and not path.startswith(("probe/launch/", "probe/attach/")):
        return "CLI11 is for programs: probe/launch, probe/attach"
    if folder != "tests" and TORCH.match(header) and not path.startswith(("probe/torch/", "probe/cuda/")):
        return "only probe/torch includes torch's headers"
    return None


def check(root):
    found, files = [], 0
    for folder in MAY_USE:
        for path in sources(root, folder):
            files += 1
            with open(os.path.join(root, path), encoding="utf-8", errors="replace") as stream:
                for number, line in enumerate(stream, 1):
                    match = INCLUDE.match(line)
                    reason = match and wrong(folder, path, match.group(1))
                    if reason:
                        found.append("%s:%d: %s: %s" % (path, number, reason, line.strip()))
    return found, files


def main():
    found, files = check(sys.argv[1])
    for line in found:
        print(line)
    if not files:
        print("no source files under %s" % sys.argv[1])
    print("%d files, %d wrong includes" % (files, len(found)))
    return 1 if found or not files else 0


if __name__ == "__main__":
    sys.exit(main())
