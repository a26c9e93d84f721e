package jsonlines_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"loaderd/internal/jsonlines"
)

// upper returns a converter that fails for lines with a question mark.
func upper() jsonlines.Converter {
	return func(out, line []byte) ([]byte, error) {
		if strings.Contains(string(line), "?") {
			return out, errors.New("a question")
		}
		return append(out, strings.ToUpper(string(line))...), nil
	}
}

// Lines are written in input order with any number of workers.
func TestConvert_KeepsOrder(t *testing.T) {
	var in, out strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&in, "line %d%s\n", i, strings.Repeat(" x", i*7919%50))
	}
	if err := jsonlines.Convert(t.Context(), "in", strings.NewReader(in.String()), &out, upper); err != nil ||
		out.String() != strings.ToUpper(in.String()) {
		t.Errorf("%v; %d bytes out of %d in", err, out.Len(), in.Len())
	}
}

func TestConvert_ErrorGivesLine(t *testing.T) {
	for name, in := range map[string]string{"in the middle": "a\n\nb\nc?\nd\n", "at the end": "a\n\nb\nc?"} {
		var out strings.Builder
		err := jsonlines.Convert(t.Context(), "in", strings.NewReader(in), &out, upper)
		if err == nil || err.Error() != "in, line 4: a question" || out.String() != "A\nB\n" {
			t.Errorf("%s: %v behind %q", name, err, out.String())
		}
	}
}

type broken struct{ error }

func (b broken) Read([]byte) (int, error)  { return 0, b.error }
func (b broken) Write([]byte) (int, error) { return 0, b.error }

func TestConvert_ReturnsReadAndWriteErrors(t *testing.T) {
	bad := broken{errors.New("broken")}
	if err := jsonlines.Convert(t.Context(), "in", bad, &strings.Builder{}, upper); !errors.Is(err, bad.error) ||
		!strings.HasPrefix(err.Error(), "read input: ") {
		t.Errorf("read: %v", err)
	}
	err := jsonlines.Convert(t.Context(), "in", strings.NewReader("a\n"), bad, upper)
	if !errors.Is(err, bad.error) || !strings.HasPrefix(err.Error(), "write output: ") {
		t.Errorf("write: %v", err)
	}
}

// The description of an invalid line uses the terms of JSON, not of Go.
func TestBad_UsesJSONTerms(t *testing.T) {
	var line struct {
		Text string  `json:"text"`
		IDs  []int32 `json:"ids"`
	}
	for in, want := range map[string]string{
		`[1]`:             `the line is an array, want an object: a document`,
		`{"text":7}`:      `"text" is a number, want a string`,
		`{"ids":"x"}`:     `"ids" is a string, want a list of token ids`,
		`{"ids":[1.5]}`:   `"ids" holds 1.5, want a list of token ids`,
		`{"ids":[true]}`:  `"ids" holds true or false, want a list of token ids`,
		`{"text":{}}`:     `"text" is an object, want a string`,
		`{"text":"a",}`:   `want a document: invalid character '}' looking for beginning of object key string`,
		`{"ids":[[1,2]]}`: `"ids" holds an array, want a list of token ids`,
	} {
		if err := json.Unmarshal([]byte(in), &line); err == nil || jsonlines.Bad(err, "a document").Error() != want {
			t.Errorf("%s: %v, want %s", in, jsonlines.Bad(err, "a document"), want)
		}
	}
}
