#!/usr/bin/env python3
"""Each rule of the check scripts in tools/ accepts what it should and rejects what it should."""
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))
sys.dont_write_bytecode = True
import check_includes  # noqa: E402
import check_links  # noqa: E402
import check_size  # noqa: E402
import check_text  # noqa: E402


class Includes(unittest.TestCase):
    def problems(self, path, text, existing=True):
        return check_includes.check_source(path, text, lambda _: existing)

    def test_layers_point_downwards(self):
        text = '#include "io/safetensors.h"\n#include "base/error.h"'
        self.assertEqual([], self.problems("model/plan.cc", text))
        self.assertEqual([], self.problems("cpu/blocks.cc", '#include "model/gemma4.h"'))
        for path, target in [("base/error.cc", "io/safetensors.h"), ("io/hub.cc", "model/gemma4.h"),
                             ("text/tokenizer.cc", "io/hub.h"), ("model/plan.cc", "text/tokenizer.h"),
                             ("engine/engine.cc", "ref/ref_runner.h"), ("cpu/blocks.cc", "ref/ref_blocks.h"),
                             ("cuda/blocks.cu", "cli/run.h")]:
            with self.subTest(path=path, target=target):
                self.assertEqual(1, len(self.problems(path, f'#include "{target}"')))

    def test_includes_are_paths_below_src(self):
        self.assertEqual(1, len(self.problems("io/hub.cc", '#include "hub.h"', existing=False)))

    def test_third_party_headers_stay_in_the_sources_of_few_folders(self):
        self.assertEqual([], self.problems("io/model_config.cc", "#include <nlohmann/json.hpp>"))
        self.assertEqual([], self.problems("cli/main.cc", "#include <CLI/CLI.hpp>"))
        for path in ["base/a.cc", "model/a.cc", "engine/a.cc", "ref/a.cc", "cpu/a.cc", "cuda/a.cu"]:
            with self.subTest(path=path):
                self.assertEqual(1, len(self.problems(path, "#include <nlohmann/json.hpp>")))
        header = "#pragma once\n#include <nlohmann/json.hpp>"
        self.assertEqual(1, len(self.problems("io/model_config.h", header)))
        self.assertEqual(1, len(self.problems("io/model_config.cc", "#include <CLI/CLI.hpp>")))

    def test_system_headers_are_free_and_cuda_has_its_own(self):
        text = "#include <vector>\n#include <sys/mman.h>\n#include <unistd.h>\n#include <immintrin.h>"
        self.assertEqual([], self.problems("base/mapped_file.cc", text))
        self.assertEqual([], self.problems("cuda/norm.cu", "#include <cuda_bf16.h>\n#include <cub/cub.cuh>"))
        self.assertEqual(1, len(self.problems("cpu/blocks.cc", "#include <cuda_bf16.h>")))

    def test_headers_are_guarded_and_folders_known(self):
        self.assertEqual(1, len(self.problems("io/hub.h", "")))
        self.assertEqual(1, len(self.problems("extras/new.cc", "")))


class Sizes(unittest.TestCase):
    def functions(self, text):
        return [(name, lines) for name, _, lines in check_size.cpp_functions(text)]

    def test_finds_functions_in_namespaces_and_classes(self):
        text = """
namespace carat {
template <class T>
struct Pair {
  int first() const { return 1; }
  T a{}, b{};
};
static int total(const Pair<int>& p) {
  if (p.a) {
    return 1;
  }
  return 0;
}
}  // namespace carat
"""
        self.assertEqual([("first", 1), ("total", 6)], self.functions(text))

    def test_initialiser_lists_and_variables_are_not_functions(self):
        text = """
Thing::Thing(int a)
    : a_{a}, b_(a) {
  run();
}
const int kTable[] = {1, 2, 3};
enum Kind { kOne, kTwo };
"""
        self.assertEqual([("Thing::Thing", 4)], self.functions(text))

    def test_braces_in_literals_and_comments_do_not_count(self):
        text = """
int f() {
  const char* a = "}";  // }
  const char* b = R"({"x": {)";
  return '}' + 1'000;
}
int g() { return 0; }
"""
        self.assertEqual([("f", 5), ("g", 1)], self.functions(text))

    def test_limits(self):
        long = "int f() {\n" + "  g();\n" * 60 + "}\n"
        self.assertEqual(["src/io/a.cc:f"], [key for key, *_ in check_size.check_source("src/io/a.cc", long)])
        self.assertEqual([], list(check_size.check_source("src/cuda/norm.cu", long)))
        wide = "int " + "x" * 120 + ";\n"
        self.assertEqual(1, len(list(check_size.check_source("src/io/a.cc", wide))))
        self.assertEqual(1, len(list(check_size.check_source("src/io/a.cc", "\n" * 501))))
        python = "def f():\n" + "    g()\n" * 60
        self.assertEqual(1, len(list(check_size.check_source("tools/a.py", python))))


class Texts(unittest.TestCase):
    def test_machine_paths_hosts_and_marks(self):
        for text in ["see /wor" + "k/main", "/roo" + "t/x", "/dat" + "a/model", "TO" + "DO later",
                     "https://py" + "pi.org/simple", "in this sess" + "ion"]:
            with self.subTest(text=text):
                self.assertEqual(1, len(list(check_text.check_text(text + "\n"))))
        self.assertEqual([], list(check_text.check_text("tests/data/tiny and ../work/rooted\n")))

    def test_line_ends(self):
        self.assertEqual(1, len(list(check_text.check_text("a \n"))))
        self.assertEqual(1, len(list(check_text.check_text("a\r\n"))))
        self.assertEqual(1, len(list(check_text.check_text("a"))))


class Links(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.root = Path(self.folder.name)
        (self.root / "code.h").write_text("// forward declarations\n\nvoid forward();\nvoid forwarded();\n")
        (self.root / "other.md").write_text("# The plan, in `short`\n")

    def check(self, text, fix=False):
        return check_links.check_document(self.root / "page.md", text, fix)

    def test_files_and_headings(self):
        self.assertEqual([], self.check("[a](other.md) [b](other.md#the-plan-in-short) [c](https://x.y)")[0])
        self.assertEqual(1, len(self.check("[a](missing.md)")[0]))
        self.assertEqual(1, len(self.check("[a](other.md#no-such)")[0]))

    def test_line_links_show_what_they_name(self):
        self.assertEqual([], self.check("[`forward`](code.h#L3)")[0])
        self.assertEqual(1, len(self.check("[`forward`](code.h#L4)")[0]))
        self.assertEqual(1, len(self.check("[`backward`](code.h#L3)")[0]))

    def test_fix_renews_the_line(self):
        self.assertEqual(([], "[`forward()`](code.h#L3)"), self.check("[`forward()`](code.h#L9)", fix=True))


if __name__ == "__main__":
    unittest.main()
