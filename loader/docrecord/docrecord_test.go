package docrecord_test

import (
	"math"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loaderd/loader/docrecord"
	"loaderd/loader/document"
	"loaderd/loader/filter"
	"loaderd/loader/plan"
	"loaderd/packonline/similarity"
)

// fullDocument returns a document with a value in every field that is encoded.
func fullDocument() document.Document {
	weight, other := float32(0.25), float32(3)
	hint := &similarity.Hint{Source: 7, Terms: []uint32{1, math.MaxUint32}, Path: []uint64{9, math.MaxUint64},
		Vector: []int8{-128, 0, 127}}
	meta := []any{nil, nil, "text", int64(math.MinInt64), math.Inf(-1), ""}
	return document.Document{Sequence: 12, ID: math.MaxUint64, Cut: true,
		Content: document.Content{Tokens: []int32{0, 1, 1<<24 - 1, 65536}, Loss: plan.LossRuns{0, 3, 1}, Weight: &weight,
			Extra: &document.Extra{Columns: [][]byte{{1, 2, 3}, nil, {}},
				Meta: meta},
			Docs: []document.Doc{{Start: 0}, {Start: 3, Weight: &other}}, Stored: -5},
		PackingHints: plan.PackingHints{Hint: hint},
		Attributes:   &filter.Attributes{ID: "a", Path: "b", Bytes: 3, Meta: meta},
		Parts: []plan.Part{{Length: 2, Attributes: &filter.Attributes{}}, // its values are nil
			{ID: 4, Length: 3, Loss: plan.LossRuns{1, 2}, Cut: true, SplitIndex: 2,
				Attributes:   &filter.Attributes{ID: "c", Path: "d", Bytes: 1 << 40, Meta: meta[2:4]},
				PackingHints: plan.PackingHints{Hint: hint}},
			{Length: 1, Skip: plan.SkipMasked}}}
}

// A parsed document equals the document. The test fails for a new field of a document that is not encoded.
func TestDocument_RoundTrip(t *testing.T) {
	full := fullDocument()
	requireFields(t, reflect.ValueOf(full), "Document", map[string]bool{
		"Document.Source": true, "Document.Skip": true, // set by the run; only used documents are stored
		"Document.Content.NarrowTokens": true, "Document.Content.Reusable": true, // below
		"Document.Content.Trace": true, // sampled again
	})
	narrow := document.Document{Sequence: 1, Content: document.Content{NarrowTokens: []uint16{0, 65535}}}
	wide := document.Document{Sequence: 1, Content: document.Content{Tokens: []int32{1 << 24, math.MaxInt32}}}
	for name, d := range map[string]document.Document{"full": full, "narrow": narrow, "four bytes": wide,
		"plain": {Sequence: 3, ID: 5, Content: document.Content{Tokens: []int32{1, 2}, Stored: 1}}} {
		for _, traceparent := range []string{"", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
			b := docrecord.Append(nil, &d, traceparent)
			got, parent, err := docrecord.Parse(b, d.Sequence)
			if err != nil || parent != traceparent {
				t.Fatalf("%s: %q %v", name, parent, err)
			}
			if diff := cmp.Diff(d, got); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			for n := range b {
				if _, _, err := docrecord.Parse(b[:n], d.Sequence); err == nil {
					t.Fatalf("%s: the first %d of %d bytes are a document", name, n, len(b))
				}
			}
		}
	}
}

// requireFields fails for a field without a value, except those of except.
func requireFields(t *testing.T, v reflect.Value, path string, except map[string]bool) {
	t.Helper()
	switch {
	case except[path]:
	case v.IsZero():
		t.Errorf("%s has no value in this test", path)
	case v.Kind() == reflect.Pointer:
		requireFields(t, v.Elem(), path, except)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			name := path
			if f := v.Type().Field(i); !f.Anonymous || f.Name == "Content" {
				name += "." + f.Name
			}
			requireFields(t, v.Field(i), name, except)
		}
	case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Struct:
		used := reflect.New(v.Type().Elem()).Elem() // a field needs a value in one element
		for i := range v.Len() {
			for k := range used.NumField() {
				if f := v.Index(i).Field(k); !f.IsZero() {
					used.Field(k).Set(f)
				}
			}
		}
		for k := range used.NumField() {
			requireFields(t, used.Field(k), path+"."+used.Type().Field(k).Name, except)
		}
	}
}

// Damaged data never panics, and data that is a document is encoded again as the same document.
func FuzzDocument(f *testing.F) {
	full := fullDocument()
	f.Add(docrecord.Append(nil, &full, "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	f.Add(docrecord.Append(nil, &document.Document{Content: document.Content{NarrowTokens: []uint16{1, 2}}}, ""))
	f.Fuzz(func(t *testing.T, b []byte) {
		d, traceparent, err := docrecord.Parse(b, 1)
		if err != nil {
			return
		}
		again, parent, err := docrecord.Parse(docrecord.Append(nil, &d, traceparent), 1)
		if err != nil || parent != traceparent || !cmp.Equal(comparable(d), comparable(again)) {
			t.Fatalf("%v: %+v %+v", err, d, again)
		}
	})
}

// comparable returns a document without values that do not equal themselves.
func comparable(d document.Document) document.Document {
	if d.Weight != nil && *d.Weight != *d.Weight {
		d.Weight = nil
	}
	for i := range d.Docs {
		if w := d.Docs[i].Weight; w != nil && *w != *w {
			d.Docs[i].Weight = nil
		}
	}
	if d.Extra != nil {
		for i, v := range d.Extra.Meta {
			if f, ok := v.(float64); ok && f != f {
				d.Extra.Meta[i] = nil
			}
		}
	}
	return d
}
