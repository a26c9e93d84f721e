package docstream

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/stream"
)

// splitAt returns a configuration that splits documents of more than at tokens.
func splitAt(at int) runconfig.Documents {
	return runconfig.Documents{BOS: "257", MaxTokens: runconfig.MaxTokens{At: at, Do: runconfig.MaxSplit}}
}

// masks returns which tokens have a loss: x for those with one, - for those without.
func masks(m transformResult) string {
	var b strings.Builder
	lengths := m.loss.AppendRuns(nil, 0, int32(len(m.tokens)))
	for i, n := range lengths {
		b.WriteString(strings.Repeat([]string{"x", "-"}[i%2], int(n)))
	}
	return b.String()
}

func TestSplit_PiecesHaveTokensAndLoss(t *testing.T) {
	text := func(s string) decodedDocument { return decodedDocument{text: []byte(s)} }
	ids := func(s string, loss ...int32) decodedDocument { return decodedDocument{tokens: spelled(s), loss: loss} }
	parts := func(p ...part) decodedDocument { return decodedDocument{parts: p} }
	asks, says := part{[]byte("ask"), false}, part{[]byte("say"), true}
	bare := splitAt(2)
	bare.BOS = ""
	for _, tt := range []struct {
		name   string
		c      runconfig.Documents
		in     decodedDocument
		pieces string // as spelled reads them, separated by spaces
		losses string // as masks returns them; empty if all tokens have a loss
	}{
		{name: "as long as may be", c: splitAt(4), in: text("abcd"), pieces: "<abcd>"},
		{name: "one more", c: splitAt(4), in: text("abcde"), pieces: "<ab <cde>"},
		{name: "twice as long", c: splitAt(4), in: text("abcdefgh"), pieces: "<abcd <efgh>"},
		{name: "no rest", c: splitAt(4), in: text("abcdefghi"), pieces: "<abc <def <ghi>"},
		{name: "of one token", c: splitAt(1), in: text("abc"), pieces: "<a <b <c>"},
		{name: "without tokens around", c: bare, in: text("abcd"), pieces: "ab cd>"},
		{name: "ids", c: splitAt(2), in: ids("abcd"), pieces: "<ab <cd>"},
		{name: "ids with what is put around them", c: splitAt(2), in: ids("<abcd>"), pieces: "<ab <cd>"},
		{name: "ids with an end amid them", c: splitAt(2), in: ids("ab>d"), pieces: "<ab <>d>"},
		{name: "ids with a beginning amid them", c: splitAt(2), in: ids("ab<d"), pieces: "<ab <d>"},
		{name: "ids with nothing but beginnings", c: splitAt(1), in: ids("a<<"), pieces: "<a < <>"},
		{name: "parts", c: splitAt(4), in: parts(asks, says), pieces: "<ask <say>", losses: "---- xxxxx"},
		{name: "amid a part", c: splitAt(5), in: parts(part{[]byte("asks"), false}, part{[]byte("an"), true},
			part{nil, false}), pieces: "<ask <san>", losses: "---- --xx-"},
		{name: "runs", c: splitAt(2), in: ids("abcdef", 1, 2, 3), pieces: "<ab <cd <ef>", losses: "xx- --x xxxx"},
		{name: "parts are not filled in", c: runconfig.Documents{MaxTokens: splitAt(3).MaxTokens, FIM: fills(1, 0)},
			in: parts(asks, says), pieces: "ask say>", losses: "--- xxxx"},
		{name: "nor are ids without a loss", c: runconfig.Documents{MaxTokens: splitAt(3).MaxTokens, FIM: fills(1, 0)},
			in: ids("abcd", 1, 3), pieces: "ab cd>", losses: "x- ---"},
		{name: "runs with a beginning of their own", c: splitAt(2), in: ids("<abcd>", 0, 2, 2, 2), pieces: "<ab <cd>",
			losses: "--x xx--"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := newTransforming(t, byteTokenizing(tt.c, 3))
			m := x.make(t, tt.in)
			all := m.pieces
			if all == nil {
				all = []transformResult{m}
			}
			want := strings.Fields(tt.pieces)
			if len(all) != len(want) {
				t.Fatalf("%+v, want %s", all, tt.pieces)
			}
			var losses []string
			for i, p := range all {
				if !slices.Equal(p.tokens, spelled(want[i])) || p.cut ||
					(p.skip == plan.SkipMasked) != !strings.Contains(masks(p), "x") {
					t.Errorf("piece %d is %+v, want %s", i, p, want[i])
				}
				losses = append(losses, masks(p))
			}
			if got := strings.Join(losses, " "); tt.losses != "" && got != tt.losses || tt.losses == "" &&
				strings.Contains(got, "-") {
				t.Errorf("losses %s, want %s", got, tt.losses)
			}
		})
	}
}

// splitWell checks the pieces of a document. None is longer than the limit or much shorter than the others. All have
// a beginning, only the last has an end, and runs add up.
func splitWell(t testing.TB, m transformResult, at int, marked bool, end int32) {
	t.Helper()
	if len(m.pieces) < 2 || m.tokens != nil || m.skip != "" || at == 0 {
		t.Fatalf("%+v", m)
	}
	for i, p := range m.pieces {
		n := len(p.tokens)
		if p.tokens[0] != bosToken || i+1 == len(m.pieces) && p.tokens[n-1] != end || p.pieces != nil || p.cut ||
			p.skip != "" && (p.skip != plan.SkipMasked || !marked) {
			t.Fatalf("piece %d of %d is %+v", i, len(m.pieces), p)
		}
		sum := 0
		for _, run := range p.loss {
			sum += int(run)
		}
		if p.loss != nil && (sum != n || !marked) || p.loss.HasLoss() != (p.skip == "") {
			t.Fatalf("runs %v of %d tokens, %s", p.loss, n, p.skip)
		}
	}
}

// A split document keeps every token once and in order, with its loss. The pieces are as few as possible, and their
// lengths differ by at most one.
func TestSplit_KeepsEveryToken(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	for range 2000 {
		at, n := 1+r.IntN(20), 1+r.IntN(200)
		x := newTransforming(t, byteTokenizing(splitAt(at), 1))
		var own []int32
		var lengths []int32
		for range n {
			own = append(own, 'a'+int32(r.IntN(26)))
		}
		for left := int32(n); left > 0; {
			k := min(left, int32(r.IntN(30)))
			lengths, left = append(lengths, k), left-k
		}
		loss := plan.NewLossRuns(lengths)
		d := decodedDocument{tokens: slices.Clone(own), loss: loss}
		whole := masks(transformResult{tokens: own, loss: loss})
		m := x.make(t, d)
		if n <= at {
			if m.pieces != nil {
				t.Fatalf("%d tokens, at %d: %+v", n, at, m)
			}
			continue
		}
		splitWell(t, m, at, loss != nil, endToken)
		var joined []int32
		var mask string
		least, most := n, 0
		for i, p := range m.pieces {
			last, piece := len(p.tokens), masks(p)
			if i+1 == len(m.pieces) {
				last--
				if piece[last] != piece[last-1] {
					t.Fatalf("the end has the loss of %s", piece)
				}
			}
			joined, mask = append(joined, p.tokens[1:last]...), mask+piece[1:last]
			least, most = min(least, last-1), max(most, last-1)
			if piece[0] != piece[1] {
				t.Fatalf("the beginning has the loss of %s", piece)
			}
		}
		if !slices.Equal(joined, own) || mask != whole || most > at || most-least > 1 || len(m.pieces) != (n+at-1)/at {
			t.Fatalf("%d tokens, at %d: %d pieces of %d to %d", n, at, len(m.pieces), least, most)
		}
	}
}

// Fill-in-the-middle applies to each piece separately, drawn by its content, and loses no token.
func TestSplit_FillInMiddlePerPiece(t *testing.T) {
	const n, at = 300, 40
	for _, asIDs := range []bool{false, true} {
		c := splitAt(at)
		c.FIM = fills(0.5, 0.5)
		x := newTransforming(t, byteTokenizing(c, 1))
		r := rand.New(rand.NewPCG(1, 2))
		filled, all, cuts := 0, 0, map[int]bool{}
		for range n {
			text, d := letters(r, 90, asIDs)
			m := x.make(t, d)
			if again := x.make(t, d); fmt.Sprint(again) != fmt.Sprint(m) {
				t.Fatalf("%s becomes %v, and again %v", text, m, again)
			}
			splitWell(t, m, at, false, endToken)
			var joined []int32
			for i, p := range m.pieces {
				own := p.tokens[1:]
				if i+1 == len(m.pieces) {
					own = own[:len(own)-1]
				}
				if all++; own[0] == preToken {
					filled++
					cuts[slices.Index(own, midToken)] = true
					own, _ = unfilled(t, own)
				}
				joined = append(joined, own...)
			}
			if !slices.Equal(joined, spelled(string(text))) {
				t.Fatalf("%s becomes %v", text, joined)
			}
		}
		if all != 3*n || filled < all*2/5 || filled > all*3/5 || len(cuts) < 20 {
			t.Errorf("%d pieces, %d of them filled in at %d places", all, filled, len(cuts))
		}
	}
}

// The pieces of a text decode to the text, whichever characters the split is in. Fill-in-the-middle cuts a piece of
// whole characters between characters.
func TestSplit_PiecesDecodeToTextOfPublishedTokenizers(t *testing.T) {
	tokens := runconfig.FIMTokens{Prefix: "100258", Middle: "100259", Suffix: "100260"}
	tokenizing, m := published(t, "cl100k_base", runconfig.Documents{FIM: runconfig.FIM{Rate: 1, Tokens: tokens},
		MaxTokens: runconfig.MaxTokens{At: 5, Do: runconfig.MaxSplit}})
	x, e := newTransforming(t, tokenizing), m.NewEncoder()
	between := 0 // pieces whose tokens are not those of the text, because it is cut within them
	for _, text := range []string{strings.Repeat("hello world, it's 12 o'clock\n\n", 3), "日本語のテキスト、とても長い文章です。",
		strings.Repeat("😀", 19), strings.Repeat("ᚠ", 19), "func main() {\n\tfmt.Println(\"x\")\n}\n"} {
		got, whole := x.make(t, decodedDocument{text: []byte(text)}), e.Encode(nil, []byte(text))
		n := len(got.pieces)
		var joined []byte
		for i, p := range got.pieces {
			parts, ok := split(p.tokens, tokenizing, t)
			if !ok {
				t.Fatalf("%q: piece %d is %v", text, i, p.tokens)
			}
			piece, err := m.Decode(nil, slices.Concat(parts[0], parts[1], parts[2]))
			if err != nil {
				t.Fatal(err)
			}
			joined = append(joined, piece...)
			if !slices.Equal(slices.Concat(parts[0], parts[1], parts[2]), whole[len(whole)*i/n:len(whole)*(i+1)/n]) {
				between++
			}
		}
		if n != (len(whole)+4)/5 || !bytes.Equal(joined, []byte(text)) {
			t.Errorf("%q in %d pieces spells %q", text, n, joined)
		}
		for i, p := range x.make(t, decodedDocument{tokens: whole}).pieces { // given ids do not change
			if parts, ok := split(p.tokens, tokenizing, t); !ok || !slices.Equal(slices.Concat(parts[0], parts[1], parts[2]),
				whole[len(whole)*i/n:len(whole)*(i+1)/n]) {
				t.Errorf("%q: piece %d of its ids is %v", text, i, p.tokens)
			}
		}
	}
	for words := range 5 { // as many tokens as allowed, and more after fill-in-the-middle
		for text := strings.Repeat(" unbelievably", words) + "!"; len(e.Encode(nil, []byte(text))) <= 5; text += " x!" {
			if got := x.make(t, decodedDocument{text: []byte(text)}); got.pieces != nil || got.tokens[0] != 100258 {
				t.Errorf("%q is in %d pieces, or not filled in: %v", text, len(got.pieces), got.tokens)
			}
		}
	}
	if between < 5 {
		t.Errorf("%d pieces are cut within tokens", between)
	}
}

// beginning puts a space before a text, but not before later parts of one.
type beginning struct{ upper }

func (s beginning) EncodePart(dst []int32, text []byte, first, last bool) []int32 {
	if first {
		dst = append(dst, ' ')
	}
	return s.upper.EncodePart(dst, text, first, last)
}

// A piece does not get what the tokenizer puts before a text.
func TestSplit_PieceHasNoBeginningMark(t *testing.T) {
	c := splitAt(4)
	c.FIM = fills(1, 0.5)
	tokens := byteTokenizing(c, 1)
	tokens.NewEncoder = func() Encoder { return beginning{} }
	tokens.Decode = func(dst []byte, ids []int32) []byte { // as tokenizers do
		for i, id := range ids {
			if i > 0 || id != ' ' {
				dst = append(dst, byte(id))
			}
		}
		return dst
	}
	x := newTransforming(t, tokens)
	var joined []int32
	for _, p := range x.make(t, decodedDocument{text: []byte("abc defgh")}).pieces {
		own := p.tokens[1:]
		if own[len(own)-1] == endToken {
			own = own[:len(own)-1]
		}
		own, _ = unfilled(t, own)
		joined = append(joined, own...)
	}
	if want := spelled(" abc defgh"); !slices.Equal(joined, want) {
		t.Errorf("%v, want %v", joined, want)
	}
}

// Documents store their ids in 16 bits each if the vocabulary is small enough. The next document does not change
// them.
func TestDocuments_SmallVocabularyUses16BitIDs(t *testing.T) {
	for name, c := range map[string]runconfig.Documents{"as they are": {}, "with bos": {BOS: "257"},
		"cut":   {MaxTokens: runconfig.MaxTokens{At: 5, Do: runconfig.MaxCut}},
		"split": splitAt(4), "filled in": {FIM: fills(1, 0)}} {
		var all [2][][]int32
		for i, vocab := range []int{1 << 16, 1<<16 + 1} {
			tokens := byteTokenizing(c, 1)
			tokens.VocabSize = vocab
			x := newTransforming(t, tokens)
			l := Log{transform: x.transform, decoder: decoder{limit: tokens.maxDocumentTokens(), vocab: vocab, fingerprint: "x"}}
			var docs []document.Document
			for _, text := range []string{"one", "another one", "a third one, longer than both", "4"} {
				var ids []byte
				for _, id := range spelled(text) {
					ids = binary.LittleEndian.AppendUint32(ids, uint32(id))
				}
				for _, m := range []message{{data: []byte(text)},
					{data: ids, header: header("Content-Type", stream.TypeTokens, stream.HeaderTokenizer, "x")}} {
					doc, failed := l.makeDocument(&m, x.encoder)
					if failed != nil {
						t.Fatal(failed)
					}
					docs = append(docs, doc)
				}
			}
			for _, doc := range docs {
				if small := vocab == 1<<16; (doc.NarrowTokens != nil) != small || (doc.Tokens == nil) != small {
					t.Errorf("%s, a vocabulary of %d: %d tokens, %d of them narrow", name, vocab, doc.Len(), len(doc.NarrowTokens))
				}
				all[i] = append(all[i], doc.TokenIDs(0, doc.Len()))
			}
		}
		if diff := cmp.Diff(all[1], all[0]); diff != "" {
			t.Errorf("%s: -32 bits +16 bits:\n%s", name, diff)
		}
	}
}

// A message has no more tokens than a plan can name, however many documents it becomes.
func TestSplit_TokensOfMessageAreBounded(t *testing.T) {
	c := splitAt(1 << 20)
	x := newTransforming(t, byteTokenizing(c, 1))
	l := Log{transform: x.transform, decoder: decoder{limit: byteTokenizing(c, 1).maxDocumentTokens()}}
	for _, tt := range []struct {
		bytes int
		want  string // reason
	}{{plan.MaxPartTokens - 17, ""}, {plan.MaxPartTokens - 16, tooLarge}} {
		// 16 BOS tokens, and an end
		doc, failed := l.makeDocument(&message{sequence: 1, data: make([]byte, tt.bytes)}, x.encoder)
		if failed == nil && (tt.want != "" || len(doc.Parts) != 16 || doc.Len() != plan.MaxPartTokens) || failed != nil &&
			failed.Reason != tt.want {
			t.Errorf("%d tokens: %d documents of %d, %+v", tt.bytes, len(doc.Parts), doc.Len(), failed)
		}
	}
	c.MaxTokens.At = 1 << 30
	x = newTransforming(t, byteTokenizing(c, 1))
	l.transform = x.transform
	if _, failed := l.makeDocument(&message{sequence: 1, data: make([]byte, plan.MaxPartTokens)},
		x.encoder); failed == nil ||
		failed.Reason != tooLarge {
		t.Errorf("one document of too many tokens: %+v", failed)
	}
}
