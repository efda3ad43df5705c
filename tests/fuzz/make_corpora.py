"""Writes what the fuzzers begin with: the public fixtures and the known answers, as lines and as files.

    make_corpora.py FIXTURES KNOWN_ANSWERS CORPORA

CORPORA/stream gets whole files, CORPORA/container the same compressed, CORPORA/line_reader each different line of them. A line that only differs from another
in its texts and numbers teaches a fuzzer nothing: one of each shape is kept.
"""
import gzip
import hashlib
import os
import re
import sys

LARGEST = 4096  # bytes of a seed: a fuzzer is fast on small inputs


def shape(line):
    return re.sub(rb"[0-9]+", b"0", re.sub(rb'"(?:[^"\\]|\\.)*"(?!\s*:)', b'""', line))


def files(folder):
    for path, _, names in os.walk(folder):
        for name in sorted(names):
            if name.endswith(".jsonl"):
                with open(os.path.join(path, name), "rb") as stream:
                    yield stream.read()


def keep(folder, seed):
    if len(seed) > LARGEST:
        return
    with open(os.path.join(folder, hashlib.sha256(seed).hexdigest()[:16]), "wb") as stream:
        stream.write(seed)


def main(fixtures, known_answers, corpora):
    lines, streams, inputs = (os.path.join(corpora, name) for name in ("line_reader", "stream", "container"))
    for folder in (lines, streams, inputs):
        os.makedirs(folder, exist_ok=True)
    known = set()
    for content in (*files(fixtures), *files(known_answers)):
        keep(streams, content)
        keep(inputs, b"\1" + gzip.compress(content, mtime=0))  # byte 1: a file for the input side
        for line in content.split(b"\n"):
            if shape(line) not in known:
                known.add(shape(line))
                keep(lines, line)
    print("%s: %d lines, %d streams" % (corpora, len(os.listdir(lines)), len(os.listdir(streams))))


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(*sys.argv[1:])
