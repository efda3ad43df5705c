"""Builds the wheel of this package (PEP 517, PEP 660): a few pure Python files, so that installing it needs neither a
network nor setuptools and wheel in the right versions."""
import base64
import hashlib
import os
import re
import zipfile

_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
_SOURCE = os.path.join(_HERE, "src")


def _project(key):
    """A text of pyproject.toml's [project]; Python 3.8 has no reader of it."""
    with open(os.path.join(_HERE, "pyproject.toml"), encoding="utf-8") as stream:
        return re.search(r'^%s = "([^"]*)"$' % re.escape(key), stream.read(), re.MULTILINE).group(1)


def _metadata():
    with open(os.path.join(_HERE, "README.md"), encoding="utf-8") as stream:
        readme = stream.read()
    return ("Metadata-Version: 2.1\nName: tensortap\nVersion: %s\nSummary: %s\nLicense: Apache-2.0\n"
            "Requires-Python: %s\nDescription-Content-Type: text/markdown\n\n%s"
            % (_project("version"), _project("description"), _project("requires-python"), readme))


def _write(folder, files):
    stem = "tensortap-" + _project("version")
    info = stem + ".dist-info/"
    name = stem + "-py3-none-any.whl"
    files = dict(files)
    files[info + "METADATA"] = _metadata().encode()
    files[info + "WHEEL"] = b"Wheel-Version: 1.0\nGenerator: tensortap\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    record = ""
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        record += "%s,sha256=%s,%d\n" % (path, digest, len(content))
    files[info + "RECORD"] = (record + info + "RECORD,,\n").encode()
    with zipfile.ZipFile(os.path.join(folder, name), "w", zipfile.ZIP_DEFLATED) as wheel:
        for path, content in files.items():
            wheel.writestr(zipfile.ZipInfo(path, (1980, 1, 1, 0, 0, 0)), content)  # the same bytes each time
    return name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = {}
    for name in sorted(os.listdir(os.path.join(_SOURCE, "tensortap"))):
        if name.endswith((".py", ".typed")):
            with open(os.path.join(_SOURCE, "tensortap", name), "rb") as stream:
                files["tensortap/" + name] = stream.read()
    return _write(wheel_directory, files)


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    return _write(wheel_directory, {"tensortap.pth": (_SOURCE + "\n").encode()})
