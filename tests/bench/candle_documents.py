"""How `trace-analyze summary` scales: CPU time per event, and peak memory, for generated traces of growing size;
beside the candle-graph crate's `summary` of the smallest one (as a failed capture too: the crate is linear only there).

    candle_documents.py TRACE_ANALYZE GENERATE_TRACE [EVENTS …]      (default 100000 1000000 5000000)
"""
import os
import pathlib
import subprocess
import sys
import tempfile

CRATE = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache",
                     "tensortap", "candle-graph", "bin", "candle-graph")


def measure(argv):
    """(CPU seconds, peak resident MiB) of a process."""
    process = subprocess.Popen(argv)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{argv} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def row(name, program, trace, events, folder):
    seconds, mebibytes = measure([program, "summary", trace, "-o", os.path.join(folder, "out.json")])
    size = os.path.getsize(trace)
    print(f"{name:<28} {events:>10} {size / 1e6:>10.1f} {seconds:>8.2f} {seconds / events * 1e6:>10.2f} "
          f"{size / seconds / 1e6:>8.1f} {mebibytes:>8.1f}", flush=True)


def main():
    ours, generate = sys.argv[1:3]
    sizes = [int(text) for text in sys.argv[3:]] or [100000, 1000000, 5000000]
    print(f"{'program, trace':<28} {'events':>10} {'MB':>10} {'CPU s':>8} {'us/event':>10} {'MB/s':>8} {'MiB':>8}")
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR", "/var/tmp")) as folder:
        trace = os.path.join(folder, "t.jsonl")
        for events in sizes:
            subprocess.run([generate, "--events", str(events), trace], check=True)
            row("ours, complete", ours, trace, events, folder)
        if not CRATE.exists():
            print("the crate candle-graph is not installed (tests/run does it where cargo is)")
            return
        for name, events, options in (("failed", min(sizes), ["--failed"]), ("complete", min(20000, min(sizes)), [])):
            subprocess.run([generate, "--events", str(events), *options, trace], check=True)
            row(f"ours, {name}", ours, trace, events, folder)
            row(f"crate, {name}", CRATE, trace, events, folder)


if __name__ == "__main__":
    main()
