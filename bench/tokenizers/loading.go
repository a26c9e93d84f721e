package main

import (
	"encoding/json"
	"io"
	"strings"

	"loaderd/tokenizer"
)

// loaded is the time to the ids of a first text in a fresh process, in seconds of wall clock and of processor time.
type loaded struct {
	Load        spent `json:"load"`
	Encoder     spent `json:"encoder"`     // creating an encoder and encoding a short text
	LongWord    spent `json:"long_word"`   // a word that is too long to be merged
	Fingerprint spent `json:"fingerprint"` // requested after all of that
}

type spent struct {
	Wall float64 `json:"wall_seconds"`
	CPU  float64 `json:"cpu_seconds"`
}

func of(f func()) (s spent, err error) {
	s.Wall, s.CPU, err = timed(f)
	return s, err
}

// measureLoading loads a tokenizer and encodes two texts.
func measureLoading(name string, stdout io.Writer) (err error) {
	var m *tokenizer.Model
	var e *tokenizer.Encoder
	var failed error
	var r loaded
	for _, x := range []struct {
		to *spent
		do func()
	}{
		{&r.Load, func() { m, failed = tokenizer.Load(name, tokenizer.Options{}) }},
		{&r.Encoder, func() {
			e = m.NewEncoder()
			e.Encode(nil, []byte("A short text."))
		}},
		{&r.LongWord, func() { e.Encode(nil, []byte(strings.Repeat("longword", 16))) }},
		{&r.Fingerprint, func() { m.Fingerprint() }},
	} {
		if *x.to, err = of(x.do); err != nil {
			return err
		}
		if failed != nil {
			return failed
		}
	}
	return json.NewEncoder(stdout).Encode(r)
}
