package demo

import (
	"bytes"
	"testing"
)

func TestNotesAreBounded(t *testing.T) {
	var l Notes
	line := append(bytes.Repeat([]byte("x"), 999), '\n')
	for range 2 * notesLimit / len(line) {
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := len(l.Take()); n == 0 || n > notesLimit || len(l.last()) != 999 {
		t.Errorf("kept %d bytes, last line of %d", n, len(l.last()))
	}
	if n := len(l.Take()); n != 0 {
		t.Errorf("%d bytes were taken twice", n)
	}
}
