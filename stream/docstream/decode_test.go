package docstream

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/nats-io/nats.go"

	"loaderd/loader/plan"
	"loaderd/stream"
	"loaderd/stream/deadletter"
)

const testPrint = "sha256:run"

var testDecoder = decoder{fingerprint: testPrint, vocab: 100, limit: 1000}

func header(pairs ...string) nats.Header {
	h := nats.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h[pairs[i]] = append(h[pairs[i]], pairs[i+1])
	}
	return h
}

func TestDecode_AcceptsValidMessages(t *testing.T) {
	tests := []struct {
		name   string
		header nats.Header
		data   string
		id     string
		text   string
		tokens []int32
	}{
		{name: "no headers is text", data: "a", text: "a"},
		{name: "empty content type is text", header: header("Content-Type", ""), data: "a", text: "a"},
		{name: "text", header: header("Content-Type", "text/plain"), data: "a", text: "a"},
		{name: "text with charset", header: header("Content-Type", "Text/Plain; Charset=\"UTF-8\""), data: "é", text: "é"},
		{name: "text in ASCII", header: header("Content-Type", "text/plain;charset=us-ascii"), data: "a", text: "a"},
		{name: "text with another parameter", header: header("Content-Type", "text/plain; format=flowed"), data: "a",
			text: "a"},
		{name: "a little invalid UTF-8 is the tokenizer's", data: strings.Repeat("a", 99) + "\xff",
			text: strings.Repeat("a", 99) + "\xff"},
		{name: "nothing", data: ""},
		{name: "blanks", data: " \n", text: " \n"},
		{name: "a brace", data: " {", text: " {"},
		{name: "identity", header: header("Content-Encoding", "identity"), data: "a", text: "a"},
		{name: "gzip", header: header("content-encoding", "GZIP"), data: gzipped("a text"), text: "a text"},
		{name: "gzip of JSON", header: header("Content-Encoding", "gzip", "Content-Type", "application/json"),
			data: gzipped(`{"text":"a"}`), text: "a"},
		{name: "zstd", header: header("Content-Encoding", "zstd"), data: zstandard("a text"), text: "a text"},
		{name: "JSON that is a text", header: header("Content-Type", "text/plain"), data: `{"text":"a"}`,
			text: `{"text":"a"}`},
		{name: "JSON without a text", data: `{"name":"a"}`, text: `{"name":"a"}`},
		{name: "header in lower case", header: header("content-type", "application/json"), data: `{"text":"a"}`, text: "a"},
		{name: "the exact header counts", header: header("content-type", "x/y", "Content-Type", "text/plain"), data: "a",
			text: "a"},
		{name: "of two others the first in byte order", header: header("content-type", "x/y", "CONTENT-TYPE", "text/plain"),
			data: "a", text: "a"},
		{name: "json", header: header("Content-Type", "application/json"),
			data: `{"id":"i","text":"a\u00e9\n","meta":{"x":[1,{}]}}`, id: "i", text: "aé\n"},
		{name: "json with charset", header: header("Content-Type", "application/json; charset=utf-8"), data: ` {"text":""} `},
		{name: "json number id", header: header("Content-Type", "application/json"), data: `{"id":-1.50e3,"text":"a"}`,
			id: "-1.50e3", text: "a"},
		{name: "json null id", header: header("Content-Type", "application/json"), data: `{"id":null,"text":"a"}`, text: "a"},
		{name: "json last key wins", header: header("Content-Type", "application/json"),
			data: `{"text":1,"text":"a","text":"b"}`, text: "b"},
		{name: "json names are exact", header: header("Content-Type", "application/json"),
			data: `{"text":"a","Text":"b","TEXT":3,"ID":"x"}`, text: "a"},
		{name: "json escaped name", header: header("Content-Type", "application/json"), data: `{"\u0074ext":"a"}`, text: "a"},
		{name: "json escapes", header: header("Content-Type", "application/json"),
			data: `{"text":"\"\\\/\b\f\n\r\t\u00E9\ud83d\ude00\\\""}`, text: "\"\\/\b\f\n\r\té😀\\\""},
		{name: "json values between", header: header("Content-Type", "application/json"),
			data: "{ \"a\" : [ {\"text\":\"}\\\"]\"} , -1e5 ] ,\n\"text\" : \"b\" , \"c\":true,\"d\":0, \"e\" : {}\t}",
			text: "b"},
		{name: "json with bytes that are no UTF-8", header: header("Content-Type", "application/json"),
			data: "{\"text\":\"" + strings.Repeat("a", 99) + "\xff\"}",
			text: strings.Repeat("a", 99) + "\xff"},
		{name: "json lone surrogate", header: header("Content-Type", "application/json"), data: `{"text":"\ud800"}`,
			text: "\ufffd"},
		{name: "tokens", header: header("Content-Type", stream.TypeTokens, "Loaderd-Tokenizer", testPrint),
			data: "\x01\x00\x00\x00\x63\x00\x00\x00", tokens: []int32{1, 99}},
		{name: "no tokens", header: header("Content-Type", stream.TypeTokens, "Loaderd-Tokenizer", testPrint),
			tokens: []int32{}},
		{name: "Loaderd-Id before all", header: header("Loaderd-Id", "l", "Nats-Msg-Id", "n", "Content-Type",
			"application/json"),
			data: `{"id":"j","text":"a"}`, id: "l", text: "a"},
		{name: "Nats-Msg-Id before JSON", header: header("Nats-Msg-Id", "n", "Content-Type", "application/json"),
			data: `{"id":"j","text":"a"}`, id: "n", text: "a"},
		{name: "an empty Loaderd-Id is none", header: header("Loaderd-Id", "", "Nats-Msg-Id", "n"), data: "a", id: "n",
			text: "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failed := testDecoder.decode(tt.header, []byte(tt.data))
			if failed != nil {
				t.Fatalf("refused: %s: %s", failed.Reason, failed.Sentence)
			}
			if got.id != tt.id || string(got.text) != tt.text {
				t.Errorf("id %q, text %q, want %q and %q", got.id, got.text, tt.id, tt.text)
			}
			if diff := cmp.Diff(tt.tokens, got.tokens); diff != "" {
				t.Errorf("tokens (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecode_RefusesInvalidMessages(t *testing.T) {
	tokens := header("Content-Type", stream.TypeTokens, "Loaderd-Tokenizer", testPrint)
	asJSON := header("Content-Type", "application/json")
	loss := func(runs string) nats.Header {
		return header("Content-Type", stream.TypeTokens, "Loaderd-Tokenizer", testPrint, "Loaderd-Loss", runs)
	}
	tests := []struct {
		name   string
		header nats.Header
		data   string
		reason string
		says   string // part of the sentence
	}{
		{"unknown type", header("Content-Type", "image/png"), "x", badContentType, `"image/png"`},
		{"malformed type", header("Content-Type", "text/plain; charset"), "x", badContentType, "malformed"},
		{"nonsense type", header("Content-Type", "\x00"), "x", badContentType, `\x00`},
		{"another charset", header("Content-Type", "text/plain; charset=latin1"), "x", badCharset, `"latin1"`},
		{"another charset of JSON", header("Content-Type", "application/json; charset=utf-16"), `{"text":"a"}`, badCharset,
			`"utf-16"`},
		{"no JSON", asJSON, "hello", badJSON, "byte 1"},
		{"empty JSON", asJSON, "", badJSON, "unexpected end"},
		{"JSON cut short", asJSON, `{"text":"a"`, badJSON, "unexpected end"},
		{"garbage behind JSON", asJSON, `{"text":"a"} x`, badJSON, "after top-level value"},
		{"two objects", asJSON, `{"text":"a"}{"text":"b"}`, badJSON, "after top-level value"},
		{"JSON array", asJSON, `["a"]`, badJSON, "not a JSON object"},
		{"JSON null", asJSON, `null`, badJSON, "not a JSON object"},
		{"no text", asJSON, `{"Text":"a"}`, badJSON, `no "text"`},
		{"text of another type", asJSON, `{"text":["a"]}`, badJSON, "not a string"},
		{"text is null", asJSON, `{"text":null}`, badJSON, "not a string"},
		{"id of another type", asJSON, `{"id":{"a":1},"text":"a"}`, badJSON, "neither a string nor a number"},
		{"text and parts", asJSON, `{"text":"a","parts":[]}`, badParts, "both"},
		{"parts of another type", asJSON, `{"parts":{"text":"a"}}`, badParts, "not a list"},
		{"parts are null", asJSON, `{"parts":null}`, badParts, "not a list"},
		{"a part that is a string", asJSON, `{"parts":[{"text":"a"},"b"]}`, badParts, "part 1: it is no object"},
		{"a part without text", asJSON, `{"parts":[{"loss":true}]}`, badParts, `part 0: it has no "text"`},
		{"a part of a number", asJSON, `{"parts":[{"text":7}]}`, badParts, `part 0: "text" is not a string`},
		{"a loss that is a number", asJSON, `{"parts":[{"text":"a","loss":1}]}`, badParts, "neither true nor false"},
		{"a negative weight", asJSON, `{"text":"a","weight":-0.5}`, badWeight, `"-0.5"`},
		{"a weight beyond float32", asJSON, `{"text":"a","weight":1e39}`, badWeight, "1e39"},
		{"a weight that is a string", asJSON, `{"text":"a","weight":"1"}`, badWeight, "finite number"},
		{"a weight that is infinite", header("Loaderd-Weight", "inf"), "a", badWeight, `"inf"`},
		{"a weight that is no number", header("Loaderd-Weight", "NaN"), "a", badWeight, `"NaN"`},
		{"runs of a text", header("Loaderd-Loss", "1"), "a", badLoss, "for tokens"},
		{"runs that are too short", loss("1"), "\x01\x00\x00\x00\x02\x00\x00\x00", badLoss,
			"1 tokens or more, the document has 2"},
		{"runs that are too long", loss("0,1,2"), "\x01\x00\x00\x00\x02\x00\x00\x00", badLoss,
			"3 tokens or more, the document has 2"},
		{"a run that is negative", loss("1,-1"), "\x01\x00\x00\x00\x02\x00\x00\x00", badLoss, `"-1"`},
		{"runs that are no numbers", loss("1,1,"), "\x01\x00\x00\x00\x02\x00\x00\x00", badLoss, `""`},
		{"nesting bomb", asJSON, `{"meta":` + strings.Repeat("[", 1<<20), badJSON, "depth"},
		{"other tokenizer", header("Content-Type", stream.TypeTokens, "Loaderd-Tokenizer", "sha256:other"), "",
			wrongTokenizer, `"sha256:other"`},
		{"no tokenizer named", header("Content-Type", stream.TypeTokens), "", wrongTokenizer, `""`},
		{"half a token", tokens, "\x01\x00\x00\x00\x01", badTokens, "5 bytes"},
		{"token behind the vocabulary", tokens, "\x00\x00\x00\x00\x64\x00\x00\x00", tokenOutOfRange, "id 100 at position 1"},
		{"negative token", tokens, "\xff\xff\xff\xff", tokenOutOfRange, "id -1 at position 0"},
		{"too many tokens", tokens, strings.Repeat("\x00", 4*1001), tooLarge, "1001 tokens"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, failed := testDecoder.decode(tt.header, []byte(tt.data))
			if failed == nil {
				t.Fatalf("taken as %+v", got)
			}
			if failed.Reason != tt.reason || !strings.Contains(failed.Sentence, tt.says) {
				t.Errorf("%s: %s\nwant %s: ... %s ...", failed.Reason, failed.Sentence, tt.reason, tt.says)
			}
			if len(failed.Sentence) > 400 || strings.ContainsAny(failed.Sentence, "\r\n") {
				t.Errorf("sentence is no short line: %q", failed.Sentence)
			}
		})
	}
}

func TestHashID_IsStable(t *testing.T) {
	if got := hashID(""); got != 0 {
		t.Errorf("no id hashes to %d, want 0", got)
	}
	// The hash is part of what determines a plan, so it must not change.
	for id, want := range map[string]uint64{"a": 0x46848e0421b745a7, "web/1": 0x4cc6ee06ed8b4766} {
		if got := hashID(id); got != want {
			t.Errorf("hash of %q is %#x, want %#x", id, got, want)
		}
	}
}

// checkJSON compares got with what the library decodes from the payload.
func checkJSON(t *testing.T, data []byte, got decodedDocument) {
	t.Helper()
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(data, &fields); err != nil {
		t.Fatalf("taken, but the library reports: %v", err)
	}
	if got.parts != nil {
		var want []struct {
			Text *string
			Loss *bool
		}
		if err := json.Unmarshal(fields["parts"], &want); err != nil || len(want) != len(got.parts) || fields["text"] != nil {
			t.Fatalf("taken, but parts are %s", fields["parts"])
		}
		return // the library matches names in any case, decodeJSON exactly
	}
	var want *string
	if err := json.Unmarshal(fields["text"], &want); err != nil || want == nil {
		t.Fatalf("taken, but text is %s", fields["text"])
	}
	if utf8.Valid(data) && string(got.text) != *want {
		t.Fatalf("text is %q, want %q", got.text, *want)
	}
}

// upper is an Encoder for tests with one id per byte, in a vocabulary of 256.
type upper struct{}

func (upper) EncodePart(dst []int32, text []byte, _, _ bool) []int32 {
	for _, c := range text {
		dst = append(dst, int32(c))
	}
	return dst
}

func TestTransform_AppendsEndTokenOnce(t *testing.T) {
	const end = 9
	for _, tt := range []struct {
		name string
		ids  []int32
		end  int32
		want []int32
	}{
		{"appended", []int32{1, 2}, end, []int32{1, 2, end}},
		{"not twice", []int32{1, end}, end, []int32{1, end}},
		{"only the last counts", []int32{end, 1}, end, []int32{end, 1, end}},
		{"two ends are the producer's", []int32{1, end, end}, end, []int32{1, end, end}},
		{"nothing but the end is nothing", []int32{end}, end, nil},
		{"nothing", []int32{}, end, nil},
		{"no end token", []int32{1}, -1, []int32{1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := transform{bos: -1, end: tt.end, limit: 10}
			m, failed, _ := x.apply(&decodedDocument{tokens: tt.ids}, nil)
			if diff := cmp.Diff(tt.want, m.tokens); diff != "" || failed != nil ||
				(m.skip == plan.SkipEmpty) != (tt.want == nil) {
				t.Errorf("%q, %v (-want +got):\n%s", m.skip, failed, diff)
			}
		})
	}
}

func TestTransform_LimitCountsEndToken(t *testing.T) {
	e := &workspace{shared: NewEncoderPool(func() Encoder { return upper{} }, 1)}
	build := func(text string, end int32) (transformResult, *deadletter.Problem) {
		x := transform{bos: -1, end: end, limit: 4}
		m, failed, _ := x.apply(&decodedDocument{text: []byte(text)}, e)
		return m, failed
	}
	if got, failed := build("abc", 0); failed != nil || len(got.tokens) != 4 || cap(got.tokens) != 4 {
		t.Errorf("3 ids and the end with a limit of 4: %v (capacity %d), %v", got, cap(got.tokens), failed)
	}
	if _, failed := build("abcd", 0); failed == nil || failed.Reason != tooLarge {
		t.Errorf("4 ids and the end with a limit of 4: %v, want %s", failed, tooLarge)
	}
	if got, failed := build("abcd", -1); failed != nil || len(got.tokens) != 4 {
		t.Errorf("4 ids without an end and a limit of 4: %v, %v", got, failed)
	}
}

func TestTransform_EncodesPartsWithLoss(t *testing.T) {
	e := &workspace{shared: NewEncoderPool(func() Encoder { return upper{} }, 1)}
	text := func(loss bool, text string) part { return part{[]byte(text), loss} }
	for _, tt := range []struct {
		name   string
		parts  []part
		end    int32
		tokens string
		loss   plan.LossRuns
	}{
		{"the end behind the last part", []part{text(false, "ask"), text(true, "say")}, '$', "asksay$",
			plan.LossRuns{0, 3, 4}},
		{"not twice", []part{text(false, "ask"), text(true, "say$")}, '$', "asksay$", plan.LossRuns{0, 3, 4}},
		{"not twice where a part follows that is empty", []part{text(false, "ask"), text(true, "say$"), text(false, "")}, '$',
			"asksay$", plan.LossRuns{0, 3, 3, 1}},
		{"no end", []part{text(true, "say")}, -1, "say", nil},
		{"nothing but the end", []part{text(true, "$")}, '$', "", nil},
		{"nothing", []part{text(true, ""), text(false, "")}, '$', "", nil},
	} {
		x := transform{bos: -1, end: tt.end, limit: 100}
		m, failed, _ := x.apply(&decodedDocument{parts: tt.parts}, e)
		got, loss := m.tokens, m.loss
		var ids []int32
		for _, c := range []byte(tt.tokens) {
			ids = append(ids, int32(c))
		}
		if failed != nil || !slices.Equal(got, ids) || !slices.Equal(loss, tt.loss) {
			t.Errorf("%s: %v, %v, %v", tt.name, got, loss, failed)
		}
	}
	for n := range 9 { // the document has eight tokens, including the end
		x := transform{bos: -1, end: '$', limit: n}
		_, failed, _ := x.apply(&decodedDocument{parts: []part{text(true, "abcd"), text(false, "efg")}}, e)
		if (failed != nil) != (n < 8) {
			t.Errorf("a limit of %d tokens: %v", n, failed)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("", "", "", "", "", "", []byte("text"), "")
	f.Add("", "", "", "", "", "", []byte(gzipped("text")), "gzip")
	f.Add("", "", "", "", "", "", []byte(zstandard("text")), "zstd")
	f.Add("text/plain; charset=utf-8", "i", "", "", "", "0.5", []byte("text\xff"), "")
	f.Add("application/json", "", "", "", "", "", []byte(`{"id":"a","text":"b","text":"c","meta":{"x":[]}}`), "")
	f.Add("application/json", "", "", "", "", "", []byte(`{"id":-1,"text":"\ud83d\ude00"}`), "")
	f.Add("application/json", "", "", "", "", "",
		[]byte(`{"parts":[{"text":"a","loss":false},{"text":"","loss":true},{"text":"b"}],"weight":0.25}`), "")
	f.Add("application/vnd.loaderd.tokens", "i", testPrint, "", "1, 1", "2", []byte("\x01\x00\x00\x00\x63\x00\x00\x00"),
		"")
	f.Add("application/vnd.loaderd.tokens", "", "x", "", "", "", []byte("\x01"), "")
	f.Add("", "", "", float32s(1, 2), "", "", []byte("text"), "")
	f.Add("application/json", "", "", "", "", "",
		[]byte(`{"text":"a","embedding":[1,2e3],"path":"x","meta":{"path":"y"}}`), "")
	f.Fuzz(func(t *testing.T, kind, id, print, embedding, loss, weight string, data []byte, coding string) {
		h := header("Content-Type", kind, "Nats-Msg-Id", id, "Loaderd-Tokenizer", print, stream.HeaderEmbedding, embedding,
			stream.HeaderLoss, loss, stream.HeaderWeight, weight,
			stream.HeaderEncoding, coding)
		before := string(data)
		got, failed := denseDecoder.decode(h, data)
		again, failedAgain := denseDecoder.decode(h, []byte(before))
		if diff := cmp.Diff(got, again, cmp.AllowUnexported(decodedDocument{}, part{})); diff != "" ||
			(failed == nil) != (failedAgain == nil) {
			t.Fatalf("decoded twice (-first +second):\n%s", diff)
		}
		if string(data) != before {
			t.Fatal("the payload was changed")
		}
		if failed != nil {
			if failed.Reason == "" || failed.Sentence == "" || strings.ContainsAny(failed.Sentence, "\r\n\x00") ||
				len(failed.Sentence) > 600 {
				t.Fatalf("reason %q, sentence %q", failed.Reason, failed.Sentence)
			}
			if got.text != nil || got.parts != nil || got.loss != nil || got.weight != nil || got.tokens != nil ||
				got.id != "" || got.vector != nil {
				t.Fatalf("refused with %+v", got)
			}
			return
		}
		if got.text != nil && got.tokens != nil || got.parts != nil && (got.text != nil || got.tokens != nil) {
			t.Fatal("more than one of text, parts and tokens")
		}
		sum := 0
		for i, n := range got.loss {
			if sum += int(n); n < 0 || n == 0 && i > 0 {
				t.Fatalf("runs %v", got.loss)
			}
		}
		if got.loss != nil && (len(got.loss) < 2 || sum != len(got.tokens)) {
			t.Fatalf("runs %v of %d tokens", got.loss, len(got.tokens))
		}
		if w := got.weight; w != nil && (!(*w >= 0) || *w > math.MaxFloat32 || *w == 1) {
			t.Fatalf("weight %v", *w)
		}
		if n := len(got.vector); n != 0 && n != denseDecoder.dimension {
			t.Fatalf("an embedding of %d numbers", n)
		}
		for _, id := range got.tokens {
			if id < 0 || int(id) >= testDecoder.vocab {
				t.Fatalf("id %d is outside the vocabulary", id)
			}
		}
		if kind == stream.TypeTokens && string(stream.AppendTokens(nil, got.tokens)) != before {
			t.Fatal("the tokens are not the payload's")
		}
		if kind == stream.TypeJSON {
			checkJSON(t, data, got)
		}
	})
}

func gzipped(text string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = io.WriteString(z, text) // a write to memory never fails
	_ = z.Close()
	return b.String()
}

func zstandard(text string) string {
	z, err := zstd.NewWriter(nil)
	if err != nil {
		panic(err)
	}
	return string(z.EncodeAll([]byte(text), nil))
}

// The size of a decompressed payload is bounded, and an invalid payload becomes a dead letter.
func TestDecode_Payload(t *testing.T) {
	long := strings.Repeat("a", stream.MaxDocumentLimit+1)
	for name, c := range map[string]struct {
		header nats.Header
		data   string
		reason string
	}{
		"an unknown coding":       {header("Content-Encoding", "br"), "a", badCoding},
		"two codings":             {header("Content-Encoding", "gzip, zstd"), "a", badCoding},
		"not gzip":                {header("Content-Encoding", "gzip"), "a text", badCoding},
		"gzip that is cut":        {header("Content-Encoding", "gzip"), gzipped("a text")[:20], badCoding},
		"not zstd":                {header("Content-Encoding", "zstd"), "a text", badCoding},
		"too large, gzip":         {header("Content-Encoding", "gzip"), gzipped(long), tooLarge},
		"too large, zstd":         {header("Content-Encoding", "zstd"), zstandard(long), tooLarge},
		"gzip without the header": {nil, gzipped(strings.Repeat("a text of some words, ", 50)), badEncoding},
		"Latin-1":                 {nil, "caf\xe9", badEncoding},
		"Latin-1 in JSON":         {header("Content-Type", "application/json"), "{\"text\":\"caf\xe9\"}", badEncoding},
		"Latin-1 in a part": {header("Content-Type", "application/json"), "{\"parts\":[{\"text\":\"caf\xe9\"}]}",
			badEncoding},
		"JSON without a content type":  {nil, ` {"text":"a"}`, badContentType},
		"parts without a content type": {header("Content-Type", ""), `{"parts":[{"text":"a"}]}`, badContentType},
	} {
		if got, failed := testDecoder.decode(c.header, []byte(c.data)); failed == nil || failed.Reason != c.reason {
			t.Errorf("%s: %+v, %.60q, want %s", name, failed, got.text, c.reason)
		}
	}
	got, failed := testDecoder.decode(nil, []byte(strings.Repeat("a", 200)+"\xff\xff"))
	if failed != nil || got.replaced != 2 {
		t.Errorf("%d bytes are replaced, %v", got.replaced, failed)
	}
}
