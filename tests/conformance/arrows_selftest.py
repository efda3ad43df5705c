"""Shows that arrows.py can fail: a tree with one wrong include of each sort, and one without any."""
import os
import tempfile
import unittest

import arrows


def tree(root, files):
    for path, text in files.items():
        os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
        with open(os.path.join(root, path), "w") as stream:
            stream.write(text)


class Arrows(unittest.TestCase):
    def found(self, files):
        with tempfile.TemporaryDirectory() as root:
            tree(root, files)
            return arrows.check(root)[0]

    def test_includes_along_the_arrows_are_fine(self):
        self.assertEqual(self.found({
            "format/a.h": '#include "format/b.h"\n#include <vector>\n',
            "collector/a.cpp": '#include "analyzers/a.h"\n#include <spdlog/spdlog.h>\n',
            "probe/launch/main.cpp": "#include <CLI/CLI.hpp>\n",
            "probe/torch/a.cpp": "#include <ATen/record_function.h>\n",
            "tests/unit/a.cpp": '#include "collector/a.h"\n',
        }), [])

    def test_each_backward_include_is_named_with_its_line(self):
        for path, include in (
            ("format/a.h", '"analyzers/a.h"'), ("analyzers/a.cpp", '"collector/a.h"'),
            ("analyzers/a.cpp", '"probe/core/a.h"'), ("probe/core/a.h", '"collector/a.h"'),
            ("collector/a.cpp", '"probe/core/a.h"'), ("format/a.cpp", '"tests/unit/a.h"'),
            ("probe/core/a.cpp", "<spdlog/spdlog.h>"), ("probe/launch/a.cpp", "<boost/json.hpp>"),
            ("probe/torch/a.cpp", "<simdjson.h>"), ("probe/core/a.cpp", "<CLI/CLI.hpp>"),
            ("probe/core/a.cpp", "<ATen/ATen.h>"),
        ):
            found = self.found({path: "#pragma once\n  #  include " + include + "\n"})
            self.assertEqual(len(found), 1, (path, include))
            self.assertTrue(found[0].startswith(path + ":2: "), found)


if __name__ == "__main__":
    unittest.main()
