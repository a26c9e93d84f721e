package shuffle_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"loaderd/shuffle"
)

func TestRestoreState_RefusesInvalidStates(t *testing.T) {
	// window 3, seed 7, 20 atoms added, 5 draws, 2 buffered: with 0 and 4 after them
	good := []uint64{1, 3, 7, 20, 5, 2, 0, 100, 4, 101}
	read := func(b []byte) (uint64, []byte, error) {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return 0, nil, fmt.Errorf("short atom")
		}
		return v, b[n:], nil
	}
	for _, x := range []struct {
		field int
		value uint64
		want  string // "" for a valid state
	}{
		{0, 1, ""},
		{0, 2, "format version 2, this program reads 1"},
		{1, 4, "window of 4 atoms, the configuration 3"},
		{2, 8, "seed 8, the configuration 7"},
		{3, 1, "2 waiting atoms"},
		{3, 4, "waited for 4 later ones"},
		{5, 4, "4 waiting atoms"},
		{5, 3, "cut short"},
		{6, 4, "two buffered atoms have number 16"},
		{8, 8, ""},
		{8, 12, "waited for 12 later ones"},
	} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			fields := slices.Clone(good)
			fields[x.field] = x.value
			var b []byte
			for _, v := range fields {
				b = binary.AppendUvarint(b, v)
			}
			w := shuffle.New[uint64](shuffle.Config{Window: 3, Seed: 7})
			_, err := w.RestoreState(b, read)
			switch {
			case x.want == "" && err != nil, x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Fatalf("error is %v, want %q", err, x.want)
			case err != nil && w.Len() > 0:
				t.Fatalf("a refused state left %d atoms", w.Len())
			}
			for n := range b {
				if _, err := w.RestoreState(b[:n], read); err == nil {
					t.Errorf("%d of %d bytes are taken for a state", n, len(b))
				}
			}
		})
	}
}

// FuzzRestoreState restores windows from arbitrary bytes. A window that accepts its state must work.
func FuzzRestoreState(f *testing.F) {
	for _, n := range []int{0, 2, 5, 50} {
		r := newRun(5, 7)
		r.feed(n)
		f.Add(r.w.AppendState(nil, appendAtom))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		c := shuffle.Config{Window: 5, Seed: 7}
		w := shuffle.New[uint64](c)
		rest, err := w.RestoreState(state, readAtom)
		if err != nil {
			return
		}
		again := w.AppendState(nil, appendAtom)
		v := shuffle.New[uint64](c)
		if _, err := v.RestoreState(again, readAtom); err != nil {
			t.Fatalf("an accepted state is refused when written again: %v", err)
		}
		if !bytes.HasSuffix(state, rest) || !bytes.Equal(v.AppendState(nil, appendAtom), again) {
			t.Fatal("writing and reading change the state")
		}
		waiting := w.Len()
		out := 0
		for range 50 {
			w.Add(1, func(uint64) { out++ })
		}
		w.Flush(func(uint64) { out++ })
		if out != waiting+50 || w.Len() != 0 {
			t.Fatalf("%d atoms waited and 50 came, %d left", waiting, out)
		}
	})
}
