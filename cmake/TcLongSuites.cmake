# Suites that compute for long in code which other suites take sanitizers through
# too: they get the label "long", as those named ...LongDraws do, and the presets
# of sanitizers and qemu leave them out. Beside each: seconds of CPU under
# AddressSanitizer, of some 1500 for all suites.
set(tc_long_suites
  cli.StorageModel                       # 262: plans of a model; planner's
  training.FindPartsTest                 #  99: sizes by trial; FitLayerTest
  training.FitTest                       #  49: FitLayerTest
  training.OrderedTest                   #  26: orders of planner/ and pack/
  training.PrepareTest                   #  25: its parts have suites of their own
  training.TrainingFreeFitTest           #  25: FitLayerTest
  tests.synth_model_test.Shapes/SynthModelTest  # 110: synth's, decode of 12 kinds
  engine.Cases/LongAttentionTest         #  31: AttentionTest, kernels'
)
