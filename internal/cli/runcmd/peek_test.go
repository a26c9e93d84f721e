package runcmd

import (
	"io"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/goldentest"
	"loaderd/loader/document"
)

// TestPeek_GoldenOutput compares the output of peek with golden files.
func TestPeek_GoldenOutput(t *testing.T) {
	texts := []api.DocumentText{
		{Info: document.Info{Source: "math", Sequence: 7, Subject: "docs.math", Path: "a/b.txt", ID: "a/b.txt", Bytes: 1234},
			Total:  9,
			Tokens: []int32{1, 2, 3, 4, 5, 6}, Texts: []string{"Hello", " wor", "ld\nand", `\xE4`, "\t\x1b[2J",
				"<|endoftext|>"}},
		{Info: document.Info{Sequence: 8, Subject: "docs.x", ID: "x"}, Total: 3, Tokens: []int32{10, 20, 30}},
		{Info: document.Info{Sequence: 9, Subject: "docs.x", Bytes: 9}, Skip: "undecodable",
			Problem: "INVALID_JSON: payload is \x1b not JSON"},
	}
	goldentest.Compare(t, "peek/plain.txt", func(w io.Writer) error { return writeTexts(w, texts, plainBorders) })
	goldentest.Compare(t, "peek/coloured.txt", func(w io.Writer) error { return writeTexts(w, texts, colouredBorders) })
	goldentest.Compare(t, "peek/none.txt", func(w io.Writer) error { return writeTexts(w, nil, plainBorders) })
}
