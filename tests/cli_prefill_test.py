#!/usr/bin/env python3
"""Prompts that a device for static graphs computes: the slow reference, which
is always there, and what is said of OpenVINO's where it is not."""

import re

import cli_support
from cli_support import DEMO, GOLDEN, STORIES, CliTest, floats, nmse, run

REFERENCE = ("--prefill-device", "reference", "--npu-tokens", "8")
# Longer than one chunk of any size here.
PROMPT = ("Once upon a time there was a little girl named Lily. One day she "
          "went to the park and saw")


class PrefillTest(CliTest):

    def story(self, *flags):
        result = run("run", "-m", STORIES, "-p", PROMPT, "-n", 16, "--temp", 0,
                     *flags)
        return self.assert_ok(result), result.stderr.decode()

    def test_the_host_goes_on_with_what_the_device_left(self):
        want, _ = self.story()
        for flags in ((), ("--npu-param", "on"), ("--npu-param", "off"),
                      ("--npu-tokens", "32"), ("-ctk", "f32"),
                      ("--npu-weights", "f16"), ("-b", "12")):
            out, stderr = self.story(*REFERENCE, *flags)
            self.assertEqual(out, want, flags)
            found = re.search(r"prompts on reference.*NMSE ([\d.e+-]+) against "
                              r"the host", stderr)
            self.assertTrue(found, stderr)
            self.assertLess(float(found[1]), 1e-3)

    def test_the_next_turn_of_a_chat(self):
        # Weights that graphs have as they are: F16.
        turns = b"Who is Lily? Tell me of her and of the park.\nAnd then?\n"
        def chat(*flags):
            result = run("run", "-m", DEMO, "--chat-template", "vicuna",
                         "-cnv", "-n", 8, "--temp", 0, *flags, stdin=turns)
            return self.assert_ok(result), result.stderr
        answers, stderr = chat(*REFERENCE)
        self.assertEqual(answers, chat()[0])
        self.assertIn(b"prefill device: ", stderr)

    def test_logits(self):
        tokens = ",".join(str(1 + i * 7 % 20) for i in range(21))
        rows = []
        for flags in ((), REFERENCE):
            path = self.folder / "logits.f32"
            self.assert_ok(run("eval", "logits", "-m", GOLDEN, "--tokens",
                               tokens, "-o", path, *flags))
            rows.append(floats(path.read_bytes()))
        self.assertLess(nmse(rows[1], rows[0]), 1e-5)

    def test_without_openvino(self):
        nowhere = ("--openvino-lib", "/no/such/folder")
        want, _ = self.story()
        out, stderr = self.story("--prefill-device", "NPU,GPU,CPU,host",
                                 *nowhere)
        self.assertEqual(out, want)
        self.assertIn("/no/such/folder", stderr)
        self.assertIn("the host computes prompts", stderr)
        result = run("run", "-m", STORIES, "-p", PROMPT, "-n", 1,
                     "--prefill-device", "NPU", "--no-fallback", *nowhere)
        self.assertEqual(result.returncode, 1)
        self.assertEqual(result.stdout, b"")


if __name__ == "__main__":
    cli_support.main()
