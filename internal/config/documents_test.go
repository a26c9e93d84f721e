package config_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"loaderd/internal/config"
	"loaderd/loader/runconfig"
)

// readAgain loads the printed form of a configuration.
func readAgain(t *testing.T, c config.Config) config.Config {
	t.Helper()
	again, err := config.Load(config.Layers{Name: "printed.yaml", YAML: []byte(printed(t, c))})
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// Transformations can be configured in all documented forms, and their printed form is read as the same
// configuration.
func TestTransformations_RoundTrip(t *testing.T) {
	auto := runconfig.FIMTokens{Prefix: "auto", Middle: "auto", Suffix: "auto"}
	for _, tt := range []struct {
		name   string
		layers config.Layers
		want   runconfig.Documents
	}{
		{"one line", config.Layers{YAML: []byte(
			"documents: {bos: 5, fim: {rate: 0.5, spm_rate: 0.25, tokens: auto}, max_tokens: {at: 100, do: drop}}\n")},
			runconfig.Documents{BOS: "5", FIM: runconfig.FIM{Rate: 0.5, SPMRate: 0.25, Tokens: auto},
				MaxTokens: runconfig.MaxTokens{At: 100, Do: runconfig.MaxDrop}}},
		{"tokens by hand", config.Layers{YAML: []byte(
			"documents:\n  bos: <s>\n  fim:\n    rate: 1\n    tokens: {prefix: <pre>, middle: 7, suffix: \"<suf>\"}\n")},
			runconfig.Documents{BOS: "<s>", FIM: runconfig.FIM{Rate: 1, SPMRate: 0.5,
				Tokens: runconfig.FIMTokens{Prefix: "<pre>", Middle: "7", Suffix: "<suf>"}},
				MaxTokens: runconfig.MaxTokens{Do: runconfig.MaxCut}}},
		{"the environment", config.Layers{Environ: []string{"LOADERD_DOCUMENTS__FIM__TOKENS__PREFIX=1",
			"LOADERD_DOCUMENTS__FIM__TOKENS__MIDDLE=<m>",
			"LOADERD_DOCUMENTS__FIM__TOKENS__SUFFIX=3", "LOADERD_DOCUMENTS__FIM__RATE=0.1",
			"LOADERD_DOCUMENTS__MAX_TOKENS__AT=9"}},
			runconfig.Documents{BOS: "none", FIM: runconfig.FIM{Rate: 0.1, SPMRate: 0.5,
				Tokens: runconfig.FIMTokens{Prefix: "1", Middle: "<m>", Suffix: "3"}},
				MaxTokens: runconfig.MaxTokens{At: 9, Do: runconfig.MaxCut}}},
		{"auto over others", config.Layers{YAML: []byte(
			"documents: {fim: {rate: 1, tokens: {prefix: 1, middle: 2, suffix: 3}}}\n"),
			Overrides: []config.Override{{Path: "documents.fim.tokens", Value: "auto", Flag: "--set"}}},
			runconfig.Documents{BOS: "none", FIM: runconfig.FIM{Rate: 1, SPMRate: 0.5, Tokens: auto},
				MaxTokens: runconfig.MaxTokens{Do: runconfig.MaxCut}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := config.Load(tt.layers)
			if err != nil {
				t.Fatal(err)
			}
			for _, got := range []runconfig.Documents{c.Plan.Documents, readAgain(t, c).Plan.Documents} {
				if got.BOS != tt.want.BOS || got.FIM != tt.want.FIM || got.MaxTokens != tt.want.MaxTokens {
					t.Errorf("%+v, want %+v", got, tt.want)
				}
			}
		})
	}
}

func TestTransformations_RefusesInvalid(t *testing.T) {
	none := "tokenizer: {name: none, vocab_size: 8, fingerprint: \"sha256:" + strings.Repeat("a", 64) +
		"\", end: none, pad: 7}\n"
	for text, want := range map[string]string{
		"documents: {fim: {rat: 1}}": "documents.fim.rat: 1: want a known setting: did you mean " +
			"documents.fim.rate?",
		"documents: {fim: {tokens: starcoder}}": `documents.fim.tokens: "starcoder": want a section with settings below it`,
		"documents: {fim: auto}":                `documents.fim: "auto": want a section with settings below it`,
		"documents: {bos: 1.5}": "documents.bos: 1.5: want auto, none, a token id or the text " +
			"of a special token",
		"documents: {fim: {rate: 2}}":                      "documents.fim.rate: 2: want a share of 0 to 1",
		"documents: {max_tokens: {at: 5, do: trim}}":       `documents.max_tokens.do: "trim": want cut, drop or split`,
		"documents: {fim: {rate: 1, tokens: {prefix: 1}}}": "want prefix, middle and suffix, or auto for all of them",
		none +
			"documents: {bos: auto}": `documents.bos: "auto": want a token id, because tokenizer.name is none`,
		none + "documents: {bos: 8}":         "documents.bos: 8: want an id below tokenizer.vocab_size 8",
		none + "documents: {fim: {rate: 1}}": "documents.fim.tokens.middle: \"auto\": want a token id",
		none + "documents: {fim: {rate: 1, tokens: {prefix: <p>, middle: 1, suffix: 2}}}": "documents.fim.tokens.prefix: " +
			"\"<p>\": want a token id",
	} {
		_, err := config.Load(config.Layers{Name: "c.yaml", YAML: []byte(text + "\n")})
		var problems config.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// Columns can be declared in all layers, and their printed form is read as the same configuration.
func TestColumns_RoundTrip(t *testing.T) {
	want := map[string]runconfig.TokenColumn{"teacher": {Type: "float32", Fill: -0.5}, "seen": {Type: "bool", Fill: 1},
		"Modality": {Type: "int8"}, "other": {Type: "none"}}
	meta := map[string]string{"lang": "string", "year": "int64", "score": "float64"}
	c, err := config.Load(config.Layers{
		YAML: []byte("documents:\n  multiple_per_message: true\n  columns:\n    teacher: {type: float16, fill: -0.5}\n    " +
			"seen: {type: " +
			"bool, fill: true}\n    Modality: {type: int8}\n" +
			"  meta: {lang: string, year: int64, score: int64}\n"),
		Environ: []string{"LOADERD_DOCUMENTS__META__SCORE=float64"},
		Overrides: []config.Override{{Path: "documents.columns.teacher.type", Value: "float32"},
			{Path: "documents.columns.other.type", Value: "none"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range []runconfig.Documents{c.Plan.Documents, readAgain(t, c).Plan.Documents} {
		if !maps.Equal(got.Columns, want) || !maps.Equal(got.Meta, meta) {
			t.Errorf("%v and %v, want %v and %v", got.Columns, got.Meta, want, meta)
		}
	}
	if d := config.Default().Plan.Documents; len(d.Columns)+len(d.Meta) > 0 {
		t.Errorf("the defaults have %v and %v now", d.Columns, d.Meta)
	}
}

func TestColumns_RefusesInvalid(t *testing.T) {
	for text, want := range map[string]string{
		"columns: {t: float32}":                  `documents.columns.t: "float32": want names, each with settings below it: teacher: {type: float32, fill: 0}`,
		"columns: {t: {}}":                       `documents.columns.t.type: "": want float16, float32, int8, int16, int32, bool, or none to leave it out`,
		"columns: {t: {type: float64}}":          `documents.columns.t.type: "float64": want float16, float32, int8, int16, int32, bool, or none to leave it out`,
		"columns: {t: {type: float32, full: 0}}": "documents.columns.t.full: 0: want one of fill, type",
		"columns: {t: {type: int8, fill: 128}}":  "documents.columns.t.fill: 128: want a whole number of -128 to 127",
		"columns: {t: {type: int32, fill: 0.5}}": "documents.columns.t.fill: 0.5: want a whole number of -2147483648 " +
			"to 2147483647",
		"columns: {t: {type: float16, fill: 1e6}}": "documents.columns.t.fill: 1e+06: want a finite number that " +
			"float16 holds",
		"columns: {t: {type: float32, fill: .nan}}": "documents.columns.t.fill: NaN: want a finite number that float32 " +
			"holds",
		"columns: {t: {type: bool, fill: 2}}": "documents.columns.t.fill: 2: want true or false",
		"columns: {t: {type: bool, fill: x}}": `documents.columns.t.fill: "x": want a number such as 0.5, or true or false`,
		"columns: {labels: {type: bool}}": "documents.columns.labels.type: \"bool\": want another name: these " +
			"are taken",
		"columns: {1t: {type: bool}}": "want a name of letters, digits and _ that begins " +
			"with no digit",
		"multiple_per_message: false, columns : {t: {type: int8}}": `documents.columns.t.type: "int8": want none without documents.multiple_per_message: true`,
		"columns: 5":                   "documents.columns: 5: want names, each with settings below it",
		"meta: {lang: text}":           `documents.meta.lang: "text": want string, int64 or float64`,
		"meta: {lang: {type: string}}": `documents.meta.lang.type: "string": want names, each with a text: lang: string`,
		"meta: [{lang: string}, 5]":    `documents.meta: [{"lang":"string"},5]: want names, each with a text: lang: string`,
		"meta: {loss: string}":         "want another name: these are taken",
		"columns: {t: {type: bool}}, meta: {t: string}": "documents.meta.t: \"string\": want another name: " +
			"documents.columns has it",
	} {
		_, err := config.Load(config.Layers{Name: "c.yaml",
			YAML: []byte("documents: {" + strings.ReplaceAll(text, "columns: {", "multiple_per_message: true, columns: {") +
				"}\n")})
		var problems config.Problems
		if !errors.As(err, &problems) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}
