package mds_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"loaderd/internal/mds"
)

var little = binary.LittleEndian

func size(n int64) *int64 { return new(n) }

// columns describes a shard of three columns: a number, a text and bytes.
var columns = mds.Shard{Version: 2, Format: "mds", Names: []string{"n", "text", "x"},
	Encodings: []string{"int", "str", "bytes"}, Sizes: []*int64{size(8), nil, nil}}

// shard returns a shard with samples of columns.
func shard(texts ...string) []byte { return shardOf("{}", texts...) }

// shardOf is shard with a configuration in the header.
func shardOf(config string, texts ...string) []byte {
	var samples [][]byte
	for i, text := range texts {
		s := little.AppendUint32(nil, uint32(len(text)))
		s = little.AppendUint32(s, 2)
		s = little.AppendUint64(s, uint64(i))
		samples = append(samples, append(append(s, text...), "ab"...))
	}
	place := uint32(4*(len(samples)+2) + len(config))
	b := little.AppendUint32(nil, uint32(len(samples)))
	b = little.AppendUint32(b, place)
	for _, s := range samples {
		place += uint32(len(s))
		b = little.AppendUint32(b, place)
	}
	return slices.Concat(b, []byte(config), bytes.Join(samples, nil))
}

// read returns the numbers and texts of a shard's samples.
func read(data []byte, samples, limit int64) (out []string, _ error) {
	s := columns
	s.Samples = samples
	r, err := mds.NewReader(bytes.NewReader(data), s, []bool{true, true, false}, limit)
	if err != nil {
		return nil, err
	}
	for {
		v, err := r.Next()
		if err == io.EOF {
			return out, nil
		}
		if err != nil {
			return out, err
		}
		if v[2].Data != nil || v[2].Size != 2 {
			return out, fmt.Errorf("a value that was not asked for: %v", v[2])
		}
		out = append(out, fmt.Sprintf("%d %s %d", little.Uint64(v[0].Data), v[1].Data, v[1].Size))
	}
}

func TestShard_ReadsAndRefuses(t *testing.T) {
	long := strings.Repeat("x", 100)
	good := shard("one", "", long)
	change := func(at int, b byte) []byte {
		c := slices.Clone(good)
		c[at] = b
		return c
	}
	for _, c := range []struct {
		name    string
		data    []byte
		samples int64
		want    []string
		err     string
	}{
		{name: "good", data: good, samples: 3, want: []string{"0 one 3", "1  0", "2  100"}},
		{name: "empty", data: shard()},
		{name: "of another index", data: good, samples: 2, err: "it has 3 samples, its index states 2"},
		{name: "cut off in the header", data: good[:9], samples: 3, err: "cut off"},
		{name: "cut off in a sample", data: good[:len(good)-1], samples: 3, want: []string{"0 one 3", "1  0"},
			err: "cut off"},
		{name: "more", data: append(slices.Clone(good), 0), samples: 3, want: []string{"0 one 3", "1  0", "2  100"},
			err: "after its last sample"},
		{name: "places that go back", data: change(8, 1), samples: 3, err: "sample 0 ends before it begins"},
		{name: "a first place in the header", data: change(4, 3), samples: 3, err: "begins within its header"},
		{name: "another size of a value", data: change(22, 4), samples: 3, err: "its values do not take the bytes"},
		{name: "a huge size of a value", data: change(25, 255), samples: 3, err: "its values do not take the bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(c.data, c.samples, 50)
			if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil &&
				!strings.Contains(err.Error(), c.err) {
				t.Errorf("got %q and %v, want %q and %q", got, err, c.want, c.err)
			}
		})
	}
}

const index = `{"version": 2, "shards": [{"column_encodings": ["str"], "column_names": ["text"], "column_sizes": [null], "compression": "zstd:7", "format": "mds",
	"hashes": [], "raw_data": {"basename": "shard.00000.mds", "bytes": 10, "hashes": {}}, "samples": 3, "size_limit": 67108864, "version": 2,
	"zip_data": {"basename": "shard.00000.mds.zstd", "bytes": 7, "hashes": {}}}]}`

func TestIndex_ReadsAndRefuses(t *testing.T) {
	if !mds.LooksLikeIndex([]byte(index)) || mds.LooksLikeIndex([]byte(`{"shards": []}`)) ||
		mds.LooksLikeIndex([]byte(`["shards", "column_encodings"]`)) {
		t.Error("what an index looks like")
	}
	i, err := mds.ReadIndex(strings.NewReader(index))
	if err != nil || len(i.Shards) != 1 || i.Shards[0].Codec() != "zstd" || i.Shards[0].Column("text") != 0 ||
		i.Shards[0].Column("id") != -1 {
		t.Errorf("%+v, %v", i, err)
	}
	for change, want := range map[string]string{
		`"basename": "shard.00000.mds"`: `"basename": "../shard"`,
		`"samples": 3`:                  `"samples": 99999999999`,
		`"format": "mds"`:               `"format": "json"`,
		`"column_sizes": [null]`:        `"column_sizes": [null, 4]`,
		`[null]`:                        `[-4]`,
		`{"version": 2`:                 `{"version": 3`,
		`"version": 2,
	"zip_data"`: `"version": 1, "zip_data"`,
		`"bytes": 7`: `"bytes": -7`,
		`[{"column`:  `[{{"column`,
	} {
		changed := strings.Replace(index, change, want, 1)
		if _, err := mds.ReadIndex(strings.NewReader(changed)); err == nil || changed == index {
			t.Errorf("takes an index with %s", want)
		}
	}
}

func TestJSON_DecodesEveryEncoding(t *testing.T) {
	half := []byte{0x00, 0x3e} // 1.5
	for _, c := range []struct {
		encoding string
		data     []byte
		want     string
	}{
		{"str", []byte(`a "b"`), `"a \"b\""`}, {"bytes", []byte("x"), `"x"`}, {"bytes", []byte{255}, ""},
		{"int", []byte{254, 255, 255, 255, 255, 255, 255, 255}, "-2"},
		{"uint8", []byte{255}, "255"}, {"int8", []byte{255}, "-1"}, {"uint16", []byte{255, 255}, "65535"},
		{"int16", []byte{255, 255}, "-1"},
		{"uint32", []byte{0, 0, 0, 255}, "4278190080"}, {"int32", []byte{0, 0, 0, 255}, "-16777216"},
		{"float16", half, "1.5"}, {"float32", []byte{0, 0, 192, 63}, "1.5"},
		{"float64", []byte{0, 0, 0, 0, 0, 0, 248, 63}, "1.5"}, {"float32", []byte{0, 0, 192, 127}, ""},
		{"str_int", []byte("123456789012345678901234"), "123456789012345678901234"},
		{"str_float", []byte("1.25"), "1.25"}, {"json", []byte(`{"a": [1]}`), `{"a": [1]}`}, {"json", []byte(`{`), ""},
		{"int32", []byte{1}, ""}, {"pkl", []byte("x"), ""},
		{"ndarray:int16:2", []byte{1, 0, 2, 0}, "[1,2]"}, {"ndarray:uint8", []byte{4, 3, 1, 2, 3}, "[1,2,3]"},
		{"ndarray", []byte{33, 8, 1, 1, 7, 0, 0, 0}, "[7]"},
		{"ndarray", []byte{18, 5, 1, 0, 0, 62}, "[1.5]"}, {"ndarray", []byte{33}, ""}, {"ndarray", nil, ""},
		{"ndarray", []byte{1, 4, 1, 1}, ""},
		{"ndarray:int32", []byte{5, 1}, ""}, {"ndarray:int32", []byte{4, 2, 1, 0, 0, 0}, ""},
		{"ndarray:uint8", []byte{7, 255, 255, 255, 255, 255, 255, 255, 255}, ""},
		{"ndarray:int16:2", []byte{1}, ""}, {"ndarray:complex", []byte{4, 1, 1}, ""},
	} {
		got, err := mds.JSON(c.encoding, c.data)
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s of %v: %s, %v, want %q", c.encoding, c.data, got, err, c.want)
		}
	}
}

// checkSkip checks that a shard that is read from a sample on gives the samples that reading from the beginning gives.
func checkSkip(t *testing.T, data []byte, skip int64) {
	whole, err := mds.OpenShard(bytes.NewReader(data))
	if err != nil {
		return
	}
	rest, err := mds.OpenShard(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range []*mds.Reader{whole, rest} {
		m.Want(slices.Repeat([]bool{true}, len(m.Shard().Names)), 1<<10)
	}
	at := func(offset int64) io.Reader {
		return io.NewSectionReader(bytes.NewReader(data), offset, max(int64(len(data))-offset, 0))
	}
	if err := rest.Skip(skip, at); err != nil {
		if skip >= 0 && skip <= whole.Shard().Samples {
			t.Fatalf("skip %d of %d samples: %v", skip, whole.Shard().Samples, err)
		}
		return
	}
	for range skip {
		if _, err := whole.Next(); err != nil {
			return // an error before the sample
		}
	}
	for {
		want, wantErr := whole.Next()
		got, err := rest.Next()
		if fmt.Sprint(got, err) != fmt.Sprint(want, wantErr) {
			t.Fatalf("after %d samples: %v, %v, want %v, %v", skip, got, err, want, wantErr)
		}
		if err != nil {
			return
		}
	}
}

func FuzzShard(f *testing.F) {
	f.Add(shard("one", "", "three"), int64(3))
	f.Add(shard(), int64(0))
	described := `{"column_encodings":["str"],"column_names":["text"],"column_sizes":[null],"format":"mds","version":2}`
	config := `{"column_encodings":["int","str","bytes"],"column_names":["n","text","x"],` +
		`"column_sizes":[8,null,null],"format":"mds","version":2}`
	f.Add(shardOf(config, "one", "", "three", "four"), int64(2))
	f.Add(slices.Concat(little.AppendUint32(nil, 0), little.AppendUint32(nil, uint32(8+len(described))),
		[]byte(described)), int64(0))
	f.Fuzz(func(t *testing.T, data []byte, samples int64) {
		_ = mds.LooksLikeShard(data)
		if m, err := mds.OpenShard(bytes.NewReader(data)); err == nil {
			m.Want(make([]bool, len(m.Shard().Names)), 1<<10)
			for err == nil {
				_, err = m.Next() // must end without a panic
			}
		}
		checkSkip(t, data, samples)
		if samples < 0 || samples > 1<<20 {
			return // refused with the index
		}
		_, _ = read(data, samples, 1<<10) // must end without a panic
	})
}

func FuzzIndex(f *testing.F) {
	f.Add([]byte(index))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = mds.ReadIndex(bytes.NewReader(data)) })
}

func FuzzValue(f *testing.F) {
	f.Add("ndarray", []byte{33, 8, 1, 1, 7, 0, 0, 0})
	f.Add("ndarray:float16:1,2", []byte{0, 1, 2, 3})
	f.Add("json", []byte(`{"a": [1]}`))
	f.Fuzz(func(t *testing.T, encoding string, data []byte) {
		if out, err := mds.JSON(encoding, data); err == nil && !json.Valid(out) {
			t.Errorf("%s of %v: %s", encoding, data, out)
		}
	})
}
