#!/usr/bin/env python3
"""Shows what cuda_mutants.py makes of a kernel file and its table."""

import unittest

import cuda_mutants

SOURCE = '''#include "kernels/cuda/x.h"

namespace thermocline::cuda {
__global__ void K(int* y) {
  y[0] = 1;
  __syncthreads();
  y[1] = 2;
}
void LaunchX(int* y) {}
}  // namespace thermocline::cuda
'''


class MutantsTest(unittest.TestCase):

    def expect_error(self, table, words):
        with self.assertRaisesRegex(cuda_mutants.TableError, words):
            cuda_mutants.generate(SOURCE, table)

    def test_each_mutant_is_a_copy_with_one_change(self):
        out = cuda_mutants.generate(SOURCE, '''# why
launch: LaunchX

no barrier
-   __syncthreads();
+

other value and no barrier
- y[0]   = 1;
- __syncthreads();
+ y[0] = 3;
''')
        first = out[out.index('mutant_0'):out.index('namespace thermocline::'
                                                    'cuda::mutant_1')]
        self.assertNotIn('__syncthreads', first)
        self.assertIn('y[0] = 1', first)
        self.assertIn('y[0] = 3;\n  y[1] = 2;', out)
        self.assertIn('{"no barrier", mutant_0::LaunchX}', out)
        self.assertIn('MutantsOfLaunchX()', out)
        self.assertEqual(out.count('#include "kernels/cuda/x.h"'), 1)

    def test_one_of_several_overloads(self):
        out = cuda_mutants.generate(SOURCE.replace('LaunchX', 'Launch'),
                                    """launch: Launch(NormArgs)
other value
- y[0] = 1;
+ y[0] = 3;
""")
        self.assertIn('{"other value", mutant_0::Launch}', out)
        self.assertIn('std::span<const Mutant<void (*)(const kernels::NormArgs&'
                      ', void*)>> MutantsOfNorm()', out)

    def test_none_of_each_function(self):
        out = cuda_mutants.generate(SOURCE, """launch: LaunchX
other value
- y[0] = 1;
+ y[0] = 3;
""", has_mutants=False)
        self.assertNotIn('__global__', out)
        self.assertIn('MutantsOfLaunchX() { return {}; }', out)

    def test_text_that_is_not_there_once(self):
        self.expect_error('launch: LaunchX\na\n- gone\n', '"a".* 0 times')
        self.expect_error('launch: LaunchX\na\n- y[\n', '"a".* 2 times')

    def test_tables_without_sense(self):
        self.expect_error('a\n- y[0]\n', 'before any `launch:`')
        self.expect_error('launch: LaunchX\n- y[0]\n', 'before any name')
        self.expect_error('launch: LaunchX\na\nb\n- y[0]\n', 'changes nothing')


if __name__ == '__main__':
    unittest.main()
