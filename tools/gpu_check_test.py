#!/usr/bin/env python3
"""Runs gpu_check.sh in a folder of programs that only pretend."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

TOOLS = pathlib.Path(__file__).resolve().parent

# The program and the tests. FAIL names what fails: a command or a suite.
PROGRAM = r'''#!/bin/bash
case " $* " in
  *' --no-measure --device '*) [[ -z $NO_CARD ]] || {
    echo "thermocline: error: cuda0: $NO_CARD" >&2; exit 1; } ;;
esac
[[ $1 != run ]] || sleep 0.1  # nvidia-smi counts meanwhile
[[ $1 != "$FAIL" ]] || { echo "$1 fails"; exit 1; }
while (($# > 0)); do
  case $1 in
    --device) device=1 ;;
    -o) out=$2 ;;
  esac
  shift
done
[[ -z $out ]] || printf '\0\0\200?\0\0%s@' "${device:+$DIFFERENCE}" >"$out"
exit 0
'''
TESTS = r'''#!/bin/bash
case "$*" in
  --gtest_list_tests) printf 'Running main()\nFirst.\n  A\nSecond.\n  B\n' ;;
  *"$FAIL."*) exit 1 ;;
esac
echo "$TC_DEVICE_DRAWS $TC_GRAPH_REPLAYS $*"
'''
SMI = r'''#!/bin/bash
[[ $* == *memory.used* ]] || exit 0
echo 1000
[[ $* != *-lms* ]] || { echo 1300; exec sleep 60; }
'''
SANITIZER = '#!/bin/bash\n[[ $2 != "$FAIL" ]]\n'


class GpuCheckTest(unittest.TestCase):

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        shutil.copy(TOOLS / 'gpu_check.sh', self.folder)
        (self.folder / 'bin').mkdir()
        for name, text in [('thermocline', PROGRAM),
                           ('kernels_cuda_test_on_gpu', TESTS),
                           ('device_cuda_test_on_gpu', TESTS),
                           ('bin/nvidia-smi', SMI),
                           ('bin/compute-sanitizer', SANITIZER)]:
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def check(self, *args, **environment):
        """The exit code, the table by step, and all that was printed."""
        done = subprocess.run(
            [self.folder / 'gpu_check.sh', *args], text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60,
            env={'PATH': f'{self.folder}/bin:{os.environ["PATH"]}',
                 'FAIL': 'nothing', **environment})
        table = dict(re.findall(r'^(\w+) +\d+  (.*)$', done.stdout, re.M))
        return done.returncode, table, done.stdout

    def test_all_steps_in_order_and_few_files(self):
        out = self.folder / 'out'
        code, table, _ = self.check(out)
        self.assertEqual(code, 0)
        self.assertEqual(list(table), '''card kernels device draws memcheck
            racecheck synccheck initcheck graph rates models compare bench memory
            peer'''.split())
        self.assertTrue(table.pop('peer').startswith('left out: --peer names no'))
        self.assertEqual(set(table.values()), {'ok'})
        self.assertEqual(len(list(out.iterdir())), 8)
        tests = (out / 'tests.log').read_text()
        self.assertIn('500  --gtest_filter=*DeviceDraws*', tests)
        self.assertIn('10000 --gtest_filter=*AGraphIsReplayed', tests)
        models = (out / 'models.log').read_text()
        self.assertIn('q4_0, 64MiB: NMSE 0 of at most 1e-3, words the same', models)
        self.assertIn('288 MiB planned at most, 300 MiB by the driver', models)

    def test_failures_are_counted_and_stop_nothing(self):
        for what, step in [('Second', 'kernels'), ('bench', 'bench'),
                           ('racecheck', 'racecheck')]:
            code, table, printed = self.check(self.folder / 'out', FAIL=what)
            failed = [name for name, how in table.items() if 'FAILED' in how]
            self.assertIn(step, failed, printed)
            self.assertEqual(code, len(failed))
            self.assertIn('left out', table['peer'])

    def test_logits_that_differ_fail(self):
        code, table, printed = self.check(self.folder / 'out', '--only', 'compare',
                                          DIFFERENCE='@')
        self.assertEqual(code, 1, printed)
        self.assertEqual(list(table), ['models', 'compare'])

    def test_without_a_card_it_says_so(self):
        code, table, _ = self.check(self.folder / 'out',
                                    NO_CARD='no NVIDIA driver')
        self.assertEqual(code, len(table))
        self.assertEqual(table['graph'],
                         'FAILED: not run, cuda0: no NVIDIA driver')

    def test_wrong_usage(self):
        for args, message in [
                ([], 'OUT is missing'), (['a', 'b'], 'more than one OUT'),
                (['a', '--fast'], 'no such flag: --fast'),
                (['a', '--peer'], '--peer needs a value'),
                (['a', '--only', 'card,tea'], 'no such step: tea'),
                (['a', '--emulated'], '--emulated is for the repository')]:
            code, _, printed = self.check(*args)
            self.assertEqual(code, 64)
            self.assertIn(message, printed)
        self.assertEqual(self.check('--help')[0], 0)

    def test_all_limits_are_thirteen_minutes_at_most(self):
        text = (TOOLS / 'gpu_check.sh').read_text()
        limits = re.findall(r'^ +step (\S+) (\d+) \w+\.log$', text, re.M)
        self.assertEqual(len(limits), 12)
        seconds = sum(int(limit) * (4 if name == '$tool' else 1)
                      for name, limit in limits)
        self.assertLessEqual(seconds, 13 * 60)


class GpuFolderTest(unittest.TestCase):

    def test_wrong_usage(self):
        for args, code, message in [
                ([], 2, 'tools/gpu_folder.sh DIR'), (['--fast'], 2, 'DIR'),
                ([str(TOOLS)], 1, 'is there already')]:
            done = subprocess.run([TOOLS / 'gpu_folder.sh', *args], text=True,
                                  capture_output=True)
            self.assertEqual(done.returncode, code)
            self.assertIn(message, done.stderr)


if __name__ == '__main__':
    unittest.main()
