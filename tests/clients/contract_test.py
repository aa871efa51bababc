#!/usr/bin/env python3
"""What /openapi.json promises against what the server does: schemathesis makes requests, right and wrong
ones, and checks the replies. CARAT_CONTRACT_SECONDS and CARAT_CONTRACT_EXAMPLES bound it."""
import importlib.util
import os
import subprocess
import sys
import tempfile
import unittest

from served import server_url

SECONDS = os.environ.get("CARAT_CONTRACT_SECONDS", "60")
EXAMPLES = os.environ.get("CARAT_CONTRACT_EXAMPLES", "20")
# What a schema can't say is refused all the same: a token id in logit_bias beyond the vocabulary, tools for a
# model that only continues text, a last message that can't be continued.
NOT_CHECKED = "positive_data_acceptance"


class Contract(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("schemathesis"), "schemathesis is not installed")
    def test_the_document_is_kept(self):
        url = server_url("--context", "256")  # replies without a limit of their own stay short
        with tempfile.TemporaryDirectory() as folder:  # for what it leaves behind
            run = subprocess.run(
                [sys.executable, "-c", "from schemathesis.cli import schemathesis; schemathesis()", "run",
                 url + "/openapi.json", "--checks", "all", "--exclude-checks", NOT_CHECKED, "--phases",
                 "coverage,fuzzing", "--max-examples", EXAMPLES, "--max-time", SECONDS, "--seed", "1",
                 "--continue-on-failure", "--suppress-health-check", "all", "--request-timeout", "60",
                 "--generation-database", "none", "--no-color"],
                cwd=folder, capture_output=True, text=True, check=False)
        self.assertEqual(run.returncode, 0, run.stdout[-6000:] + run.stderr[-2000:])


if __name__ == "__main__":
    unittest.main()
