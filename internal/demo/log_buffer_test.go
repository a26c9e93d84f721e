package demo

import (
	"bytes"
	"testing"
)

func TestLogBuffer_IsBounded(t *testing.T) {
	var l LogBuffer
	line := append(bytes.Repeat([]byte("x"), 999), '\n')
	for range 2 * maxLogBytes / len(line) {
		if n, err := l.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if n := len(l.TakeLines()); n == 0 || n > maxLogBytes || len(l.lastLine()) != 999 {
		t.Errorf("kept %d bytes, last line of %d", n, len(l.lastLine()))
	}
	if n := len(l.TakeLines()); n != 0 {
		t.Errorf("%d bytes were taken twice", n)
	}
}
