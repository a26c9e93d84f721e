package runconfig_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"loaderd/loader/internal/plantest"
	"loaderd/loader/runconfig"
)

func transformed(edit func(*runconfig.Documents)) runconfig.Config {
	c := plantest.Config("concat")
	edit(&c.Documents)
	return c
}

// Transformations that are off do not affect the fingerprint. A transformation that is on does, with its version.
func TestFingerprint_CoversActiveTransformations(t *testing.T) {
	bare := plantest.Config("concat")
	off := transformed(func(d *runconfig.Documents) {
		d.BOS, d.FIM = runconfig.TokenNone, runconfig.FIM{SPMRate: 0.5, Tokens: runconfig.FIMTokens{Prefix: "auto",
			Middle: "auto",
			Suffix: "auto"}}
		d.MaxTokens.Do = runconfig.MaxCut
	})
	if bare.Fingerprint() != off.Fingerprint() {
		t.Errorf("what is off shapes the plan: %v", bare.Differences(off))
	}
	if b, err := json.Marshal(off.Canonical().Documents); err != nil || string(b) != `{"dedupe":8}` {
		t.Errorf("a plan has %s, %v", b, err)
	}
	seen := map[string]string{bare.Fingerprint(): "nothing"}
	for name, edit := range map[string]func(*runconfig.Documents){
		"bos":         func(d *runconfig.Documents) { d.BOS = "1" },
		"another bos": func(d *runconfig.Documents) { d.BOS = "2" },
		"fim": func(d *runconfig.Documents) {
			d.FIM = runconfig.FIM{Rate: 0.5, Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "2", Suffix: "3"}}
		},
		"spm": func(d *runconfig.Documents) {
			d.FIM = runconfig.FIM{Rate: 0.5, SPMRate: 1, Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "2", Suffix: "3"}}
		},
		"cut":   func(d *runconfig.Documents) { d.MaxTokens = runconfig.MaxTokens{At: 9, Do: runconfig.MaxCut} },
		"split": func(d *runconfig.Documents) { d.MaxTokens = runconfig.MaxTokens{At: 9, Do: runconfig.MaxSplit} },
		"drop":  func(d *runconfig.Documents) { d.MaxTokens = runconfig.MaxTokens{At: 9, Do: runconfig.MaxDrop} },
		"another version": func(d *runconfig.Documents) {
			d.BOS, d.Versions = "1", map[string]int{"bos": 0}
		},
	} {
		c := transformed(edit)
		if other, ok := seen[c.Fingerprint()]; ok {
			t.Errorf("%s has the fingerprint of %s", name, other)
		}
		seen[c.Fingerprint()] = name
		if c.Canonical().Documents.Versions == nil {
			t.Errorf("%s has no version", name)
		}
		// A plan that is read again has the fingerprint that it was written with.
		var again runconfig.Config
		if b, err := json.Marshal(c.Canonical()); err != nil || json.Unmarshal(b, &again) != nil ||
			again.Fingerprint() != c.Fingerprint() {
			t.Errorf("%s, read again: %v, %v", name, c.Differences(again), err)
		}
		if bad := again.Validate(); len(bad) > 0 {
			t.Errorf("%s, read again: %v", name, bad)
		}
	}
}

// Buffered documents can continue in a run that makes the same tokens of them, and in no other.
func TestSameTokens_ComparesTransformations(t *testing.T) {
	fim := func(d *runconfig.Documents) {
		d.FIM = runconfig.FIM{Rate: 0.5, Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "2", Suffix: "3"}}
	}
	split := func(d *runconfig.Documents) { d.MaxTokens = runconfig.MaxTokens{At: 9, Do: runconfig.MaxSplit} }
	seeded := func(c runconfig.Config) runconfig.Config { c.Seed++; return c }
	none := transformed(func(*runconfig.Documents) {})
	deduped := transformed(func(d *runconfig.Documents) { d.Dedupe++ })
	for _, tt := range []struct {
		name string
		a, b runconfig.Config
		want bool
	}{
		{"equal", none, none, true},
		{"another seed", none, seeded(none), true},
		{"another dedupe", none, deduped, true},
		{"columns", none, transformed(func(d *runconfig.Documents) {
			d.Columns, d.Meta = map[string]runconfig.TokenColumn{"a": {Type: runconfig.ColumnInt8}},
				map[string]string{"b": runconfig.MetaString}
		}), true},
		{"bos", none, transformed(func(d *runconfig.Documents) { d.BOS = "1" }), false},
		{"fim", none, transformed(fim), false},
		{"equal fim", transformed(fim), transformed(fim), true},
		{"fim of another seed", transformed(fim), seeded(transformed(fim)), false},
		{"equal splits", transformed(split), transformed(split), true},
		{"a split where documents were cut", transformed(func(d *runconfig.Documents) {
			d.MaxTokens = runconfig.MaxTokens{At: 9, Do: runconfig.MaxCut}
		}), transformed(split), false},
		{"a limit", none, transformed(func(d *runconfig.Documents) {
			d.MaxTokens = runconfig.MaxTokens{At: 9, Do: runconfig.MaxCut}
		}), false},
	} {
		if got := tt.a.HasSameTokens(tt.b); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

func TestValidate_RefusesInvalidTransformations(t *testing.T) {
	all := runconfig.FIMTokens{Prefix: "auto", Middle: "auto", Suffix: "auto"}
	for _, tt := range []struct {
		c    runconfig.Documents
		want []string
	}{
		{runconfig.Documents{}, nil},
		{runconfig.Documents{FIM: runconfig.FIM{Rate: 1, SPMRate: 1, Tokens: all},
			MaxTokens: runconfig.MaxTokens{At: math.MaxInt32,
				Do: runconfig.MaxDrop}}, nil},
		{runconfig.Documents{FIM: runconfig.FIM{Rate: 1.1, SPMRate: -1, Tokens: all}},
			[]string{"documents.fim.rate", "documents.fim.spm_rate"}},
		{runconfig.Documents{FIM: runconfig.FIM{Rate: math.NaN(), Tokens: all}}, []string{"documents.fim.rate"}},
		{runconfig.Documents{FIM: runconfig.FIM{Rate: 1, Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "none"}}},
			[]string{"documents.fim.tokens.middle", "documents.fim.tokens.suffix"}},
		{runconfig.Documents{FIM: runconfig.FIM{Rate: 1, Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "auto",
			Suffix: "auto"}}},
			[]string{"documents.fim.tokens"}},
		{runconfig.Documents{MaxTokens: runconfig.MaxTokens{At: 1, Do: runconfig.MaxSplit}}, nil},
		{runconfig.Documents{MaxTokens: runconfig.MaxTokens{At: -1, Do: runconfig.MaxCut}},
			[]string{"documents.max_tokens.at"}},
		{runconfig.Documents{MaxTokens: runconfig.MaxTokens{At: 1}}, []string{"documents.max_tokens.do"}},
		{runconfig.Documents{MaxTokens: runconfig.MaxTokens{Do: "trim"}}, []string{"documents.max_tokens.do"}},
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

// A fork can decode every document that its run can decode.
func TestFork_CanDecodeDocumentsOfItsRun(t *testing.T) {
	column := func(typ string) map[string]runconfig.TokenColumn {
		return map[string]runconfig.TokenColumn{"a": {Type: typ}}
	}
	meta := func(typ string) map[string]string { return map[string]string{"b": typ} }
	for _, tt := range []struct {
		name     string
		old, now runconfig.Documents
		want     []string
	}{
		{"equal", runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnInt8),
			Meta: meta(runconfig.MetaString)},
			runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnInt8),
				Meta: meta(runconfig.MetaString)},
			nil},
		{"all of it is new", runconfig.Documents{},
			runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnInt8),
				Meta: meta(runconfig.MetaInt64)}, nil},
		{"one document a message", runconfig.Documents{MultiplePerMessage: true}, runconfig.Documents{},
			[]string{"documents.multiple_per_message: true"}},
		{"a column goes", runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnInt8)},
			runconfig.Documents{MultiplePerMessage: true}, []string{"documents.columns.a of type int8"}},
		{"a column that was left out goes", runconfig.Documents{MultiplePerMessage: true,
			Columns: column(runconfig.ColumnNone)},
			runconfig.Documents{MultiplePerMessage: true},
			[]string{"documents.columns.a of type none"}},
		{"a column that was left out comes", runconfig.Documents{MultiplePerMessage: true,
			Columns: column(runconfig.ColumnNone)},
			runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnBool)},
			[]string{"documents.columns.a of type none"}},
		{"a column of another type", runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnInt8)},
			runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnInt16)},
			[]string{"documents.columns.a of type int8"}},
		{"a column is left out", runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnInt8)},
			runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnNone)}, nil},
		{"another fill", runconfig.Documents{MultiplePerMessage: true, Columns: column(runconfig.ColumnInt8)},
			runconfig.Documents{MultiplePerMessage: true,
				Columns: map[string]runconfig.TokenColumn{"a": {Type: runconfig.ColumnInt8, Fill: 1}}},
			nil},
		{"a value of another type", runconfig.Documents{Meta: meta(runconfig.MetaString)},
			runconfig.Documents{Meta: meta(runconfig.MetaInt64)}, []string{"documents.meta.b: string"}},
		{"a value goes that messages of one document had", runconfig.Documents{Meta: meta(runconfig.MetaString)},
			runconfig.Documents{}, nil},
		{"a value goes that rows had", runconfig.Documents{MultiplePerMessage: true, Meta: meta(runconfig.MetaString)},
			runconfig.Documents{MultiplePerMessage: true}, []string{"documents.meta.b: string"}},
		{"a value that rows had is left out", runconfig.Documents{MultiplePerMessage: true, Meta: meta(runconfig.MetaString)},
			runconfig.Documents{MultiplePerMessage: true,
				Columns: map[string]runconfig.TokenColumn{"b": {Type: runconfig.ColumnNone}}}, nil},
	} {
		if got := tt.now.IncompatibleSettings(tt.old); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
