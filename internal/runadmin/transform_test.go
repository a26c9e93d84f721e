package runadmin_test

import (
	"errors"
	"testing"

	"loaderd/internal/natstest"
	"loaderd/internal/runadmin"
	"loaderd/loader/fault"
	"loaderd/loader/runconfig"
	"loaderd/stream/docstream"
)

// An audit creates the tokens of the run's own configuration, regardless of its arguments. The documents that remain
// for a fork have the same tokens.
func TestAudit_UsesTransformationsOfRun(t *testing.T) {
	store, ctx := published(t), natstest.Context(t)
	transformed := func(method string) runconfig.Config {
		c := config(method)
		c.Documents = runconfig.Documents{BOS: "200",
			FIM: runconfig.FIM{Rate: 0.5, SPMRate: 0.5, Tokens: runconfig.FIMTokens{Prefix: "201", Middle: "202",
				Suffix: "203"}},
			MaxTokens: runconfig.MaxTokens{At: 10, Do: runconfig.MaxCut}}
		return c
	}
	c := transformed("concat")
	e := edges(t, store, "run")
	with := tokenizing
	with.Documents, with.Seed = c.Documents, c.Seed
	docs, err := docstream.OpenReadOnly(ctx, store, with)
	if err != nil {
		t.Fatal(err)
	}
	e.Sources = only{Documents: docs}
	r, stop := startOver(t, "run", c, e)
	if _, err := r.Seal(ctx); err != nil {
		t.Fatal(err)
	}
	steps := read(t, r, 0, 1<<20)
	stop()
	audited, err := runadmin.Audit(ctx, store, "run", tokenizing, c.Tokenizer, nil)
	if err != nil || audited.Steps != uint64(len(steps)) || !audited.Ended {
		t.Errorf("%+v, %v", audited, err)
	}
	if plain := int64(documents * len("document 1")); audited.Tokens <= plain {
		t.Errorf("%d tokens, and %d without what was put before and into them", audited.Tokens, plain)
	}
	if forked, _, err := runadmin.Fork(ctx, store, "run", 2, "equal", transformed("bfd"), with); err != nil ||
		forked.Config.Documents.Versions["fim"] == 0 {
		t.Errorf("%+v, %v", forked.Config.Documents, err)
	}
	var refused *fault.Error
	for name, edit := range map[string]func(*runconfig.Config){
		"plain":   func(c *runconfig.Config) { c.Documents = runconfig.Documents{} },
		"a seed":  func(c *runconfig.Config) { c.Seed++ },
		"a limit": func(c *runconfig.Config) { c.Documents.MaxTokens.At++ },
	} {
		other := transformed("bfd")
		edit(&other)
		if _, _, err := runadmin.Fork(ctx, store, "run", 2, "other", other, with); !errors.As(err, &refused) ||
			refused.Reason != fault.PlanMismatch {
			t.Errorf("a fork with another configuration (%s): %v", name, err)
		}
	}
}
