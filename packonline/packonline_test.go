package packonline_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/testscale"
	"loaderd/packonline"
)

// TestPacker_Invariants packs documents of random lengths under random bounds, with flushes in between, and checks
// every invariant after every document.
func TestPacker_Invariants(t *testing.T) {
	for _, method := range packonline.Methods() {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			for seed := range testscale.Of[uint64](150, 400) {
				r := rand.New(rand.NewPCG(seed, 1))
				c := randomConfig(r, method)
				l, err := newLedger(c)
				if err != nil {
					t.Fatal(err)
				}
				seq := r.Uint64N(3)
				for _, n := range randomLengths(r, r.IntN(400), int(l.longest())) {
					err = l.pack(seq, n)
					seq += 1 + r.Uint64N(3)
					if err == nil && r.IntN(150) == 0 {
						err = l.flush()
					}
					if err != nil {
						t.Fatalf("seed %d, %+v: %v", seed, c, err)
					}
				}
				if err := l.flush(); err != nil {
					t.Fatalf("seed %d, %+v: %v", seed, c, err)
				}
			}
		})
	}
}

// TestPacker_RestoredAtEveryDocument compares a Packer that is restored after every document with one that is not.
func TestPacker_RestoredAtEveryDocument(t *testing.T) {
	for _, method := range packonline.Methods() {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			for seed := range testscale.Of[uint64](15, 40) {
				r := rand.New(rand.NewPCG(seed, 2))
				c := randomConfig(r, method)
				lengths := randomLengths(r, r.IntN(300), int(slices.Max(rowLengths(c))))
				run := func(restarts bool) []string {
					l, err := newLedger(c)
					if err != nil {
						t.Fatal(err)
					}
					l.describe = true
					for i, n := range lengths {
						err := l.pack(uint64(3*i), n)
						if err == nil && restarts {
							err = l.restart()
						}
						if err != nil {
							t.Fatalf("seed %d, %+v: %v", seed, c, err)
						}
					}
					if err := l.flush(); err != nil {
						t.Fatalf("seed %d, %+v: %v", seed, c, err)
					}
					return l.emitted
				}
				want, have := run(false), run(true)
				if !slices.Equal(want, have) {
					t.Fatalf("seed %d, %+v: restored Packers emit\n%q\nwant\n%q", seed, c, have, want)
				}
			}
		})
	}
}

// FuzzPack checks arbitrary parameters, bounds, lengths, flushes and restarts.
func FuzzPack(f *testing.F) {
	f.Add(uint8(0), uint16(8), uint8(4), uint8(0), []byte{14, 0, 7, 0, 5, 0, 2, 0, 3, 0})
	f.Add(uint8(1), uint16(8), uint8(4), uint8(0), []byte{14, 0, 7, 0, 5, 0, 2, 0, 3, 0})
	f.Add(uint8(1), uint16(100), uint8(1), uint8(1), []byte{1, 0, 0, 0, 255, 255, 255, 255, 99, 0, 1, 0})
	f.Fuzz(func(t *testing.T, method uint8, seed uint16, pool, maxAge uint8, script []byte) {
		methods := packonline.Methods()
		c := randomConfig(rand.New(rand.NewPCG(uint64(seed), 7)), methods[int(method)%len(methods)])
		c.Pool, c.MaxAge = 1+int(pool), int(maxAge)
		l, err := newLedger(c)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(script) && err == nil; i += 2 {
			switch n := binary.LittleEndian.Uint16(script[i:]); n {
			case 0:
				err = l.flush()
			case 1<<16 - 1:
				err = l.restart()
			default:
				err = l.pack(uint64(i), int32(n))
			}
		}
		if err == nil {
			err = l.flush()
		}
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
	})
}

func TestAdd_PanicsOnInvalidDocuments(t *testing.T) {
	for _, method := range packonline.Methods() {
		for name, d := range map[string]packonline.Doc{
			"no tokens":       {Seq: 8, Length: 0},
			"negative length": {Seq: 8, Length: -1},
			"same sequence":   {Seq: 7, Length: 1},
			"lower sequence":  {Seq: 6, Length: 1},
		} {
			t.Run(method+"/"+name, func(t *testing.T) {
				p := newPacker(t, config(method, 8, 4, 0))
				var out packonline.Rows
				p.Add(packonline.Doc{Seq: 7, Length: 3}, &out)
				defer func() {
					if recover() == nil {
						t.Fatalf("%+v was taken", d)
					}
				}()
				p.Add(d, &out)
			})
		}
	}
}

// with returns a changed valid configuration of bfd.
func with(change func(*packonline.Config)) packonline.Config {
	c := config("bfd", 2048, 4096, 16384)
	change(&c)
	return c
}

func TestConfig_Validate(t *testing.T) {
	for name, c := range map[string]struct {
		packonline.Config
		want string // paths
	}{
		"good":                     {config("bfd", 2048, 4096, 16384), ""},
		"least":                    {config("bfd", 2, 1, 0), ""},
		"most":                     {config("bfd", 1<<24, 1<<30, 1<<30), ""},
		"concat takes longer rows": {config("concat", 1<<24+1, 1, 0), ""},
		"bfd does not":             {config("bfd", 1<<24+1, 1, 0), "buckets[0]"},
		"age below pool":           {config("bfd", 2048, 4096, 10), ""},
		"unknown method":           {config("ffb", 2048, 4096, 0), "method"},
		"no buckets":               {with(func(c *packonline.Config) { c.Buckets = nil }), "buckets"},
		"two buckets":              {with(func(c *packonline.Config) { c.Buckets = []int{4, 4} }), "buckets buckets[1]"},
		"unsorted buckets": {with(func(c *packonline.Config) {
			c.Method, c.Buckets = "", []int{8, 4, -1}
		}), "method buckets[1] buckets[2] buckets[2]"},
		"a quarter":            {with(func(c *packonline.Config) { c.Atom = 0.25 }), ""},
		"no atom":              {with(func(c *packonline.Config) { c.Atom = 0 }), "atom"},
		"a third":              {with(func(c *packonline.Config) { c.Atom = 1. / 3 }), "atom atom"},
		"atom does not divide": {with(func(c *packonline.Config) { c.Atom, c.Buckets[0] = 0.25, 2050 }), "atom"},
		"atom of a token":      {with(func(c *packonline.Config) { c.Atom, c.Buckets[0] = 0.25, 4 }), "atom"},
		"overlap of a row":     {with(func(c *packonline.Config) { c.Overlap = 1 }), "overlap"},
		"no overlap at all":    {with(func(c *packonline.Config) { c.Overlap = math.NaN() }), "overlap"},
		"negative overlap":     {with(func(c *packonline.Config) { c.Overlap = -0.1 }), "overlap"},
		"negative extra":       {with(func(c *packonline.Config) { c.Extra = -1 }), "extra"},
		"extra of a row":       {with(func(c *packonline.Config) { c.Method, c.Extra = "bfd-m", 2048 }), ""},
		"extra beyond a row":   {with(func(c *packonline.Config) { c.Method, c.Extra = "bfd-m", 2049 }), "extra"},
		"extra beyond an atom": {with(func(c *packonline.Config) {
			c.Method, c.Extra, c.Atom = "seamless", 1025, 0.5
		}), "extra"},
		"extra that is not read": {with(func(c *packonline.Config) { c.Extra = 2049 }), ""},
		"threshold of two rows":  {with(func(c *packonline.Config) { c.PaddingThreshold = 2 }), "padding_threshold"},
		"65 buckets": {with(func(c *packonline.Config) {
			c.Method, c.Buckets = "bucket", make([]int, 65)
		}), "buckets"},
		"threshold of nothing": {with(func(c *packonline.Config) {
			c.PaddingThreshold = math.NaN()
		}), "padding_threshold"},
		"everything": {config("", 1, 0, -1), "method buckets[0] pool max_age"},
		"too much":   {config("concat", 1<<30, 1<<30+1, 1<<30+1), "buckets[0] pool max_age"},
	} {
		t.Run(name, func(t *testing.T) {
			var have []string
			for _, e := range c.Validate() {
				have = append(have, e.Field)
			}
			if strings.Join(have, " ") != c.want {
				t.Fatalf("bad fields are %v, want %s", have, c.want)
			}
			_, err := packonline.New(c.Config)
			if (err != nil) != (c.want != "") {
				t.Fatalf("New says %v", err)
			}
			for _, e := range c.Validate() {
				if !strings.Contains(err.Error(), fmt.Sprintf("%s: %v: want ", e.Field, e.Value)) {
					t.Errorf("%q does not contain what is wrong with %s", err, e.Field)
				}
			}
		})
	}
}
