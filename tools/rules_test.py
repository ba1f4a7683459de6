#!/usr/bin/env python3
"""Shows that each house rule catches what it forbids and keeps what it allows."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

import rule_checkout
import rule_commits
import rule_flags
import rule_format
import rule_layers
import rule_pairs
import rule_sizes
import rule_text
from tree import Tree

TABLE = '''# Architecture

| level | folder | holds | may use | third party |
|---|---|---|---|---|
| 0 | `base/` | errors | std | fmt |
| 1 | `os/` | files | base | |
| 1 | `text/` | words | base | PCRE2 |
| 2 | `gguf/` | container | os base | |
| 3 | `engine/` | steps | levels 0-2 except text | |
| 4 | `cli/` | program | all | CLI11 |

| other | table |
|---|---|
'''


class RuleTest(unittest.TestCase):
    """A temporary tree per test: write(path, text), then check a rule."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write(rule_layers.TABLE_PATH, TABLE)

    def write(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())

    def violations(self, rule):
        return [str(v) for v in rule.check(Tree(self.root))]

    def expect_kept(self, rule):
        self.assertEqual(self.violations(rule), [])

    def expect_one(self, rule, *parts):
        found = self.violations(rule)
        self.assertEqual(len(found), 1, found)
        for part in parts:
            self.assertIn(part, found[0])


class LayersTest(RuleTest):

    def expect_include(self, path, include, *parts):
        """The include in `path` is the one violation; kept if no parts."""
        self.write('src/base/status.h', '')
        self.write('src/text/vocab.h', '')
        self.write('src/gguf/gguf.h', '')
        self.write(path, f'// words\n#include {include}\n')
        if parts:
            self.expect_one(rule_layers, path, *parts)
        else:
            self.expect_kept(rule_layers)

    def test_own_room_and_lower_rooms_are_allowed(self):
        self.expect_include('src/gguf/x.cc', '"base/status.h"')
        self.expect_include('src/gguf/x.cc', '"gguf/gguf.h"')
        self.expect_include('src/engine/x.cc', '"gguf/gguf.h"')
        self.expect_include('src/cli/x.cc', '"text/vocab.h"')

    def test_room_above(self):
        self.expect_include('src/base/x.cc', '"gguf/gguf.h"', ':2:',
                            'room gguf is not allowed')

    def test_room_beside(self):
        self.expect_include('src/os/x.cc', '"text/vocab.h"', 'room text')

    def test_subfolders_belong_to_their_room(self):
        self.expect_include('src/os/linux/x.h', '"text/vocab.h"', 'room text')

    def test_excepted_room(self):
        self.expect_include('src/engine/x.cc', '"text/vocab.h"', 'room text')

    def test_tests_in_a_room_keep_its_layer(self):
        self.expect_include('src/os/x_test.cc', '"text/vocab.h"', 'room text')

    def test_tests_folder_may_use_all_rooms(self):
        self.expect_include('tests/x_test.cc', '"text/vocab.h"')

    def test_include_must_be_a_file_under_src(self):
        self.expect_include('src/gguf/x.cc', '"gguf/gone.h"', 'no file')
        self.expect_include('src/gguf/x.cc', '"gguf.h"', 'no file')

    def test_third_party_of_the_row(self):
        self.expect_include('src/text/x.cc', '<pcre2.h>')
        self.expect_include('src/cli/x.cc', '<CLI/CLI.hpp>')

    def test_third_party_of_another_row(self):
        self.expect_include('src/os/x.cc', '<pcre2.h>', 'PCRE2')
        self.expect_include('src/os/x.cc', '"hwy/highway.h"', 'Highway')
        self.expect_include('src/os/x.cc', '<nlohmann/json.hpp>', 'JSON')

    def test_third_party_of_level_0_is_allowed_everywhere(self):
        self.expect_include('src/os/x.cc', '<fmt/format.h>')

    def test_third_party_outside_its_row_at_level_0(self):
        self.expect_include('src/base/x.cc', '<tl/expected.hpp>', 'expected')

    def test_test_libraries(self):
        self.expect_include('src/os/x_test.cc', '<gtest/gtest.h>')
        self.expect_include('src/os/x_test.cc', '<nlohmann/json.hpp>')
        self.expect_include('src/os/x_test.cc', '<string>')
        self.expect_include('src/os/x.cc', '<gmock/gmock.h>', 'tests only')

    def test_headers_for_tests(self):
        self.write('src/os/test_folder.h', '')
        self.expect_include('src/os/testing.h', '<gtest/gtest.h>')
        self.expect_include('src/os/x_test.cc', '"os/test_folder.h"')
        self.expect_include('src/os/x.cc', '"os/test_folder.h"', 'tests only')

    def test_system_headers(self):
        for header in ('<vector>', '<sys/mman.h>', '<unistd.h>'):
            self.expect_include('src/os/x.cc', header)

    def test_unknown_header(self):
        self.expect_include('src/os/x.cc', '<boost/any.hpp>', 'unknown header')
        self.expect_include('src/os/x.cc', '<zlib.h>', 'unknown header')

    def test_folder_without_a_row(self):
        self.write('src/misc/x.h', '')
        self.expect_one(rule_layers, 'src/misc/x.h', 'not in a room')

    def test_linked_rooms(self):
        self.write('src/os/CMakeLists.txt',
                   'tc_room(os DEPS base LIBS Threads::Threads)\n')
        self.expect_kept(rule_layers)
        self.write('src/os/CMakeLists.txt', 'tc_room(os DEPS gguf base)\n')
        self.expect_one(rule_layers, 'os may not link gguf')

    def test_what_plays_a_device_is_linked_by_tests_alone(self):
        self.write(rule_layers.TABLE_PATH, TABLE.replace(
            '| 1 | `os/` | files | base | |',
            '| 0 | `cuda_on_host/` | device | std | |\n'
            '| 1 | `os/` | files | base cuda_on_host | |'))
        self.write('src/cuda_on_host/lane.h', '')
        self.expect_include('src/os/x.cc', '"cuda_on_host/lane.h"')
        self.write('src/os/CMakeLists.txt', 'tc_room(os DEPS cuda_on_host)\n')
        self.expect_one(rule_layers, 'os may not link cuda_on_host')

    def test_kernel_files_include_little(self):
        self.write(rule_layers.TABLE_PATH, TABLE.replace(
            '| 2 | `gguf/` |', '| 2 | `kernels/` | loops | os base | |\n'
            '| 2 | `gguf/` |'))
        self.write('src/kernels/cuda/cuda.h', '')
        self.expect_include('src/kernels/cuda/x.cu', '<cstdint>')
        self.expect_include('src/kernels/cuda/x.cu', '"kernels/cuda/cuda.h"')
        self.expect_include('src/kernels/cuda/x.cu', '<vector>',
                            'a kernel file includes no vector')
        self.expect_include('src/kernels/cuda/x.cu', '"base/status.h"',
                            'a kernel file includes no base/status.h')

    def test_table_without_rows(self):
        self.write(rule_layers.TABLE_PATH, '# Nothing\n')
        self.expect_one(rule_layers, 'no table of rooms')

    def test_table_that_points_up(self):
        self.write(rule_layers.TABLE_PATH, TABLE.replace(
            '| files | base |', '| files | base gguf |'))
        self.expect_one(rule_layers, 'os (level 1) may not use gguf')

    def test_table_with_unknown_names(self):
        self.write(rule_layers.TABLE_PATH, TABLE.replace(
            '| files | base | |', '| files | base bsae | |'))
        self.expect_one(rule_layers, 'bsae')
        self.write(rule_layers.TABLE_PATH, TABLE.replace('CLI11', 'CLI12'))
        self.expect_one(rule_layers, 'CLI12')


class PairsTest(RuleTest):

    def test_source_with_its_test(self):
        self.write('src/os/a.cc', '')
        self.write('src/os/a_test.cc', '')
        self.write('src/os/a_fuzz.cc', '')
        self.expect_kept(rule_pairs)

    def test_source_without_a_test(self):
        self.write('src/os/a.cc', '')
        self.write('src/gguf/a_test.cc', '')
        self.expect_one(rule_pairs, 'src/os/a.cc', 'no _test.cc')

    def test_kernel_file_without_a_test(self):
        self.write('src/os/a.cu', '')
        self.expect_one(rule_pairs, 'src/os/a.cu', 'no _test.cc')
        self.write('src/os/a_test.cc', '')
        self.expect_kept(rule_pairs)

    def test_exception_with_a_reason(self):
        self.write('src/os/a.cc', '')
        self.write(rule_pairs.EXCEPTIONS_PATH, '# why\n\nsrc/os/a.cc: one line')
        self.expect_kept(rule_pairs)

    def test_exception_without_a_reason(self):
        self.write('src/os/a.cc', '')
        self.write(rule_pairs.EXCEPTIONS_PATH, 'src/os/a.cc:\n')
        self.expect_one(rule_pairs, ':1:', 'no reason')

    def test_exception_that_is_not_needed(self):
        self.write('src/os/a.cc', '')
        self.write('src/os/a_test.cc', '')
        self.write(rule_pairs.EXCEPTIONS_PATH, 'src/os/a.cc: was untested\n')
        self.expect_one(rule_pairs, 'needs no exception')

    def test_exception_listed_twice(self):
        self.write('src/os/a.cc', '')
        self.write(rule_pairs.EXCEPTIONS_PATH, 'src/os/a.cc: x\n' * 2)
        self.expect_one(rule_pairs, ':2:', 'twice')


class TextTest(RuleTest):

    def expect_line(self, line, *parts):
        self.write('src/os/a.h', f'// fine\n{line}\n')
        if parts:
            self.expect_one(rule_text, 'src/os/a.h:2:', *parts)
        else:
            self.expect_kept(rule_text)

    def test_machine_paths(self):
        for folder in ('home', 'root', 'work', 'Users'):
            self.expect_line(f'"/{folder}/someone/x"', 'one machine')
        self.expect_line('/tmp/some_' + 'jobs', 'one machine')

    def test_paths_that_are_everywhere(self):
        self.expect_line('/usr/lib /dev/null src/wo' 'rk/x.h out/ho' 'me/x')
        self.expect_line('https://example.org/home/x')

    def test_registry_hosts(self):
        for host in ('pypi.' + 'org', 'files.pythonho' + 'sted.org',
                     'registry.npmjs.' + 'org', 'deb.de' + 'bian.org'):
            self.expect_line(f'https://{host}/x', 'registry')

    def test_markers(self):
        for word in ('FIX' + 'ME', 'X' + 'XX', 'TO' + 'DO'):
            self.expect_line(f'// {word}: later', 'marker')
        self.expect_line('std::string name = "tmp.XXXXXX";')
        self.expect_line('// TO' + 'DO(name): what would close it')

    def test_larger_magnitude(self):
        self.expect_line('if (std::fabs(x[i]) > std::fabs(peak)) peak = x[i];',
                         'clang 19')
        self.expect_line('if (std::abs(a) < std::abs(b)) b = a;', 'clang 19')
        self.expect_line('if (std::fabs(x[i]) > magnitude) peak = x[i];')

    def test_every_kind_of_file_is_read(self):
        self.write('docs/a.md', '/home' + '/someone/')
        self.expect_one(rule_text, 'docs/a.md')

    def test_data_of_others_is_left_alone(self):
        self.write('testdata/a.txt', '/home' + '/someone/')
        self.write('docs/a.bin', b'\0/home' + b'/someone/')
        self.expect_kept(rule_text)


class FlagsTest(RuleTest):

    def expect_literal(self, path, text, *parts):
        self.write(path, f'return Fail(code,\n            "{text}");\n')
        if parts:
            self.expect_one(rule_flags, f'{path}:2:', *parts)
        else:
            self.expect_kept(rule_flags)

    def test_flags_in_libraries(self):
        for text, flag in (('use --ffn dense', '--ffn'),
                           ('--top-p {}: what', '--top-p'),
                           ('-c {}: too large', '-c'),
                           ('a smaller context (-c)', '-c'),
                           ('use -ctk f32', '-ctk')):
            self.expect_literal('src/engine/x.cc', text, f'{flag} is a flag')

    def test_where_flags_are_at_home(self):
        for path in ('src/cli/x.cc', 'src/bench/x.cc', 'src/engine/x_test.cc'):
            self.expect_literal(path, 'use --ffn dense')

    def test_what_only_looks_like_a_flag(self):
        for text in ('.a{--hue:2;--sat:3%}', '<!-- {} -->', 'a -- b', 'x-c y',
                     'from -1 to 1', 'a -b2'):
            self.expect_literal('src/inspect/x.cc', text)
        self.write('src/engine/y.h', 'int x;  // "what --ffn dense" means\n')
        self.expect_kept(rule_flags)


class SizesTest(RuleTest):

    def write_function(self, path, num_lines, before=''):
        body = '  x();\n' * (num_lines - 2)
        self.write(path, f'{before}int F(int x) {{\n{body}}}\n')

    def test_files_at_the_limit(self):
        self.write('src/os/a.cc', '\n' * rule_sizes.MAX_FILE_LINES)
        self.write('src/os/a_test.cc', '\n' * rule_sizes.MAX_TEST_LINES)
        self.expect_kept(rule_sizes)

    def test_files_past_the_limit(self):
        self.write('src/os/a.cc', '\n' * 401)
        self.expect_one(rule_sizes, 'src/os/a.cc', '401 lines')
        self.write('src/os/a.cc', '\n' * 400)
        self.write('src/os/a_test.cc', '\n' * 501)
        self.expect_one(rule_sizes, 'src/os/a_test.cc', '501 lines')

    def test_exceptions_may_only_shrink(self):
        for size, *parts in ((401,), (410,), (411, 'only shrink'),
                             (400, 'needs no exception')):
            self.write('src/os/a.cc', '\n' * size)
            self.write(rule_sizes.EXCEPTIONS_PATH, 'src/os/a.cc: 410 a table\n')
            if parts:
                self.expect_one(rule_sizes, *parts)
            else:
                self.expect_kept(rule_sizes)

    def test_exceptions_without_number_or_reason(self):
        self.write('src/os/a.cc', '\n' * 401)
        for text, part in (('a table', 'its number of lines'),
                           ('410', 'and a reason'), ('', 'no reason')):
            self.write(rule_sizes.EXCEPTIONS_PATH, f'src/os/a.cc: {text}\n')
            self.expect_one(rule_sizes, ':1:', part)

    def test_long_functions(self):
        before = 'namespace a {\nstruct S {\n' + '  int x;\n' * 100 + '};\n'
        self.write_function('src/os/a.cc', 60, before)
        self.expect_kept(rule_sizes)
        self.write_function('src/os/a.cc', 61, before)
        self.expect_one(rule_sizes, 'src/os/a.cc:104:', 'about 61 lines')
        self.write(rule_sizes.EXCEPTIONS_PATH, 'src/os/a.cc(): 61 a table\n')
        self.expect_kept(rule_sizes)
        self.write_function('src/os/a.cc', 62, before)
        self.expect_one(rule_sizes, 'about 62 lines')

    def test_functions_past_the_aim_are_counted(self):
        self.write_function('src/os/a.cc', 41)
        self.write_function('src/os/b.cc', 40)
        with unittest.mock.patch.object(rule_sizes, 'MOST_LONG_FUNCTIONS', 0):
            self.expect_one(rule_sizes, '1 functions of more than 40 lines')
        self.expect_kept(rule_sizes)

    def test_small_files_are_counted(self):
        self.write('src/os/a.cc', '\n' * 29)
        self.write('src/os/b.cc', '\n' * 30)
        self.write('src/kernels/cpu/a_avx2.cc', '\n')
        self.write('src/kernels/cpu/a-inl.h', '\n')
        self.write('src/kernels/CMakeLists.txt', 'tc_isa_file(a_avx2.cc "x")\n')
        self.assertEqual(rule_sizes.small_files(Tree(self.root)),
                         ['src/os/a.cc'])
        with unittest.mock.patch.object(rule_sizes, 'MOST_SMALL_FILES', 0):
            self.expect_one(rule_sizes, '1 files of less than 30 lines')


class CommitsTest(RuleTest):

    WHY = 'Because the old one was wrong where a file\nhas no tensors.'

    def git(self, *args):
        return subprocess.run(
            ['git', '-c', 'user.name=a', '-c', 'user.email=a@b', *args],
            cwd=self.root, check=True, capture_output=True,
            text=True).stdout.strip()

    def setUp(self):
        super().setUp()
        self.git('init', '-q')
        self.commit('Short')
        patch = unittest.mock.patch.object(rule_commits, 'START',
                                           self.git('rev-parse', 'HEAD'))
        patch.start()
        self.addCleanup(patch.stop)

    def commit(self, message):
        self.git('commit', '-q', '--allow-empty', '-m', message)

    def test_commits_that_say_why(self):
        self.commit(f'Short\n\n{self.WHY}')
        self.assertIsNone(rule_commits.skip(Tree(self.root)))
        self.expect_kept(rule_commits)

    def test_commits_that_do_not(self):
        for body in ('', 'It was wrong.',
                     'Signed-off-by: A B <a@b>, one of eight words here'):
            self.commit(f'Change\n\n{body}')
            self.expect_one(rule_commits, 'commit ', "'Change' has no body")
            self.git('reset', '-q', '--soft', 'HEAD~1')

    def test_merges_are_exempt(self):
        self.git('checkout', '-q', '-b', 'other')
        self.commit(f'One\n\n{self.WHY}')
        self.git('checkout', '-q', '-')
        self.commit(f'Two\n\n{self.WHY}')
        self.git('merge', '-q', '--no-ff', '-m', 'Merge', 'other')
        self.expect_kept(rule_commits)

    def test_without_the_history_it_is_skipped(self):
        with unittest.mock.patch.object(rule_commits, 'START', '0' * 40):
            self.commit('No body')
            self.assertIn('does not reach back',
                          rule_commits.skip(Tree(self.root)))
            self.expect_kept(rule_commits)
        shutil.rmtree(self.root / '.git')
        self.assertIn('no git', rule_commits.skip(Tree(self.root)))


class CheckoutTest(RuleTest):

    def put(self, path, num_mb):
        self.write(path, '')
        os.truncate(self.root / path, int(num_mb * 1e6))

    def git(self, *arguments):
        subprocess.run(['git', '-c', 'user.name=a', '-c', 'user.email=a@b.c',
                        *arguments], cwd=self.root, check=True,
                       capture_output=True)

    def test_up_to_the_limit(self):
        self.put('models/a.gguf', rule_checkout.MAX_MB - 0.01)
        self.expect_kept(rule_checkout)

    def test_without_git_the_largest_are_named(self):
        self.put('models/a.gguf', 20)
        rest = rule_checkout.MAX_MB - 19
        self.put('testdata/b.gguf', rest)
        self.expect_one(rule_checkout, f'{rule_checkout.MAX_MB + 1}.00 MB',
                        f'largest: testdata/b.gguf {rest}.00 MB, '
                        'models/a.gguf 20.00 MB')

    def test_what_is_new_is_named(self):
        self.git('init')
        self.put('models/a.gguf', 0.9 * rule_checkout.MAX_MB)
        self.git('add', '.')
        self.git('commit', '-m', 'a')
        self.put('testdata/b.gguf', 0.2 * rule_checkout.MAX_MB)
        self.expect_kept(rule_checkout)  # nobody's but this folder's
        self.git('add', '.')
        self.expect_one(rule_checkout, 'new or larger: testdata/b.gguf '
                        f'{0.2 * rule_checkout.MAX_MB:.2f} MB')
        self.assertNotIn('a.gguf', self.violations(rule_checkout)[0])
        self.git('commit', '-m', 'b')
        self.expect_one(rule_checkout, 'largest: models/a.gguf')


@unittest.skipUnless(shutil.which(rule_format.PROGRAM),
                     f'{rule_format.PROGRAM} is not installed')
class FormatTest(RuleTest):

    def setUp(self):
        super().setUp()
        self.write('.clang-format', 'BasedOnStyle: Google\n')

    def test_formatted(self):
        self.write('src/os/a.cc', 'int main() { return 0; }\n')
        self.expect_kept(rule_format)

    def test_not_formatted(self):
        self.write('src/os/a.cc', 'int x;\nint main() {return  0;}\n')
        self.expect_one(rule_format, 'src/os/a.cc:2:', 'clang-format-19 -i')

    def test_broken_configuration(self):
        self.write('.clang-format', 'BasedOnStyle: Nobody\n')
        self.write('src/os/a.cc', 'int x;\n')
        self.assertTrue(self.violations(rule_format))


class TreeTest(RuleTest):

    def test_build_folder_is_left_out(self):
        self.write('build/release/a.cc', '')
        self.write('src/os/a.cc', '')
        self.assertEqual(Tree(self.root).sources(), ['src/os/a.cc'])


if __name__ == '__main__':
    unittest.main()
