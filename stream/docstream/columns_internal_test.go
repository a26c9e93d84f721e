package docstream

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"loaderd/loader/runconfig"
	"loaderd/stream"
)

var metaConfig = runconfig.Documents{Meta: map[string]string{"lang": runconfig.MetaString,
	"score": runconfig.MetaFloat64,
	"year":  runconfig.MetaInt64}}

func metaDecoder() decoder {
	d := testDecoder
	d.meta = metaColumns(metaConfig)
	return d
}

// Values of a document are read from its JSON or from its header.
func TestMeta_ReadFromJSONOrHeader(t *testing.T) {
	long := strings.Repeat("x", runconfig.MaxMetaBytes)
	for _, tt := range []struct {
		meta string
		want []any
		says string // of the rejection
	}{
		{meta: `{"lang":"de","score":0.25,"year":-3}`, want: []any{"de", 0.25, int64(-3)}},
		{meta: ` {"year" : 9223372036854775807, "other": {"lang": "en"}, "lang" : "\u00e9\ud83d\ude00"} `,
			want: []any{"é😀", nil, int64(math.MaxInt64)}},
		{meta: `{"lang":"a","lang":"b","score":1e3}`, want: []any{"b", 1e3, nil}},
		{meta: `{"lang":null}`, want: []any{nil, nil, nil}},
		{meta: `{}`},
		{meta: `{"LANG":"x"}`},
		{meta: `{"lang":"` + long + `"}`, want: []any{long, nil, nil}},
		{meta: `{"lang":"` + long + `x"}`, says: "lang has 1025 bytes, at most 1024 can be"},
		{meta: `{"lang":5}`, says: `lang of * is "5": want a string`},
		{meta: `{"lang":["a"]}`, says: `lang of * is "[\"a\"]": want a string`},
		{meta: `{"year":1.5}`, says: `year of * is "1.5": want an int64`},
		{meta: `{"year":9223372036854775808}`, says: `year of * is "9223372036854775808": want an int64`},
		{meta: `{"score":"1"}`, says: `score of * is "\"1\"": want a float64`},
		{meta: `{"score":1e999}`, says: `score of * is "1e999": want a float64`},
		{meta: `[1]`, says: "* is no JSON object"},
		{meta: `7`, says: "* is no JSON object"},
	} {
		for where, m := range map[string]struct {
			kind, header string
			data         string
		}{
			`"meta"`:              {kind: stream.TypeJSON, data: `{"text":"a","meta":` + tt.meta + `}`},
			"header Loaderd-Meta": {header: tt.meta, data: "a"},
		} {
			h := header("Content-Type", m.kind, stream.HeaderMeta, m.header)
			got, failed := metaDecoder().decode(h, []byte(m.data))
			says := strings.ReplaceAll(tt.says, "*", where)
			if failed != nil && (failed.Reason != badMeta || failed.Sentence != says || says == "") || failed == nil &&
				says != "" {
				t.Errorf("%s of %s: %v, want %q", where, tt.meta, failed, says)
			}
			if diff := cmp.Diff(tt.want, got.meta); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", where, tt.meta, diff)
			}
		}
	}
	both := header("Content-Type", stream.TypeJSON, stream.HeaderMeta, `{"year":1}`)
	if got, failed := metaDecoder().decode(both, []byte(`{"text":"a","meta":{"lang":7}}`)); failed != nil ||
		!cmp.Equal(got.meta, []any{nil, nil, int64(1)}) {
		t.Errorf("with a header and JSON: %v, %v", got.meta, failed)
	}
	if got, failed := testDecoder.decode(header(stream.HeaderMeta, "{"), []byte("a")); failed != nil || got.meta != nil {
		t.Errorf("a run that takes none: %v, %v", got.meta, failed)
	}
	if _, failed := metaDecoder().decode(header(stream.HeaderMeta, `{"lang":`), []byte("a")); failed == nil ||
		!strings.Contains(failed.Sentence, "is not JSON") {
		t.Errorf("half an object: %v", failed)
	}
	if _, failed := metaDecoder().decode(header("Content-Type", stream.TypeJSON),
		[]byte(`{"text":"a","meta":null}`)); failed != nil {
		t.Error(failed)
	}
}

// FuzzMeta decodes any header. The result is values of the run's types that equal those of the JSON, or a reason.
func FuzzMeta(f *testing.F) {
	for _, s := range []string{`{"lang":"de","score":0.25,"year":-3}`, `{"lang":"\ud800","x":[{"year":"}"}]}`,
		`{"year":1e3}`, `[`, `"`, ` { } `, "{\"lang\":\"\xff\"}"} {
		f.Add(s)
	}
	d := metaDecoder()
	f.Fuzz(func(t *testing.T, value string) {
		got, failed := d.decode(header(stream.HeaderMeta, value), []byte("a"))
		var object map[string]any
		is := json.Unmarshal([]byte(value), &object) == nil && utf8.ValidString(value)
		if failed != nil {
			if failed.Reason != badMeta || len(failed.Sentence) > 600 || strings.ContainsAny(failed.Sentence, "\r\n\x00") {
				t.Fatalf("%+v", failed)
			}
			return
		}
		if value != "" && !is {
			t.Fatalf("%q is taken", value)
		}
		for i, m := range d.meta {
			if got.meta == nil || got.meta[i] == nil {
				continue
			}
			switch v := got.meta[i].(type) {
			case string:
				if !utf8.ValidString(v) || v != object[m.name] || len(v) > 3*runconfig.MaxMetaBytes {
					t.Fatalf("%q of %q", v, value)
				}
			case int64:
				if float64(v) != object[m.name] {
					t.Fatalf("%d of %q", v, value)
				}
			case float64:
				if v != object[m.name] {
					t.Fatalf("%g of %q", v, value)
				}
			}
		}
	})
}

// In every transformation each value stays with the token that it arrived with, and each received token has it
// exactly once.
func TestColumns_ValuesStayWithTheirTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	columns := map[string]runconfig.TokenColumn{"a": {Type: runconfig.ColumnInt32, Fill: -1},
		"b": {Type: runconfig.ColumnInt16, Fill: 7},
		"c": {Type: runconfig.ColumnBool, Fill: 1}}
	happened := map[string]int{}
	for n := range 20_000 {
		c := runconfig.Documents{MultiplePerMessage: true, Columns: columns, MaxTokens: runconfig.MaxTokens{At: rng.IntN(12),
			Do: []string{runconfig.MaxCut, runconfig.MaxSplit}[n%2]}}
		if rng.IntN(2) == 0 {
			c.BOS = "257"
		}
		if rng.IntN(2) == 0 {
			c.FIM = fills(0.7, 0.5)
		}
		tokens := byteTokenizing(c, uint64(n))
		if rng.IntN(4) == 0 {
			tokens.End = -1
		}
		x := newTransforming(t, tokens)
		d := decodedDocument{tokens: make([]int32, 1+rng.IntN(20)), columns: make([][]byte, 3)}
		for i := range d.tokens {
			d.tokens[i] = int32(rng.IntN(100))
			d.columns[0] = binary.LittleEndian.AppendUint32(d.columns[0], uint32(i))
			d.columns[2] = append(d.columns[2], byte(i%2))
		}
		if rng.IntN(3) == 0 {
			d.tokens[0] = bosToken
		}
		if rng.IntN(3) == 0 {
			d.tokens[len(d.tokens)-1] = endToken
		}
		d.tokens = slices.Grow(d.tokens, 1)
		came := slices.Clone(d.tokens)
		m := x.make(t, d)
		if m.skip != "" {
			continue
		}
		all := m.pieces
		if all == nil {
			all = []transformResult{m}
		}
		seen, cut := map[int32]bool{}, false
		for _, m := range all {
			together := extraBuilder{schema: x.columns}
			together.add(0, 0, nil, &m)
			columns := together.build().Columns
			if len(columns) != 3 || len(columns[0]) != 4*len(m.tokens) || columns[1] != nil || len(columns[2]) != len(m.tokens) {
				t.Fatalf("%d tokens with columns %v", len(m.tokens), columns)
			}
			cut = cut || m.cut
			for k, id := range m.tokens {
				at, odd := int32(binary.LittleEndian.Uint32(columns[0][4*k:])), columns[2][k]
				if at == -1 {
					if odd != 1 || id != bosToken && id != endToken && id < 258 {
						t.Fatalf("%v of %v: token %d has a fill, and came", m.tokens, came, k)
					}
					happened["filled"]++
					continue
				}
				if id != came[at] || odd != byte(at%2) || seen[at] {
					t.Fatalf("%v of %v: token %d has the value of token %d", m.tokens, came, k, at)
				}
				seen[at] = true
			}
		}
		if !cut && len(seen) != len(came) && !(tokens.End == -1 && came[len(came)-1] == endToken) {
			t.Fatalf("%v of %v has the values of %d tokens", all, came, len(seen))
		}
		happened[map[bool]string{true: "cut", false: "whole"}[cut]]++
		if len(all) > 1 {
			happened["split"]++
		}
	}
	for _, what := range []string{"filled", "cut", "whole", "split"} {
		if happened[what] == 0 {
			t.Errorf("nothing is %s", what)
		}
	}
}
