#!/usr/bin/env python3
"""bench/make_model.py: random models that the program takes for real ones."""

import hashlib
import json
import subprocess
import sys

import cli_support
from cli_support import ROOT, WAIT_LIMIT_S, run

TYPES = ("f16", "q4_0", "q8_0", "q4_k", "q5_k", "q6_k")


class MakeModelTest(cli_support.CliTest):
    def make(self, name, *args):
        path = self.folder / name
        subprocess.run([sys.executable, str(ROOT / "bench/make_model.py"),
                        "--like", "tiny", *args, "-o", str(path)], check=True,
                       timeout=WAIT_LIMIT_S)
        return path

    def test_every_type_runs(self):
        for kind in TYPES:
            path = self.make(kind, "--type", kind)
            report = json.loads(self.assert_ok(run("inspect", "--json", path)))
            self.assertTrue(report["runs"], kind)

    # All layers' outputs and the logits are finite, or there is an error.
    def test_activations_stay_finite(self):
        for kind in TYPES:
            self.assert_ok(run("eval", "logits", "-m",
                               self.make(kind, "--type", kind), "--tokens",
                               "1,300,7", "-o", self.folder / "logits"))

    def test_the_same_arguments_give_the_same_bytes(self):
        def digest(*args):
            path = self.make("again", "--type", "q4_k", *args)
            return hashlib.sha256(path.read_bytes()).hexdigest()
        self.assertEqual(digest(), digest("--seed", "1"))
        self.assertNotEqual(digest(), digest("--seed", "2"))


if __name__ == "__main__":
    cli_support.main()
