"""A torch that this tensortap has no backend for: trace-run builds one, keeps it, or says what would.

The build is a real one, once for the session (about a minute of a core's time); locks and failures are tried with a
stand-in for the compiler.
"""
import os
import re
import shutil
import subprocess
import tempfile

import pytest

import conftest
import support

JOB = support.job("infer_loop", "--steps", 3)


def python():
    """pip's torch where the tests have it, else Debian's: one build is enough."""
    has_pip = not os.environ.get("TENSORTAP_SKIP_PIP") and os.path.exists(conftest.PIP_PYTHON)
    return conftest.PIP_PYTHON if has_pip else "/usr/bin/python3"


class Installation:
    """This build's programs without any backend, and a home with an empty cache."""

    def __init__(self, root):
        self.root, self.home = root, os.path.join(root, "home")
        self.bin, self.lib = os.path.join(root, "bin"), os.path.join(root, "lib", "tensortap")
        for folder in (self.bin, self.lib, os.path.join(self.home, "r")):
            os.makedirs(folder)
        for name in ("trace-run", "collectord", "trace-analyze", "tensortap-build-backend"):
            shutil.copy2(os.path.join(support.BUILD, "bin", name), self.bin)
        for name in ("libtensortap.so", "backend-key"):
            shutil.copy2(os.path.join(os.path.dirname(support.PRELOAD), name), self.lib)
        shutil.copytree(os.path.join(support.BUILD, "share"), os.path.join(root, "share"))
        open(os.path.join(self.lib, "backends.txt"), "w").close()
        self.cache = os.path.join(self.home, "cache")

    def environment(self, **more):
        env = {"HOME": self.home, "XDG_RUNTIME_DIR": os.path.join(self.home, "r"), "XDG_CACHE_HOME": self.cache,
               "XDG_STATE_HOME": os.path.join(self.home, "state")}
        for name in ("CCACHE_DIR", "CCACHE_BASEDIR"):  # its folder is below the real home
            if name in os.environ:
                env[name] = os.environ[name]
        env.setdefault("CCACHE_DIR", os.path.join(os.path.expanduser("~"), ".cache", "ccache"))
        env.update(more)
        return env

    def trace_run(self, *arguments, **more):
        return support.plain([os.path.join(self.bin, "trace-run"), *map(str, arguments)], timeout=1800,
                             env=self.environment(**more))

    def builder(self, *arguments, **more):
        return support.plain([os.path.join(self.bin, "tensortap-build-backend"), *map(str, arguments)], timeout=1800,
                             env=self.environment(**more))

    def backends(self):
        """Where the backends are kept."""
        with open(os.path.join(self.lib, "backend-key")) as stream:
            return os.path.join(self.cache, "tensortap", "backends", stream.read().strip())

    def runs(self):
        found = []
        for path, _, files in os.walk(os.path.join(self.home, "state")):
            if "run.json" in files and os.path.basename(os.path.dirname(path)) != "workers":
                found.append(support.Run(path))
        return found


@pytest.fixture
def fresh():
    root = tempfile.mkdtemp(prefix="tt-spot-")
    yield Installation(root)
    shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def without_compiler(tmp_path_factory):
    """A PATH with everything of /usr/bin but compilers."""
    folder = str(tmp_path_factory.mktemp("bin"))
    for name in os.listdir("/usr/bin"):
        if not re.search(r"(g\+\+|c\+\+|clang|ccache|gcc)", name):
            os.symlink(os.path.join("/usr/bin", name), os.path.join(folder, name))
    return folder


@pytest.fixture(scope="module")
def built():
    """An installation whose first traced job built the backend: (installation, that job's result)."""
    root = tempfile.mkdtemp(prefix="tt-spot-")
    installation = Installation(root)
    yield installation, installation.trace_run("--", python(), *JOB)
    shutil.rmtree(root, ignore_errors=True)


def test_the_backend_is_built_before_the_job_starts_and_the_job_is_traced(built):
    installation, result = built
    words = result.stderr.decode()
    expected = support.plain([python()] + JOB)
    assert (result.returncode, result.stdout) == (expected.returncode, expected.stdout), words
    assert "building the backend for torch" in words and "built " + installation.backends() in words, words
    (run,) = installation.runs()
    assert run.state == "complete" and run.trace.ops, words


def test_a_second_job_uses_it_without_a_compiler(built, without_compiler):
    installation, _ = built
    before = len(installation.runs())
    result = installation.trace_run("--", python(), *JOB, PATH=without_compiler)
    words = result.stderr.decode()
    assert result.returncode == 0 and "tensortap-build-backend" not in words, words
    assert len(installation.runs()) == before + 1, words


def test_a_job_that_trace_run_becomes_uses_it(built, without_compiler):
    installation, _ = built
    before = len(installation.runs())
    result = installation.trace_run("--exec", "--", python(), *JOB, PATH=without_compiler)
    assert (result.returncode, result.stderr) == (0, b"")
    support.wait_until(lambda: len(installation.runs()) == before + 1, "no run of the job that trace-run became")


def test_it_is_listed_and_not_built_again(built):
    installation, _ = built
    (name,) = [n for n in os.listdir(installation.backends()) if n.endswith(".so")]
    assert name in installation.builder("--list").stdout.decode()
    again = installation.builder("--python", python())
    assert again.returncode == 0 and b"there already" in again.stderr, again.stderr.decode()


def test_a_folder_that_others_may_write_to_is_not_used(built):
    installation, _ = built
    os.chmod(installation.backends(), 0o777)
    try:
        result = installation.trace_run("--", python(), *JOB)
    finally:
        os.chmod(installation.backends(), 0o700)
    words = result.stderr.decode()
    assert result.returncode == 0 and "nobody else may write to" in words and "no trace" in words, words


def test_without_a_compiler_the_command_is_named_and_the_job_runs_untouched(fresh, without_compiler):
    argv = [python()] + JOB
    expected = support.plain(argv)
    result = fresh.trace_run("--", *argv, PATH=without_compiler)
    words = result.stderr.decode()
    assert (result.returncode, result.stdout) == (expected.returncode, expected.stdout)
    assert "no C++ compiler here" in words and "apt-get install g++" in words, words
    assert re.search(r"^  \S*/tensortap-build-backend --torch \S+libtorch_cpu\.so", words, re.M), words
    assert "Traceback" not in words and not fresh.runs()


@pytest.mark.parametrize("how", ["option", "variable"])
def test_no_build_builds_nothing_and_names_the_command(fresh, how):
    arguments, more = (["--no-build"], {}) if how == "option" else ([], {"TENSORTAP_BUILD_BACKEND": "0"})
    result = fresh.trace_run(*arguments, "--", python(), *JOB, **more)
    words = result.stderr.decode()
    assert result.returncode == 0 and "building" not in words, words
    assert re.search(r"^  \S*/tensortap-build-backend --torch ", words, re.M), words
    assert not os.path.exists(os.path.join(fresh.cache, "tensortap"))


# ---- the builder alone, with a stand-in for the compiler


@pytest.fixture
def stand_in(tmp_path):
    """A compiler that writes one line to `calls` and an empty file to where -o says."""
    script = tmp_path / "cxx"
    script.write_text('#!/bin/sh\n'
                      'while [ $# -gt 0 ]; do case "$1" in -o) out=$2 ;; -c) source=$2 ;; esac; shift; done\n'
                      'echo "${source:-link}" >> %s/calls\n'
                      'if [ -e %s/slow ]; then sleep 0.2; fi\n'
                      'if [ -e %s/broken ]; then echo "x.cpp:1: error: not today" >&2; exit 1; fi\n'
                      ': > "$out"\n' % ((tmp_path,) * 3))
    script.chmod(0o755)
    return script


def calls(stand_in):
    return (stand_in.parent / "calls").read_text().splitlines()


def test_two_builders_at_once_build_once(fresh, stand_in):
    (stand_in.parent / "slow").touch()
    argv = [os.path.join(fresh.bin, "tensortap-build-backend"), "--python", python()]
    env = support.clean_environment(**fresh.environment(CXX=str(stand_in)))
    builders = [subprocess.Popen(argv, env=env, stderr=subprocess.PIPE) for _ in range(3)]
    words = [builder.communicate(timeout=300)[1].decode() for builder in builders]
    assert [builder.returncode for builder in builders] == [0, 0, 0], words
    assert calls(stand_in).count("link") == 1, words
    assert sorted(os.listdir(fresh.backends()))[0] == "backends.txt"


def test_a_builder_that_is_killed_leaves_nothing_in_the_way(fresh, stand_in):
    (stand_in.parent / "slow").touch()
    argv = [os.path.join(fresh.bin, "tensortap-build-backend"), "--python", python()]
    env = support.clean_environment(**fresh.environment(CXX=str(stand_in)))
    builder = subprocess.Popen(argv, env=env, stderr=subprocess.DEVNULL)
    support.wait_until(lambda: (stand_in.parent / "calls").exists(), "the compiler was not called")
    builder.kill()
    builder.wait()
    assert not os.path.exists(os.path.join(fresh.backends(), "backends.txt"))
    (stand_in.parent / "slow").unlink()
    assert fresh.builder("--python", python(), CXX=str(stand_in)).returncode == 0
    names = os.listdir(fresh.backends())
    assert "backends.txt" in names and not [n for n in names if n.startswith("building-")], names


def test_a_compiler_that_fails_is_quoted_and_leaves_no_backend(fresh, stand_in):
    (stand_in.parent / "broken").touch()
    result = fresh.builder("--python", python(), CXX=str(stand_in))
    words = result.stderr.decode()
    assert result.returncode == 1 and "error: not today" in words and "can't be compiled" in words, words
    assert not os.path.exists(os.path.join(fresh.backends(), "backends.txt"))
    job = fresh.trace_run("--", python(), *JOB, CXX=str(stand_in))
    assert job.returncode == 0 and b"Traceback" not in job.stderr


@pytest.mark.parametrize("arguments, code", [
    ([], 2), (["--nonsense"], 2), (["--torch"], 2), (["--torch", "/nonexistent"], 4), (["--python", "/bin/false"], 4)])
def test_wrong_usage_and_absent_torches_are_one_line(fresh, arguments, code):
    result = fresh.builder(*arguments)
    assert (result.returncode, result.stderr.count(b"\n")) == (code, 1), result.stderr.decode()
