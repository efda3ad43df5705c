"""What a job does, in many small scenes: run once without our hooks and once with, and everything printed must be equal.

    python_hooks_scenarios.py OUT_DIR [SCENE…]

Each scene runs in a forked child (torch is imported once) with stdout and stderr in OUT_DIR/<scene>.out and .err, its
exit status in .status and, with the hooks' stand-in core preloaded, what the hooks reported in .log.
"""
import os
import sys

import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "python_hooks_scenes"))
import job  # noqa: E402
from job import core, hooked, late, wait_for_hooks  # noqa: E402
import errors, behaviour, reports, compiling  # noqa: E402,E401,F401


def child(out, name):
    for descriptor, suffix in ((1, "out"), (2, "err")):
        os.dup2(os.open(os.path.join(out, f"{name}.{suffix}"), os.O_CREAT | os.O_WRONLY | os.O_TRUNC), descriptor)
    if hooked:
        core.fake_core_clear()
    code = 0
    try:
        job.scenes[name]()
    except SystemExit as leaving:
        code = leaving.code
    except BaseException:
        sys.excepthook(*sys.exc_info())
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    if hooked:
        with open(os.path.join(out, f"{name}.log"), "wb") as file:
            file.write(core.fake_core_log())
    os._exit(code)


def main():
    out, names = sys.argv[1], sys.argv[2:] or list(job.scenes)
    if os.environ.get("TENSORTAP_FAKE_CORE") == "off":
        names = [name for name in names if not name.startswith("report_") and name != "compile_inductor"]
    torch.set_num_threads(1)
    if not late:
        wait_for_hooks()
    for name in names:
        pid = os.fork()
        if not pid:
            child(out, name)
        with open(os.path.join(out, f"{name}.status"), "w") as file:
            file.write(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])))


if __name__ == "__main__":
    main()
