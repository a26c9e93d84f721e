package loader_test

import "loaderd/loader/internal/plantest"

// Small plans, as the tests of package plan have them.
var (
	config      = plantest.Config
	configs     = plantest.Configs
	someLengths = plantest.Lengths
	hintOf      = plantest.Hint
	tellHints   = plantest.TellHints
)
