package docstream

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"loaderd/packonline/similarity"
	"loaderd/stream"
)

var denseDecoder = decoder{fingerprint: testPrint, vocab: 100, limit: 1000, dimension: 2}

func float32s(v ...float32) string {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(raw)
}

func TestDecode_Embeddings(t *testing.T) {
	json := []string{"Content-Type", stream.TypeJSON}
	nan := float32(math.NaN())
	for name, x := range map[string]struct {
		header []string
		data   string
		want   []int8
		bad    string // part of the sentence
	}{
		"none":    {nil, "a", nil, ""},
		"float32": {[]string{stream.HeaderEmbedding, float32s(3, -4)}, "a", []int8{76, -102}, ""},
		"int8": {[]string{stream.HeaderEmbedding, base64.StdEncoding.EncodeToString([]byte{3, 0xfc})},
			"a", []int8{76, -102}, ""},
		"in lower case": {[]string{strings.ToLower(stream.HeaderEmbedding), float32s(3, -4)}, "a",
			[]int8{76, -102}, ""},
		"zeros":     {[]string{stream.HeaderEmbedding, float32s(0, 0)}, "a", []int8{0, 0}, ""},
		"JSON":      {json, `{"text":"a","embedding":[3,-4.0]}`, []int8{76, -102}, ""},
		"JSON null": {json, `{"text":"a","embedding":null}`, nil, ""},
		"the header before JSON": {append(json, stream.HeaderEmbedding, float32s(0, 1)),
			`{"text":"a","embedding":[3,-4.0]}`, []int8{0, 127}, ""},
		"too long":   {[]string{stream.HeaderEmbedding, float32s(1, 2, 3)}, "a", nil, "holds 12 bytes"},
		"not base64": {[]string{stream.HeaderEmbedding, "#"}, "a", nil, "not base64"},
		"NaN":        {[]string{stream.HeaderEmbedding, float32s(1, nan)}, "a", nil, "not finite"},
		"infinite": {[]string{stream.HeaderEmbedding, float32s(1, float32(math.Inf(1)))}, "a", nil,
			"not finite"},
		"JSON too short":               {json, `{"text":"a","embedding":[1]}`, nil, "1 numbers, the run's have 2"},
		"JSON too large for a float32": {json, `{"text":"a","embedding":[1,1e60]}`, nil, "not a list of numbers"},
		"JSON with null":               {json, `{"text":"a","embedding":[3,null]}`, nil, "not a list of numbers"},
		"JSON words":                   {json, `{"text":"a","embedding":["x","y"]}`, nil, "not a list of numbers"},
		"JSON object":                  {json, `{"text":"a","embedding":{}}`, nil, "not a list of numbers"},
	} {
		got, failed := denseDecoder.decode(header(x.header...), []byte(x.data))
		switch {
		case x.bad != "" && (failed == nil || failed.Reason != badEmbedding || !strings.Contains(failed.Sentence, x.bad)):
			t.Errorf("%s: refused with %+v, want %q", name, failed, x.bad)
		case x.bad == "" && (failed != nil || !slices.Equal(got.vector, x.want)):
			t.Errorf("%s: %v, %+v, want %v", name, got.vector, failed, x.want)
		}
		// A run that compares no embeddings ignores them.
		if got, failed := testDecoder.decode(header(x.header...), []byte(x.data)); failed != nil || got.vector != nil {
			t.Errorf("%s: without anyone who asks: %v, %+v", name, got.vector, failed)
		}
	}
}

func TestDecode_Paths(t *testing.T) {
	for name, x := range map[string]struct {
		header []string
		data   string
		want   string
	}{
		"header": {[]string{stream.HeaderPath, "a/b"}, "x", "a/b"},
		"JSON":   {[]string{"Content-Type", stream.TypeJSON}, `{"text":"x","path":"a/\u0062"}`, "a/b"},
		"meta":   {[]string{"Content-Type", stream.TypeJSON}, `{"text":"x","meta":{"path":"a/b"}}`, "a/b"},
		"JSON before meta": {[]string{"Content-Type", stream.TypeJSON},
			`{"meta":{"path":"no"},"text":"x","path":"a/b"}`, "a/b"},
		"header before all": {[]string{"Content-Type", stream.TypeJSON, stream.HeaderPath, "a/b"},
			`{"text":"x","path":"no"}`, "a/b"},
		"a number is no path":    {[]string{"Content-Type", stream.TypeJSON}, `{"text":"x","path":7,"meta":[1]}`, ""},
		"meta that is no object": {[]string{"Content-Type", stream.TypeJSON}, `{"text":"x","meta":"path"}`, ""},
	} {
		if got, failed := testDecoder.decode(header(x.header...), []byte(x.data)); failed != nil || got.path != x.want {
			t.Errorf("%s: %q, %+v, want %q", name, got.path, failed, x.want)
		}
	}
}

// The hint of a document that is read again equals the one that the source delivered, for every retriever. Documents
// with different subjects have different sources.
func TestHints_SameWhenReadFromMessage(t *testing.T) {
	for _, retriever := range similarity.Retrievers {
		c := similarity.Config{Retriever: retriever, Postings: 1, Dimension: 2}
		l := &Log{decoder: denseDecoder, transform: transform{bos: -1, end: -1, limit: maxTokens},
			workspaces: newWorkspacePool(Tokenization{NewEncoder: func() Encoder { return byteEncoder{} }, Hints: &c}, 1)}
		l.decoder.dimension = Tokenization{Hints: &c}.dimension()
		m := &message{sequence: 7, subject: "docs.a", header: header(stream.HeaderPath, "x/y", stream.HeaderEmbedding,
			float32s(3, 4)), data: []byte("hello")}
		doc, failed := l.makeDocument(m, l.workspaces.get())
		if failed != nil {
			t.Fatal(failed)
		}
		h := doc.Hint
		has := []bool{len(h.Terms) > 0, len(h.Path) > 0, len(h.Vector) > 0}
		if !slices.Equal(has, []bool{retriever == "bm25", retriever == "repo", retriever == "dense"}) {
			t.Errorf("%s: hint %+v", retriever, h)
		}
		m.subject = "docs.b"
		if other, _ := l.makeDocument(m, l.workspaces.get()); other.Hint.Source == h.Source {
			t.Errorf("%s: another subject is the same source", retriever)
		}
	}
}

// byteEncoder maps each byte to one token.
type byteEncoder struct{}

func (byteEncoder) EncodePart(dst []int32, text []byte, _, _ bool) []int32 {
	for _, c := range text {
		dst = append(dst, int32(c))
	}
	return dst
}
