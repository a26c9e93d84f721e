package tokenizer

import (
	"slices"
	"testing"

	"loaderd/tokenizer/internal/tokentest"
)

// Special tokens that begin documents, and fill-in tokens, are found by their usual names. The former are also found
// by the post_processor.
func TestSpecialTokens_FoundByUsualNames(t *testing.T) {
	type fillIn [3]int32 // prefix, middle, suffix
	for _, tt := range []struct {
		name    string
		file    func(object)
		options Options
		added   []string // ids from 263 on
		begin   int32    // 0 for none
		end     int32    // 0 for none
		fill    fillIn
		before  []int32
	}{
		{name: "none", added: []string{"<x>"}},
		{name: "by name", added: []string{"<x>", "<|begin_of_text|>"}, begin: 264},
		{name: "the usual order", added: []string{"<s>", "<|begin_of_text|>"}, begin: 264},
		{name: "DeepSeek", added: []string{"<｜begin▁of▁sentence｜>", "<｜fim▁hole｜>", "<｜fim▁begin｜>", "<｜fim▁end｜>",
			"<｜end▁of▁sentence｜>"}, begin: 263, end: 267, fill: fillIn{265, 266, 264}},
		{name: "Cohere", added: []string{"<BOS_TOKEN>", "<EOS_TOKEN>"}, begin: 263, end: 264},
		{name: "StarCoder", added: []string{"<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>"},
			fill: fillIn{263, 264, 265}},
		{name: "SantaCoder", added: []string{"<fim-prefix>", "<fim-middle>", "<fim-suffix>"}, fill: fillIn{263, 264, 265}},
		{name: "Qwen", added: []string{"<|fim_prefix|>", "<|fim_middle|>", "<|fim_suffix|>"}, fill: fillIn{263, 264, 265}},
		{name: "CodeLlama", added: []string{"▁<PRE>", "▁<SUF>", "▁<MID>"}, fill: fillIn{263, 265, 264}},
		{name: "one is missing", added: []string{"<fim_prefix>", "<fim_middle>"}},
		{name: "two of one name and three of another", added: []string{"<fim_prefix>", "<fim_middle>", "<|fim_prefix|>",
			"<|fim_middle|>", "<|fim_suffix|>"}, fill: fillIn{265, 266, 267}},
		{name: "a template", added: []string{"<s>"}, file: processor, begin: 97},
		{name: "a template that is used", added: []string{"<s>"}, file: processor, options: Options{AddSpecialTokens: true},
			begin: 97, before: []int32{97}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := smallFile(tokentest.ABC...)
			var added []any
			for _, content := range tt.added {
				added = append(added, addedToken(0, content, "special"))
			}
			f["added_tokens"] = added
			if tt.file != nil {
				tt.file(f)
			}
			m := mustLoadFile(t, f, tt.options)
			id, ok := m.BeginOfText()
			if id != tt.begin || ok != (tt.begin != 0) {
				t.Errorf("a text begins with %d, %v", id, ok)
			}
			if end, ok := m.EndOfText(); end.ID != tt.end || ok != (tt.end != 0) {
				t.Errorf("a document ends with %d, %v", end.ID, ok)
			}
			prefix, middle, suffix, ok := m.FIMTokens()
			if got := (fillIn{prefix, middle, suffix}); got != tt.fill || ok != (tt.fill != fillIn{}) {
				t.Errorf("filled in with %v, %v", got, ok)
			}
			before, behind := m.TemplateIDs()
			if !slices.Equal(before, tt.before) || (len(behind) > 0) != (len(tt.before) > 0) {
				t.Errorf("%v and %v around a text", before, behind)
			}
			for _, content := range tt.added {
				if id, ok := m.AddedTokenID(content); !ok || m.decoded[id] != content {
					t.Errorf("%s is %d, %v", content, id, ok)
				}
			}
			if _, ok := m.AddedTokenID("ab"); ok {
				t.Error("a token of the vocabulary is a special one")
			}
		})
	}
	m, err := Load("cl100k_base", Options{})
	if err != nil {
		t.Fatal(err)
	}
	if prefix, middle, suffix, ok := m.FIMTokens(); prefix != 100258 || middle != 100259 || suffix != 100260 || !ok {
		t.Errorf("cl100k_base has %d, %d, %d, %v", prefix, middle, suffix, ok)
	}
}

// processor adds tokens a and b around texts.
func processor(f object) {
	f["post_processor"] = object{"type": "BertProcessing", "cls": []any{"a", 97}, "sep": []any{"b", 98}}
}
