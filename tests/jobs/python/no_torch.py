"""A program without torch that looks at itself: prints its threads, sockets and memfds, then ends as asked.

    no_torch.py [--exit N | --raise | --signal N | --exec | --fork]
"""
import os
import signal
import sys


def look(who):
    threads = len(os.listdir("/proc/self/task"))
    targets = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            targets.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            pass  # the descriptor of the listing itself
    special = sorted(t.split(":")[0] for t in targets if t.startswith(("socket:", "/memfd:", "anon_inode:")))
    print("%s: threads %d, sockets and the like %s" % (who, threads, special))
    sys.stdout.flush()


def main(arguments):
    look("parent")
    print("to stderr", file=sys.stderr)
    if arguments[:1] == ["--exit"]:
        return int(arguments[1])
    if arguments[:1] == ["--raise"]:
        return {}["missing"]
    if arguments[:1] == ["--signal"]:
        os.kill(os.getpid(), int(arguments[1]))
    if arguments[:1] == ["--exec"]:
        os.execv(sys.executable, [sys.executable, os.path.abspath(__file__)])
    if arguments[:1] == ["--fork"]:
        child = os.fork()
        if child == 0:
            look("child")
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    sys.exit(main(sys.argv[1:]))
