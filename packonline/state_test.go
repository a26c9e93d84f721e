package packonline_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"loaderd/packonline"
)

// busy returns a Packer with buffered pieces.
func busy(t testing.TB, c packonline.Config) packonline.Packer {
	p := newPacker(t, c)
	var out packonline.Rows
	for i, n := range []int32{3, 20, 5, 1} {
		p.Add(packonline.Doc{Seq: uint64(10 + 2*i), Length: n}, &out)
	}
	return p
}

func TestRestoreState_RefusesOtherConfigurations(t *testing.T) {
	c := config("bfd", 8, 4, 9)
	state := busy(t, c).AppendState(nil)
	for name, x := range map[string]struct {
		change func(*packonline.Config)
		want   string
	}{
		"method": {func(c *packonline.Config) {
			c.Method = "concat"
		}, `state has method "bfd", the configuration "concat"`},
		"row length": {func(c *packonline.Config) { c.Buckets = []int{16} }, "state has row length 8, the configuration 16"},
		"pool":       {func(c *packonline.Config) { c.Pool = 5 }, "state has pool 4, the configuration 5"},
		"holdback":   {func(c *packonline.Config) { c.Holdback = 100 }, "state has holdback 0, the configuration 100"},
		"max age":    {func(c *packonline.Config) { c.MaxAge = 0 }, "state has max_age 9, the configuration 0"},
		"seed":       {func(c *packonline.Config) { c.Seed = 1 }, "state has seed 0, the configuration 1"},
	} {
		t.Run(name, func(t *testing.T) {
			other := c
			x.change(&other)
			_, err := newPacker(t, other).RestoreState(state)
			if err == nil || !strings.Contains(err.Error(), x.want) {
				t.Fatalf("error is %v, want %q", err, x.want)
			}
		})
	}
	state[0] = 77
	if _, err := newPacker(t, c).RestoreState(state); err == nil ||
		!strings.Contains(err.Error(), "format version 77, this program reads 1") {
		t.Fatalf("error is %v", err)
	}
}

// TestRestoreState_RefusesImpossibleStates writes states field by field, with one impossible value.
func TestRestoreState_RefusesImpossibleStates(t *testing.T) {
	type fields map[string]int64
	names := []string{"documents", "rows", "slots", "padding", "repeated", "dropped", "truncated", "next", "pieces",
		"doc", "arrived", "length", "doc 2", "arrived 2", "length 2", "start 2"}
	signed := map[string]bool{"doc": true, "arrived": true, "doc 2": true, "arrived 2": true}
	write := func(c packonline.Config, f fields) []byte {
		values := fields{"documents": 5, "rows": 2, "slots": 16, "padding": 1, "truncated": 1, "next": 50, "pieces": 2,
			"doc": 20, "arrived": 2, "length": 3 << 1, "doc 2": 5, "arrived 2": 2, "length 2": 2<<1 | 1, "start 2": 16}
		if c.Method == "concat" {
			values["length 2"], values["start 2"] = 2<<1|1, 0
		}
		maps.Copy(values, f)
		b := append([]byte{1, byte(len(c.Method))}, c.Method...)
		b = append(b, 1, 8, 4, byte(c.Pool), 0, 9, 0, 0, 0, 0) // row length, atom, pool, hold, max age, then zeros
		if c.MaxDocumentsPerRow > 0 {
			b = append(b, byte(c.MaxDocumentsPerRow))
		}
		for _, name := range names {
			if signed[name] {
				b = binary.AppendVarint(b, values[name])
			} else {
				b = binary.AppendUvarint(b, uint64(values[name]))
			}
		}
		return b
	}
	bfd, concat, small := config("bfd", 8, 4, 9), config("concat", 8, 4, 9), config("bfd", 8, 1, 9)
	bounded := concat
	bounded.MaxDocumentsPerRow = 2
	for _, x := range []struct {
		c      packonline.Config
		fields fields
		want   string // "" for a valid state
	}{
		{bfd, nil, ""},
		{concat, nil, ""},
		{bounded, nil, "2 documents wait for a row that has at most 2"},
		{bfd, fields{"documents": math.MinInt64}, "documents"},
		{bfd, fields{"rows": 1 << 62}, "rows"},
		{bfd, fields{"slots": 17}, "slots"},
		{bfd, fields{"slots": 15}, "2 rows of 8 tokens or more can not have 15 slots"},
		{bfd, fields{"padding": 17}, "padding"},
		{bfd, fields{"repeated": 16}, "repeated"},
		{bfd, fields{"dropped": math.MaxInt64}, "dropped"},
		{bfd, fields{"truncated": 6}, "truncated"},
		{bfd, fields{"rows": 0, "slots": 0, "padding": 0, "documents": 6}, "6 documents can not have 5 tokens"},
		{bfd, fields{"next": 25}, "a piece is of document 25"},
		{bfd, fields{"next": 26}, "a piece is of document 25"},
		{bfd, fields{"pieces": 1 << 40}, "cut short"},
		{bfd, fields{"pieces": 3}, "cut short"},
		{bfd, fields{"doc": 0}, "a piece is of document 0, too early for number 2"},
		{bfd, fields{"arrived": 0}, "document number 0"},
		{bfd, fields{"arrived": math.MinInt64}, "document number -9223372036854775808"},
		{bfd, fields{"arrived": 4}, "document number 6"},
		{bfd, fields{"documents": 12}, "is 10 documents old"},
		{bfd, fields{"length": 0}, "empty"},
		{bfd, fields{"length": 9 << 1}, "tokens in a piece"},
		{bfd, fields{"length": 8 << 1}, "are no remainder of rows of 8"},
		{bfd, fields{"doc 2": 1}, "a piece of document 21, number 4, waits behind document 20, number 2"},
		{bfd, fields{"doc 2": -1}, "a piece of document 19, number 4, waits behind document 20, number 2"},
		{bfd, fields{"arrived 2": 0}, "waits behind document 20, number 2"},
		{bfd, fields{"start 2": 9}, "no remainder of rows of 8"},
		{bfd, fields{"start 2": 1 << 31}, "tokens before a piece"},
		{concat, fields{"length": 6 << 1}, "8 tokens or more wait for a row of 8"},
		{concat, fields{"start 2": 4}, "in the middle of a row"},
		{small, nil, "2 pieces wait in a pool of 1"},
	} {
		t.Run(fmt.Sprint(x.c.Method, x.c.Pool, x.fields), func(t *testing.T) {
			p := newPacker(t, x.c)
			_, err := p.RestoreState(write(x.c, x.fields))
			switch {
			case x.want == "" && err != nil, x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
				t.Fatalf("error is %v, want %q", err, x.want)
			case err != nil && p.Pending() != packonline.Pending{}:
				t.Fatalf("a refused state left %+v", p.Pending())
			}
		})
	}
}

func TestRestoreState_RefusesTruncatedStates(t *testing.T) {
	for _, method := range packonline.Methods() {
		state := busy(t, config(method, 8, 4, 9)).AppendState(nil)
		for n := range state {
			p := newPacker(t, config(method, 8, 4, 9))
			if _, err := p.RestoreState(state[:n]); err == nil {
				t.Errorf("%s: %d of %d bytes are taken for a state", method, n, len(state))
			}
		}
	}
}

// FuzzRestoreState restores a Packer from arbitrary bytes. A Packer that accepts its state must work.
func FuzzRestoreState(f *testing.F) {
	for _, method := range packonline.Methods() {
		f.Add(busy(f, config(method, 8, 4, 9)).AppendState(nil))
		f.Add(newPacker(f, config(method, 8, 4, 9)).AppendState(nil))
		f.Add(busy(f, held(config(method, 8, 4, 9), 100)).AppendState(nil))
	}
	f.Fuzz(func(t *testing.T, state []byte) {
		for _, method := range packonline.Methods() {
			for _, c := range []packonline.Config{config(method, 8, 4, 9), held(config(method, 8, 4, 9), 100)} {
				p := newPacker(t, c)
				rest, err := p.RestoreState(state)
				if err != nil {
					continue
				}
				again := p.AppendState(nil)
				q := newPacker(t, c)
				if _, err := q.RestoreState(again); err != nil {
					t.Fatalf("an accepted state is refused when written again: %v", err)
				}
				if !bytes.HasSuffix(state, rest) || !bytes.Equal(q.AppendState(nil), again) {
					t.Fatal("writing and reading change the state")
				}
				follow(t, p, c)
			}
		}
	})
}

// follow continues with a restored Packer and checks everything that can be checked without its history.
func follow(t *testing.T, p packonline.Packer, c packonline.Config) {
	giveHints(p, hintOf)
	before, waiting := p.Counts(), p.Pending().Tokens
	var out packonline.Rows
	var tokens int64
	seq := uint64(1 << 63) // after all sequences in a state that was not made to overflow
	defer func() {
		if r := recover(); r != nil && !strings.Contains(fmt.Sprint(r), "follows document") {
			panic(r)
		}
	}()
	for n := int32(1); n < 20; n++ {
		p.Add(packonline.Doc{Seq: seq, Length: n}, &out)
		seq++
		tokens += int64(n)
	}
	p.Flush(&out)
	var used, rows int64
	for i := range out.Len() {
		length, pieces, ages := out.Row(i)
		var row int64
		for k, x := range pieces {
			row += int64(x.Length)
			if int(ages[k]) > c.MaxAge {
				t.Fatalf("a piece is %d documents old", ages[k])
			}
		}
		if row > int64(length) {
			t.Fatalf("a row holds %d tokens", row)
		}
		used += row
		rows++
	}
	after := p.Counts()
	used += after.Dropped - before.Dropped - after.Repeated + before.Repeated
	if used != waiting+tokens || after.Rows-before.Rows != rows || p.Pending().Tokens != 0 {
		t.Fatalf("%d tokens waited and %d arrived, %d are out", waiting, tokens, used)
	}
}
