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
  tests.tokenizer_golden_test.TokenizerGoldenTest  # 27: text's; real vocabularies
  tests.exact_golden_test.Files/ExactGolden  # 23: golden_test's smaller files
  cli.PrepareCommandTest                 #  18: training's
  tests.cuda_rates_test.CudaRates        #  17: kernels, which are not sanitized
  import.HfTokenizerGoldenTest           #  14: text's; real vocabularies
  cli.LikeModel                          #  13: synth's, the planner's
  tests.synth_model_test.SynthExpertsModelTest  # 13: as those above
  text.Texts/LongTextTest                #  13: BpeTest, SpmTest
)
