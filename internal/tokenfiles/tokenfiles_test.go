package tokenfiles_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/tokenfiles"
)

// documents is the common interface of Megatron and the streams.
type documents interface {
	Next(dst []byte, limit int64) ([]byte, error)
}

const plenty = 1 << 20

// read returns each document as its ids or as its error.
func read(t testing.TB, d documents, limit int64) (out []string, _ error) {
	t.Helper()
	for {
		raw, err := d.Next(nil, limit)
		var bad *tokenfiles.DocumentError
		switch {
		case err == io.EOF:
			return out, nil
		case errors.As(err, &bad):
			out = append(out, err.Error())
			continue
		case err != nil:
			return out, err
		}
		if len(raw)%4 != 0 || int64(len(raw)) > limit {
			t.Fatalf("a document of %d bytes, at most %d", len(raw), limit)
		}
		ids := make([]int32, len(raw)/4)
		for i := range ids {
			ids[i] = int32(binary.LittleEndian.Uint32(raw[4*i:]))
		}
		out = append(out, fmt.Sprint(ids))
	}
}

func raw(order binary.ByteOrder, ids ...any) (b []byte) {
	for _, id := range ids {
		var err error
		if b, err = binary.Append(b, order, id); err != nil {
			panic(err)
		}
	}
	return b
}

var little = binary.LittleEndian

func id(n uint32) *uint32 { return new(n) }

func npy(descr, shape string, data []byte) []byte {
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape)
	return slices.Concat([]byte(tokenfiles.NPYMagic+"\x01\x00"), raw(little, uint16(len(header))), []byte(header), data)
}

func llmc(magic, version, n uint32, data []byte) []byte {
	return slices.Concat(raw(little, magic, version, n), make([]byte, 256*4-12), data)
}

func TestStream_SplitsAtBoundaryToken(t *testing.T) {
	end, begin := tokenfiles.Boundaries{End: id(9)}, tokenfiles.Boundaries{Begin: id(9)}
	of := func(name string) tokenfiles.Type {
		typ, err := tokenfiles.TypeOf(name)
		if err != nil {
			t.Fatal(err)
		}
		return typ
	}
	short := raw(little, uint16(1), uint16(2), uint16(9), uint16(3), uint16(9), uint16(9), uint16(4))
	cases := []struct {
		name  string
		open  func() (*tokenfiles.Stream, error)
		limit int64
		want  []string
		err   string
	}{
		{name: "an id that ends", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewRawStream(bytes.NewReader(short), of("uint16"), end)
		},
			want: []string{"[1 2 9]", "[3 9]", "[9]", "[4]"}},
		{name: "an id that begins", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewRawStream(bytes.NewReader(short), of("uint16"), begin)
		},
			want: []string{"[1 2]", "[9 3]", "[9]", "[9 4]"}},
		{name: "neither", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewRawStream(bytes.NewReader(short), of("uint16"), tokenfiles.Boundaries{})
		}, err: "without document boundaries"},
		{name: "half an id", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewRawStream(bytes.NewReader(short[:7]), of("uint16"), end)
		}, want: []string{"[1 2 9]"}, err: "behind 3 ids, is cut off"},
		{name: "too large", limit: 8, open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewRawStream(bytes.NewReader(short), of("uint16"), end)
		}, want: []string{"document has 3 tokens, 12 bytes, more than 8", "[3 9]", "[9]", "[4]"}},
		{name: "negative", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewRawStream(bytes.NewReader(raw(little, int32(1), int32(-7), int32(9), int32(2))),
				of("int32"), end)
		}, want: []string{"token 1: its id does not fit 31 bits: is int32 the right type?", "[2]"}},
		{name: "all that fits", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewRawStream(bytes.NewReader(raw(little, int64(math.MaxInt32), int64(9), int64(math.MaxInt32+1))),
				of("int64"), end)
		}, want: []string{"[2147483647 9]", "token 0: its id does not fit 31 bits: is int64 the right type?"}},
		{name: "NumPy, big-endian", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy(">u4", "3,", raw(binary.BigEndian, uint32(7), uint32(9),
				uint32(1<<20)))),
				end)
		}, want: []string{"[7 9]", "[1048576]"}},
		{name: "NumPy, rows", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("|u1", "2, 3", []byte{1, 9, 2, 3, 4, 5})),
				tokenfiles.Boundaries{})
		}, want: []string{"[1 9 2]", "[3 4 5]"}},
		{name: "NumPy, rows that are cut", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("|u1", "2, 3", []byte{1, 9, 2, 3, 4, 5})), end)
		}, want: []string{"[1 9]", "[2]", "[3 4 5]"}},
		{name: "NumPy without values", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("<i8", "0, 3", nil)), end)
		}},
		{name: "NumPy, cut off", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("<u2", "3,", []byte{1, 0, 9, 0})), end)
		}, want: []string{"[1 9]"}, err: "cut off"},
		{name: "NumPy, two arrays", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("|u1", "1,", []byte{9, 0})), end)
		}, want: []string{"[9]"}, err: "more than the 1 ids"},
		{name: "NumPy, floats", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("<f4", "3,", nil)), end)
		},
			err: "its values are <f4, want integers"},
		{name: "NumPy, objects", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("|O", "3,", nil)), end)
		}, err: "no plain type"},
		{name: "NumPy, three dimensions", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("<u2", "1,2,3", nil)), end)
		}, err: "3 dimensions"},
		{name: "NumPy, a huge shape", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(bytes.NewReader(npy("<u2", "4611686018427387904, 4611686018427387904", nil)), end)
		}, err: "out of range"},
		{name: "NumPy, a huge header", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewNPYStream(strings.NewReader(tokenfiles.NPYMagic+"\x02\x00\xff\xff\xff\xff"), end)
		}, err: "its NumPy header has"},
		{name: "llm.c", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewLLMCStream(bytes.NewReader(llmc(20240520, 1, 7, short)), begin)
		}, want: []string{"[1 2]", "[9 3]", "[9]", "[9 4]"}},
		{name: "llm.c, cut off", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewLLMCStream(bytes.NewReader(llmc(20240801, 7, 3, raw(little, uint32(100_000), uint32(9)))), end)
		}, want: []string{"[100000 9]"}, err: "cut off"},
		{name: "llm.c of another version", open: func() (*tokenfiles.Stream, error) {
			return tokenfiles.NewLLMCStream(bytes.NewReader(llmc(20240520, 2, 7, short)), begin)
		}, err: "version 2"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if c.limit == 0 {
				c.limit = plenty
			}
			s, err := c.open()
			var got []string
			if err == nil {
				got, err = read(t, s, c.limit)
			}
			if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil &&
				!strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q and %v, want %q and %q", got, err, c.want, c.err)
			}
		})
	}
}

// index returns a Megatron index of contiguous sequences.
func index(code byte, size int64, lengths []int32, ends ...int64) []byte {
	b := slices.Concat([]byte(tokenfiles.MegatronMagic), raw(little, uint64(1), code, uint64(len(lengths)),
		uint64(len(ends))), raw(little, lengths))
	var place int64
	for _, n := range lengths {
		b = append(b, raw(little, place)...)
		place += int64(n) * size
	}
	return append(b, raw(little, ends)...)
}

func open(idx, bin []byte) (*tokenfiles.Megatron, error) {
	return tokenfiles.OpenMegatron(bytes.NewReader(idx), int64(len(idx)), bytes.NewReader(bin), int64(len(bin)))
}

// legacyIndex returns an index in the legacy format, of contiguous sequences.
func legacyIndex(code, size uint64, lengths []int64, ends ...int64) []byte {
	return slices.Concat(legacyHead(code, size, lengths), raw(little, uint64(len(ends))), legacySections(lengths),
		raw(little, anyOf(ends)...))
}

// fairseqIndex returns an index without documents.
func fairseqIndex(code, size uint64, lengths []int64) []byte {
	return slices.Concat(legacyHead(code, size, lengths), legacySections(lengths))
}

func legacyHead(code, size uint64, lengths []int64) []byte {
	return slices.Concat([]byte("TNTIDX\x00\x00"), raw(little, uint64(1), code, size, uint64(len(lengths)),
		uint64(len(lengths))))
}

func legacySections(lengths []int64) []byte {
	shapes, places, at := []int64{0}, []int64{0}, int64(0)
	for i, n := range lengths {
		at += n
		shapes, places = append(shapes, int64(i+1)), append(places, at)
	}
	return slices.Concat(raw(little, anyOf(shapes)...), raw(little, anyOf(places)...), raw(little, anyOf(lengths)...))
}

func anyOf(numbers []int64) (out []any) {
	for _, n := range numbers {
		out = append(out, n)
	}
	return out
}

func cutBy(n int, data []byte) []byte { return data[:len(data)-n] }

func TestMegatron_ReadsAndRefuses(t *testing.T) {
	bin := raw(little, uint16(1), uint16(2), uint16(3), uint16(4), uint16(5), uint16(6))
	good := index(8, 2, []int32{2, 1, 3}, 0, 2, 2, 3)
	change := func(at int, b ...byte) []byte {
		c := slices.Clone(good)
		copy(c[at:], b)
		return c
	}
	for _, c := range []struct {
		name     string
		idx, bin []byte
		limit    int64
		want     []string
		err      string
	}{
		{name: "documents of several sequences, one and none", idx: good, bin: bin,
			want: []string{"[1 2 3]", "[]", "[4 5 6]"}},
		{name: "no documents", idx: index(8, 2, nil, 0), bin: nil},
		{name: "bytes", idx: index(1, 1, []int32{3}, 0, 1), bin: []byte{1, 2, 255}, want: []string{"[1 2 255]"}},
		{name: "too large", idx: index(8, 2, []int32{2, 2, 1}, 0, 2, 3), bin: bin, limit: 12,
			want: []string{"document has 4 tokens, 16 bytes, more than 12", "[5]"}},
		{name: "negative ids", idx: index(4, 4, []int32{2, 1}, 0, 1, 2), bin: raw(little, int32(1), int32(-5), int32(7)),
			want: []string{"token 1: id -5 does not fit 31 bits", "[7]"}},
		{name: "out of order", idx: slices.Concat(index(8, 2, []int32{2, 1}, 0, 1, 2)[:42],
			raw(little, int64(2), int64(0), int64(0), int64(1), int64(2))), bin: bin,
			want: []string{"[2 3]", "[1]"}},
		{name: "ids cut off", idx: good, bin: bin[:11], want: []string{"[1 2 3]", "[]"},
			err: "sequence 2 is 3 ids from byte 6 on, and the file of ids has 11 bytes"},
		{name: "index cut off", idx: good[:len(good)-1], bin: bin, err: "the index is cut off"},
		{name: "header cut off", idx: good[:20], bin: bin, err: "the index is cut off"},
		{name: "more than an index", idx: append(slices.Clone(good), 0), bin: bin, err: "the index is damaged"},
		{name: "several modes", idx: append(slices.Clone(good), 0, 0, 1), bin: bin, err: "modes of sequences"},
		{name: "big-endian", idx: change(9, 0, 0, 0, 0, 0, 0, 0, 1), bin: bin, err: "big-endian"},
		{name: "another version", idx: change(9, 2), bin: bin, err: "version 2"},
		{name: "floats", idx: change(17, 7), bin: bin, err: "values of type 7"},
		{name: "huge counts", idx: change(18, 255, 255, 255, 255, 255, 255, 255, 255), bin: bin, err: "damaged"},
		{name: "large counts", idx: change(18, 255, 255, 255, 255, 255, 255), bin: bin, err: "cut off"},
		{name: "no beginning", idx: change(26, 0), bin: bin, err: "no beginning of documents"},
		{name: "sequences left over", idx: index(8, 2, []int32{2, 1}, 0, 1), bin: bin,
			err: "documents are sequences 0 to 1 of 2"},
		{name: "ends that go back", idx: index(8, 2, []int32{2, 1}, 0, 2, 1, 2), bin: bin, want: []string{"[1 2 3]"},
			err: "a document is sequences 2 to 1 of 2"},
		{name: "a negative length", idx: index(8, 2, []int32{-2, 1}, 0, 2), bin: bin, err: "sequence 0 is -2 ids"},
		{name: "legacy", idx: legacyIndex(8, 2, []int64{2, 1, 3}, 0, 2, 2, 3), bin: bin,
			want: []string{"[1 2 3]", "[]", "[4 5 6]"}},
		{name: "legacy, no documents", idx: legacyIndex(4, 4, nil, 0)},
		{name: "legacy header cut off", idx: []byte("TNTIDX\x00\x00"), bin: bin, err: "the index is cut off"},
		{name: "legacy cut off", idx: cutBy(8, legacyIndex(8, 2, []int64{2, 1, 3}, 0, 2, 2, 3)), bin: bin,
			err: "damaged or cut off"},
		{name: "of fairseq", idx: fairseqIndex(8, 2, []int64{2, 1, 3}), bin: bin,
			err: "in fairseq's format, which does not store where documents end"},
		{name: "legacy, ids cut off", idx: legacyIndex(8, 2, []int64{2, 1, 3}, 0, 3), bin: bin[:11],
			err: "sequence 2 is 3 ids from byte 6 on"},
		{name: "legacy, another size", idx: legacyIndex(4, 3, nil, 0), err: "int32 of 3 bytes each"},
		{name: "legacy, floats", idx: legacyIndex(6, 4, nil, 0), err: "values of type 6"},
		{name: "legacy, a negative length", idx: legacyIndex(8, 2, []int64{-2, 1}, 0, 2), bin: bin,
			err: "sequence 0 is -2 ids"},
		{name: "legacy, a huge length", idx: legacyIndex(8, 2, []int64{1 << 62}, 0, 1), bin: bin,
			err: "it is cut off, or the index is damaged"},
		{name: "no index", idx: []byte("something else"), bin: bin, err: "does not begin"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.limit == 0 {
				c.limit = plenty
			}
			m, err := open(c.idx, c.bin)
			var got []string
			if err == nil {
				got, err = read(t, m, c.limit)
			}
			if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil &&
				!strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q and %v, want %q and %q", got, err, c.want, c.err)
			}
		})
	}
}

// Long documents are read correctly, also if buffers end within them.
func TestMegatron_LongDocuments(t *testing.T) {
	var ids []byte
	var lengths []int32
	ends := []int64{0}
	for n := range 60 {
		lengths = append(lengths, int32(n*n*n))
		ends = append(ends, int64(n+1))
		for i := range n * n * n {
			ids = append(ids, raw(little, int32(i%1000))...)
		}
		ids = ids[:len(ids):len(ids)]
	}
	m, err := open(index(4, 4, lengths, ends...), ids)
	if err != nil {
		t.Fatal(err)
	}
	for n := range 60 {
		got, err := m.Next(nil, plenty)
		if err != nil || len(got) != 4*n*n*n {
			t.Fatalf("document %d: %d bytes, %v", n, len(got), err)
		}
		for i := range len(got) / 4 {
			if id := little.Uint32(got[4*i:]); id != uint32(i%1000) {
				t.Fatalf("document %d: token %d is %d", n, i, id)
			}
		}
	}
	if m.Offset() != int64(len(ids)) {
		t.Errorf("read %d of %d bytes", m.Offset(), len(ids))
	}
}

// Documents longer than a read buffer are split at the right ids.
func TestStream_LongDocuments(t *testing.T) {
	var data []byte
	var want []int
	for n := range 40 {
		for i := range n * n * 97 {
			data = append(data, raw(little, uint16(10+i%1000))...)
		}
		data = append(data, raw(little, uint16(9))...)
		want = append(want, n*n*97+1)
	}
	typ, err := tokenfiles.TypeOf("uint16")
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []int64{plenty, 4 * 50_000} {
		s, err := tokenfiles.NewRawStream(bytes.NewReader(data), typ, tokenfiles.Boundaries{End: id(9)})
		if err != nil {
			t.Fatal(err)
		}
		for n, tokens := range want {
			got, err := s.Next(nil, limit)
			if int64(4*tokens) > limit {
				if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("document has %d tokens", tokens)) {
					t.Errorf("document %d: %v", n, err)
				}
				continue
			}
			if err != nil || len(got) != 4*tokens || little.Uint32(got[len(got)-4:]) != 9 {
				t.Fatalf("document %d: %d bytes, want %d; %v", n, len(got), 4*tokens, err)
			}
			for i := range tokens - 1 {
				if little.Uint32(got[4*i:]) != uint32(10+i%1000) {
					t.Fatalf("document %d: token %d is %d", n, i, little.Uint32(got[4*i:]))
				}
			}
		}
	}
}

func FuzzMegatron(f *testing.F) {
	bin := raw(little, uint16(1), uint16(2), uint16(3), uint16(4), uint16(5), uint16(6))
	f.Add(index(8, 2, []int32{2, 1, 3}, 0, 2, 2, 3), bin)
	f.Add(index(5, 8, []int32{1}, 0, 1), bin)
	f.Add(legacyIndex(8, 2, []int64{2, 1, 3}, 0, 2, 2, 3), bin)
	f.Add(fairseqIndex(8, 2, []int64{2, 1, 3}), bin)
	f.Add(index(4, 4, []int32{-1, math.MaxInt32}, 0, 1, 2), bin)
	f.Fuzz(func(t *testing.T, idx, bin []byte) {
		if m, err := open(idx, bin); err == nil {
			_, _ = read(t, m, 1<<10) // must end without a panic
		}
		if m, err := open(idx, bin); err == nil && m.Skip(1) == nil {
			_, _ = read(t, m, 1<<10)
		}
	})
}

// After Skip, a pair yields the remaining documents. Another number of documents than it has is an error.
func TestMegatron_SkipsDocuments(t *testing.T) {
	bin := raw(little, uint16(1), uint16(2), uint16(3), uint16(4), uint16(5), uint16(6))
	for name, idx := range map[string][]byte{
		"present": index(8, 2, []int32{2, 1, 3}, 0, 2, 2, 3), "legacy": legacyIndex(8, 2, []int64{2, 1, 3}, 0, 2, 2, 3),
	} {
		m, err := open(idx, bin)
		if err != nil {
			t.Fatal(name, err)
		}
		all, err := read(t, m, 1<<10)
		if err != nil || len(all) != 3 {
			t.Fatalf("%s: %q, %v", name, all, err)
		}
		for n := range len(all) + 1 {
			if m, err = open(idx, bin); err == nil {
				err = m.Skip(int64(n))
			}
			if err != nil {
				t.Fatal(name, err)
			}
			if rest, err := read(t, m, 1<<10); err != nil || !slices.Equal(rest, all[n:]) {
				t.Errorf("%s: after %d documents: %q, want %q, %v", name, n, rest, all[n:], err)
			}
		}
		if m, err = open(idx, bin); err == nil {
			err = m.Skip(4)
		}
		if err == nil || !strings.Contains(err.Error(), "3 documents, and 4 were read before") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func FuzzStreams(f *testing.F) {
	f.Add(npy("<u2", "2, 3", make([]byte, 12)), "uint16", uint32(9), true)
	f.Add(npy(">i8", "1,", make([]byte, 8)), "int64", uint32(0), false)
	f.Add(llmc(20240520, 1, 3, make([]byte, 6)), "uint8", uint32(9), true)
	f.Fuzz(func(t *testing.T, data []byte, name string, at uint32, ends bool) {
		cut := tokenfiles.Boundaries{Begin: &at}
		if ends {
			cut = tokenfiles.Boundaries{End: &at}
		}
		if s, err := tokenfiles.NewNPYStream(bytes.NewReader(data), cut); err == nil {
			_, _ = read(t, s, 1<<10)
		}
		if s, err := tokenfiles.NewLLMCStream(bytes.NewReader(data), cut); err == nil {
			_, _ = read(t, s, 1<<10)
		}
		if typ, err := tokenfiles.TypeOf(name); err == nil {
			s, err := tokenfiles.NewRawStream(bytes.NewReader(data), typ, cut)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = read(t, s, 1<<10)
		}
	})
}
