#!/usr/bin/env python3
"""fetch_openvino.sh where nothing can be fetched, or the wrong thing."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SCRIPT = pathlib.Path(__file__).parent / 'fetch_openvino.sh'
LIBRARY = 'libopenvino_c.so.2641'
HAS_PIP = subprocess.run([sys.executable, '-m', 'pip', '--version'],
                         capture_output=True, check=False).returncode == 0


class FetchOpenVinoTest(unittest.TestCase):

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.wheels = self.folder / 'wheels'
        self.wheels.mkdir()
        self.target = self.folder / 'made' / 'openvino'

    def fetch(self, *args, path=None):
        """Runs the script with the wheels of a folder alone."""
        environment = {**os.environ, 'PIP_NO_INDEX': '1',
                       'PIP_FIND_LINKS': str(self.wheels)}
        if path:
            environment['PATH'] = path
        return subprocess.run(['bash', SCRIPT, *(args or [self.target])],
                              capture_output=True, text=True, check=False,
                              env=environment)

    def expect_failure(self, done, code, words):
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(done.stdout, '')

    def test_what_is_there_is_only_named(self):
        self.target.mkdir(parents=True)
        (self.target / LIBRARY).touch()
        done = self.fetch()
        self.assertEqual((done.returncode, done.stdout),
                         (0, f'{self.target}\n'))

    def test_what_is_in_the_way_stays(self):
        self.target.mkdir(parents=True)
        self.expect_failure(self.fetch(), 1, 'remove it')
        self.assertTrue(self.target.is_dir())

    def test_usage(self):
        self.expect_failure(self.fetch('a', 'b'), 2, 'FOLDER')
        self.expect_failure(self.fetch('--help'), 2, 'FOLDER')

    @unittest.skipUnless(HAS_PIP, 'there is no pip')
    def test_without_a_network(self):
        self.expect_failure(self.fetch(), 3, 'is the network reachable?')
        self.assertEqual(list(self.target.parent.iterdir()), [])

    def test_without_pip(self):
        tools = self.folder / 'bin'
        tools.mkdir()
        for name in ('bash', 'basename', 'dirname', 'mkdir', 'uname'):
            (tools / name).symlink_to(f'/usr/bin/{name}')
        self.expect_failure(self.fetch(path=str(tools)), 3, 'python3-pip')

    @unittest.skipUnless(HAS_PIP, 'there is no pip')
    def test_another_wheel_is_refused(self):
        info = 'openvino-2026.4.1.dist-info'
        name = 'openvino-2026.4.1-1-cp311-cp311-manylinux_2_28_x86_64.whl'
        with zipfile.ZipFile(self.wheels / name, 'w') as wheel:
            wheel.writestr(f'{info}/METADATA', 'Metadata-Version: 2.1\n'
                           'Name: openvino\nVersion: 2026.4.1\n')
            wheel.writestr(f'{info}/WHEEL', 'Wheel-Version: 1.0\n'
                           'Root-Is-Purelib: false\n'
                           'Tag: cp311-cp311-manylinux_2_28_x86_64\n')
            wheel.writestr(f'{info}/RECORD', '')
            wheel.writestr(f'openvino/libs/{LIBRARY}', 'something else')
        self.expect_failure(self.fetch(), 1, 'its SHA-256 is another')
        self.assertEqual(list(self.target.parent.iterdir()), [])


if __name__ == '__main__':
    unittest.main()
