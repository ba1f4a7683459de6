"""What the end-to-end tests of the `thermocline` program share.

The program's path comes from the environment variable THERMOCLINE, else from
build/release. Needs nothing but Python's standard library. No test depends on
how long something takes, but for one of cli_output_test.py that says so; every
wait has a limit only so that a hang fails.
"""

import array
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from gguf_bytes import Gguf  # noqa: for the scripts

ROOT = pathlib.Path(__file__).resolve().parent.parent
PROGRAM = os.path.abspath(os.environ.get(
    "THERMOCLINE", ROOT / "build/release/thermocline"))
# What the build made and linked beside the program.
DATA = pathlib.Path(PROGRAM).parent / "testdata"
STORIES = str(DATA / "models/stories260K.gguf")
GOLDEN = str(DATA / "golden/llama-gqa-f16.gguf")
DEMO = str(ROOT / "models/demo/thermocline-demo-8.8m-f16.gguf")
DEMO_FOLDER = ROOT.parent / "shared/fixtures/models/demo"
LILY = (b", there was a little girl named Lily. "
        b"She loved to play outside in the park.")
WAIT_LIMIT_S = 300
# A sanitizer's build computes twenty times slower: what runs through the same
# code again and again runs less often.
IS_SANITIZED = os.environ.get("TC_SANITIZED") == "1"


def run(*args, stdin=b"", env=None, **more):
    """Runs the program to its end."""
    if "stdout" not in more:
        more["stdout"] = subprocess.PIPE
    if "stderr" not in more:
        more["stderr"] = subprocess.PIPE
    return subprocess.run([PROGRAM, *map(str, args)], input=stdin,
                          env={**os.environ, **(env or {})},
                          timeout=WAIT_LIMIT_S, **more)


def start(*args, **more):
    """Starts the program with pipes for stdout and stderr."""
    return subprocess.Popen([PROGRAM, *map(str, args)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, **more)


def wait_for_handler(process):
    """Returns once the program catches SIGINT, as the kernel tells."""
    while process.poll() is None:
        with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
            caught = [line for line in file if line.startswith("SigCgt")]
        if int(caught[0].split()[1], 16) >> (signal.SIGINT - 1) & 1:
            return


def floats(data):
    values = array.array("f")
    values.frombytes(data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


def nmse(got, want):
    return (sum((a - b) ** 2 for a, b in zip(got, want)) /
            sum(b * b for b in want))


class CliTest(unittest.TestCase):
    """What all tests share."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def assert_ok(self, result):
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def assert_fails(self, result, *parts, code=1):
        """One error line that holds all `parts`; nothing on stdout."""
        text = result.stderr.decode(errors="replace")
        self.assertEqual(result.returncode, code, text)
        errors = [line for line in text.splitlines()
                  if line.startswith("thermocline: error: ")]
        self.assertEqual(len(errors), 1, text)
        self.assertTrue(text.endswith(errors[0] + "\n"), text)
        for part in parts:
            self.assertIn(part, errors[0])
        self.assertEqual(result.stdout, b"")

    def write(self, name, data):
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def leftovers(self, *expected):
        return sorted(set(os.listdir(self.folder)) - set(expected))


def main():
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"no program at {PROGRAM}: build it, or set THERMOCLINE")
    if not DATA.is_dir():
        sys.exit(f"no test data at {DATA}: ninja -C {DATA.parent} "
                 "made_testdata")
    unittest.main()
