#!/usr/bin/env python3
"""The files of deploy/ against the program and against each other.

Usage: files_test.py PATH_TO_CARAT
"""
import re
import subprocess
import sys
import unittest
from pathlib import Path

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


class FilesTest(unittest.TestCase):
    def test_every_flag_is_one_of_the_program(self):
        known = set(re.findall(r"--[a-z][a-z-]*", subprocess.run(
            [self.carat, "serve", "--help"], check=True, capture_output=True, text=True).stdout))
        commands = {
            "Dockerfile": r"CMD (\[.*\])",
            "Dockerfile.cuda": r"CMD (\[.*\])",
            "compose.yaml": r"command: (\[.*\])",
            "systemd/carat.service": r"ExecStart=(.*)",
            "helm/carat/templates/deployment.yaml": r"- (--.*)",
        }
        for name, pattern in commands.items():
            text = " ".join(re.findall(pattern, (DEPLOY / name).read_text()))
            flags = set(re.findall(r"--[a-z][a-z-]*", text))
            self.assertTrue(flags, name)
            self.assertLessEqual(flags, known, name)

    def test_the_chart_uses_each_of_its_values_and_no_others(self):
        chart = DEPLOY / "helm/carat"
        used = set()
        for template in chart.glob("templates/*.yaml"):
            used |= set(re.findall(r"\.Values\.(\w+)", template.read_text()))
        declared = set(re.findall(r"^(\w+):", (chart / "values.yaml").read_text(), re.MULTILINE))
        self.assertEqual(used, declared)

    def test_a_replica_has_longer_to_stop_than_to_drain(self):
        compose = (DEPLOY / "compose.yaml").read_text()
        drain = int(re.search(r'--drain-timeout, "(\d+)"', compose)[1])
        self.assertGreater(int(re.search(r"stop_grace_period: (\d+)s", compose)[1]), drain)
        unit = (DEPLOY / "systemd/carat.service").read_text()
        drain = int(re.search(r"--drain-timeout (\d+)", unit)[1])
        self.assertGreater(int(re.search(r"TimeoutStopSec=(\d+)", unit)[1]), drain)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        print(__doc__)
        sys.exit(2)
    FilesTest.carat = sys.argv.pop()
    unittest.main(verbosity=2)
