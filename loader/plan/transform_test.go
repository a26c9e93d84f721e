package plan_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/plan"
)

func transformed(edit func(*plan.DocumentsConfig)) plan.Config {
	c := plantest.Config("concat")
	edit(&c.Documents)
	return c
}

// Transformations that are off shape nothing; one that is on does, with its version.
func TestFingerprintOfTransformations(t *testing.T) {
	bare := plantest.Config("concat")
	off := transformed(func(d *plan.DocumentsConfig) {
		d.BOS, d.FIM = plan.TokenNone, plan.FIM{SPMRate: 0.5, Tokens: plan.FIMTokens{Prefix: "auto", Middle: "auto",
			Suffix: "auto"}}
		d.MaxTokens.Do = plan.MaxCut
	})
	if bare.Fingerprint() != off.Fingerprint() {
		t.Errorf("what is off shapes the plan: %v", bare.Differences(off))
	}
	if b, err := json.Marshal(off.Settled().Documents); err != nil || string(b) != `{"dedupe":8}` {
		t.Errorf("a plan has %s, %v", b, err)
	}
	seen := map[string]string{bare.Fingerprint(): "nothing"}
	for name, edit := range map[string]func(*plan.DocumentsConfig){
		"bos":         func(d *plan.DocumentsConfig) { d.BOS = "1" },
		"another bos": func(d *plan.DocumentsConfig) { d.BOS = "2" },
		"fim": func(d *plan.DocumentsConfig) {
			d.FIM = plan.FIM{Rate: 0.5, Tokens: plan.FIMTokens{Prefix: "1", Middle: "2", Suffix: "3"}}
		},
		"spm": func(d *plan.DocumentsConfig) {
			d.FIM = plan.FIM{Rate: 0.5, SPMRate: 1, Tokens: plan.FIMTokens{Prefix: "1", Middle: "2", Suffix: "3"}}
		},
		"cut":   func(d *plan.DocumentsConfig) { d.MaxTokens = plan.MaxTokens{At: 9, Do: plan.MaxCut} },
		"split": func(d *plan.DocumentsConfig) { d.MaxTokens = plan.MaxTokens{At: 9, Do: plan.MaxSplit} },
		"drop":  func(d *plan.DocumentsConfig) { d.MaxTokens = plan.MaxTokens{At: 9, Do: plan.MaxDrop} },
		"another version": func(d *plan.DocumentsConfig) {
			d.BOS, d.Versions = "1", map[string]int{"bos": 0}
		},
	} {
		c := transformed(edit)
		if other, ok := seen[c.Fingerprint()]; ok {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[c.Fingerprint()] = name
		if c.Settled().Documents.Versions == nil {
			t.Errorf("%s has no version", name)
		}
		// A plan that is read again has the fingerprint that it was written with.
		var again plan.Config
		if b, err := json.Marshal(c.Settled()); err != nil || json.Unmarshal(b, &again) != nil ||
			again.Fingerprint() != c.Fingerprint() {
			t.Errorf("%s, read again: %v, %v", name, c.Differences(again), err)
		}
		if bad := again.Validate(); len(bad) > 0 {
			t.Errorf("%s, read again: %v", name, bad)
		}
	}
}

// What is left of documents can go on in a run that makes the same tokens of them, and in no other.
func TestSameTokens(t *testing.T) {
	fim := func(d *plan.DocumentsConfig) {
		d.FIM = plan.FIM{Rate: 0.5, Tokens: plan.FIMTokens{Prefix: "1", Middle: "2", Suffix: "3"}}
	}
	split := func(d *plan.DocumentsConfig) { d.MaxTokens = plan.MaxTokens{At: 9, Do: plan.MaxSplit} }
	seeded := func(c plan.Config) plan.Config { c.Seed++; return c }
	none := transformed(func(*plan.DocumentsConfig) {})
	deduped := transformed(func(d *plan.DocumentsConfig) { d.Dedupe++ })
	for _, tt := range []struct {
		name string
		a, b plan.Config
		want bool
	}{
		{"equal", none, none, true},
		{"another seed", none, seeded(none), true},
		{"another dedupe", none, deduped, true},
		{"columns", none, transformed(func(d *plan.DocumentsConfig) {
			d.Columns, d.Meta = map[string]plan.TokenColumn{"a": {Type: plan.ColumnInt8}},
				map[string]string{"b": plan.MetaString}
		}), true},
		{"bos", none, transformed(func(d *plan.DocumentsConfig) { d.BOS = "1" }), false},
		{"fim", none, transformed(fim), false},
		{"equal fim", transformed(fim), transformed(fim), true},
		{"fim of another seed", transformed(fim), seeded(transformed(fim)), false},
		{"equal splits", transformed(split), transformed(split), true},
		{"a split where documents were cut", transformed(func(d *plan.DocumentsConfig) {
			d.MaxTokens = plan.MaxTokens{At: 9, Do: plan.MaxCut}
		}), transformed(split), false},
		{"a limit", none, transformed(func(d *plan.DocumentsConfig) {
			d.MaxTokens = plan.MaxTokens{At: 9, Do: plan.MaxCut}
		}), false},
	} {
		if got := tt.a.SameTokens(tt.b); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestBadTransformations(t *testing.T) {
	all := plan.FIMTokens{Prefix: "auto", Middle: "auto", Suffix: "auto"}
	for _, tt := range []struct {
		c    plan.DocumentsConfig
		want []string
	}{
		{plan.DocumentsConfig{}, nil},
		{plan.DocumentsConfig{FIM: plan.FIM{Rate: 1, SPMRate: 1, Tokens: all}, MaxTokens: plan.MaxTokens{At: math.MaxInt32,
			Do: plan.MaxDrop}}, nil},
		{plan.DocumentsConfig{FIM: plan.FIM{Rate: 1.1, SPMRate: -1, Tokens: all}},
			[]string{"documents.fim.rate", "documents.fim.spm_rate"}},
		{plan.DocumentsConfig{FIM: plan.FIM{Rate: math.NaN(), Tokens: all}}, []string{"documents.fim.rate"}},
		{plan.DocumentsConfig{FIM: plan.FIM{Rate: 1, Tokens: plan.FIMTokens{Prefix: "1", Middle: "none"}}},
			[]string{"documents.fim.tokens.middle", "documents.fim.tokens.suffix"}},
		{plan.DocumentsConfig{FIM: plan.FIM{Rate: 1, Tokens: plan.FIMTokens{Prefix: "1", Middle: "auto", Suffix: "auto"}}},
			[]string{"documents.fim.tokens"}},
		{plan.DocumentsConfig{MaxTokens: plan.MaxTokens{At: 1, Do: plan.MaxSplit}}, nil},
		{plan.DocumentsConfig{MaxTokens: plan.MaxTokens{At: -1, Do: plan.MaxCut}}, []string{"documents.max_tokens.at"}},
		{plan.DocumentsConfig{MaxTokens: plan.MaxTokens{At: 1}}, []string{"documents.max_tokens.do"}},
		{plan.DocumentsConfig{MaxTokens: plan.MaxTokens{Do: "trim"}}, []string{"documents.max_tokens.do"}},
	} {
		c := plantest.Config("concat")
		c.Documents = tt.c
		var got []string
		for _, e := range c.Validate() {
			got = append(got, e.Field)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.c, got, strings.Join(tt.want, ", "))
		}
	}
}

// What a run can decode of its documents, a fork of it can.
func TestUnread(t *testing.T) {
	column := func(typ string) map[string]plan.TokenColumn { return map[string]plan.TokenColumn{"a": {Type: typ}} }
	meta := func(typ string) map[string]string { return map[string]string{"b": typ} }
	for _, tt := range []struct {
		name     string
		old, now plan.DocumentsConfig
		want     []string
	}{
		{"equal", plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnInt8), Meta: meta(plan.MetaString)},
			plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnInt8), Meta: meta(plan.MetaString)}, nil},
		{"all of it is new", plan.DocumentsConfig{}, plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnInt8),
			Meta: meta(plan.MetaInt64)}, nil},
		{"one document a message", plan.DocumentsConfig{Batches: true}, plan.DocumentsConfig{},
			[]string{"documents.batches: true"}},
		{"a column goes", plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnInt8)},
			plan.DocumentsConfig{Batches: true}, []string{"documents.columns.a of type int8"}},
		{"a column that was left out goes", plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnNone)},
			plan.DocumentsConfig{Batches: true},
			[]string{"documents.columns.a of type none"}},
		{"a column that was left out comes", plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnNone)},
			plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnBool)}, []string{"documents.columns.a of type none"}},
		{"a column of another type", plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnInt8)},
			plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnInt16)},
			[]string{"documents.columns.a of type int8"}},
		{"a column is left out", plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnInt8)},
			plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnNone)}, nil},
		{"another fill", plan.DocumentsConfig{Batches: true, Columns: column(plan.ColumnInt8)},
			plan.DocumentsConfig{Batches: true, Columns: map[string]plan.TokenColumn{"a": {Type: plan.ColumnInt8, Fill: 1}}},
			nil},
		{"a value of another type", plan.DocumentsConfig{Meta: meta(plan.MetaString)},
			plan.DocumentsConfig{Meta: meta(plan.MetaInt64)}, []string{"documents.meta.b: string"}},
		{"a value goes that messages of one document had", plan.DocumentsConfig{Meta: meta(plan.MetaString)},
			plan.DocumentsConfig{}, nil},
		{"a value goes that rows had", plan.DocumentsConfig{Batches: true, Meta: meta(plan.MetaString)},
			plan.DocumentsConfig{Batches: true}, []string{"documents.meta.b: string"}},
		{"a value that rows had is left out", plan.DocumentsConfig{Batches: true, Meta: meta(plan.MetaString)},
			plan.DocumentsConfig{Batches: true, Columns: map[string]plan.TokenColumn{"b": {Type: plan.ColumnNone}}}, nil},
	} {
		if got := tt.now.Unread(tt.old); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
