package tokenizer

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"loaderd/tokenizer/internal/pretokenize"
	"loaderd/tokenizer/internal/tokentest"
)

// golden has, for every tokenizer that needs no external file, a hash of the ids of many texts and the fingerprint,
// and the errors for files that are refused. Ids and fingerprints are guarantees to users: a change of this file
// breaks them.
const golden = "testdata/golden.txt"

var update = flag.Bool("update", false, "write "+golden+" anew")

// scripts are ranges of characters that patterns, normalization forms and merges treat differently.
var scripts = [][2]rune{
	{'a', 'z'}, {'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'!', '/'}, {0xC0, 0x17F}, {0x300, 0x36F}, {0x391, 0x3C9},
	{0x410, 0x44F}, {0x5D0, 0x5EA}, {0x620, 0x66F},
	{0x904, 0x94D}, {0xE01, 0xE4E}, {0x1100, 0x11FF}, {0x2000, 0x206F}, {0x2460, 0x24FF}, {0x3041, 0x30FF},
	{0x4E00, 0x9FFF}, {0xAC00, 0xD7A3}, {0xFB00, 0xFB06},
	{0xFF00, 0xFFEF}, {0x10400, 0x1044F}, {0x1F300, 0x1F64F}, {0, utf8.MaxRune},
}

// goldenText returns a random text of words, digits, spaces, scripts, invalid bytes and long words.
func goldenText(r *rand.Rand) []byte {
	var b []byte
	script := scripts[r.IntN(len(scripts))]
	for range 1 + r.IntN(80) {
		switch r.IntN(14) {
		case 0:
			script = scripts[r.IntN(len(scripts))]
		case 1:
			b = append(b, strings.Repeat(string(" \n\t\r/='1"[r.IntN(8)]), 1+r.IntN(1+r.IntN(80)))...)
		case 2:
			b = fmt.Append(b, r.Uint64()>>r.IntN(64))
		case 3:
			b = append(b, tokentest.Pieces[r.IntN(len(tokentest.Pieces))]...)
		case 4:
			b = append(b, "\xff\xc3\xe4\xb8\xf0\x9f\x98\xed\xa0"[r.IntN(9)])
		case 5:
			b = append(b, []string{"<|endoftext|>", "<x>", " <s> ", "'ll", "it's", "HTTPServer", "x=y;\r\n\r\n"}[r.IntN(7)]...)
		case 6:
			if r.IntN(8) == 0 { // a long word
				b = append(b, bytes.Repeat(utf8.AppendRune(nil, script[0]+r.Int32N(script[1]-script[0]+1)), r.IntN(300))...)
			}
		default:
			if r.IntN(4) > 0 {
				b = append(b, ' ')
			}
			for range 1 + r.IntN(1+r.IntN(60)) {
				b = utf8.AppendRune(b, script[0]+r.Int32N(script[1]-script[0]+1))
			}
		}
	}
	return b
}

// goldenTexts returns the same texts for all tokenizers.
func goldenTexts() (texts [][]byte) {
	r := rand.New(rand.NewPCG(2026, 11))
	for range 150 {
		texts = append(texts, goldenText(r))
	}
	// very long words
	for _, letters := range []string{"a", "ab", "ACGT", "abcdefghijklmnopqrstuvwxyz", "0123456789", "中文字人口", "กขค",
		"\x80\xe4\xb8\xadab", " -"} {
		var text []byte
		for range 1 << 13 {
			text = append(text, letters[r.IntN(len(letters))])
		}
		texts = append(texts, text, bytes.Repeat([]byte(letters), 1<<13/len(letters)))
	}
	return texts
}

// goldenFiles returns files of each kind, with all pre-tokenizers that have block rules and some that have none.
func goldenFiles() map[string]object {
	r := rand.New(rand.NewPCG(2026, 12))
	files := map[string]object{}
	for k, p := range pretokenize.Families {
		f := smallFile(tokentest.RandomMerges(r, 80, k%3 == 2)...)
		f["pre_tokenizer"] = patternFor(p.Parts...)
		f["model"].(object)["ignore_merges"] = k%4 == 1
		files[fmt.Sprintf("family %d %s", k, p.Label)] = f
	}
	for k, pre := range []object{
		byteLevel(true, true), inSequence(object{"type": "Digits", "individual_digits": false}, byteLevel(true, true)),
		inSequence(object{"type": "Punctuation", "behavior": "Contiguous"}, byteLevel(false, true)),
		inSequence(splitOn(object{"Regex": `\s+$`}, "Isolated", false), splitOn(object{"String": "a"}, "Isolated", false),
			byteLevel(false, true)),
		inSequence(splitOn(object{"Regex": `\p{Lu}?[\w&&[^\d_]]++|(?i:[a-f])|.`}, "Isolated", false),
			byteLevel(false, false)),
		inSequence(byteLevel(false, true), object{"type": "Digits", "individual_digits": true}),
	} {
		f := smallFile(tokentest.RandomMerges(r, 80, false)...)
		f["pre_tokenizer"] = pre
		f["added_tokens"] = []any{addedToken(1, "<x>", "lstrip", "rstrip"),
			addedToken(2, "ab", "normalized", "single_word"), addedToken(3, "<|endoftext|>", "special"), addedToken(4, "\r\n")}
		f["normalizer"] = object{"type": []string{"NFC", "NFKC"}[k%2]}
		f["post_processor"] = object{"type": "BertProcessing", "cls": []any{"a", 97}, "sep": []any{"b", 98}}
		files[fmt.Sprint("pre-tokenizer ", k)] = f
	}
	goldenWithoutMerges(r, files)
	for seed := range uint64(40) {
		files[fmt.Sprint("characters ", seed)] = randomSpm(rand.New(rand.NewPCG(seed, 2026))).object()
	}
	return files
}

// goldenWithoutMerges adds files with WordPiece and Unigram models.
func goldenWithoutMerges(r *rand.Rand, files map[string]object) {
	for k := range 4 {
		vocab, pieces := object{"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, []any{[]any{"<unk>", 0.0}}
		for range 300 {
			if word := goldenWord(r); vocab[word] == nil {
				vocab[word] = len(vocab)
				vocab["##"+word] = len(vocab)
				pieces = append(pieces, []any{word, -r.Float64() * 12}, []any{"▁" + word, -r.Float64() * 12})
			}
		}
		for b := 0; b < 256 && k%2 == 0; b++ {
			pieces = append(pieces, []any{fmt.Sprintf("<0x%02X>", b), 0})
		}
		words := smallFile()
		words["normalizer"] = object{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": k > 0,
			"strip_accents": nil, "lowercase": k > 1}
		words["pre_tokenizer"] = object{"type": []string{"BertPreTokenizer", "WhitespaceSplit"}[k%2]}
		words["model"] = object{"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
			"max_input_chars_per_word": 100, "vocab": vocab}
		words["decoder"] = object{"type": "WordPiece", "prefix": "##", "cleanup": true}
		words["post_processor"] = object{"type": "BertProcessing", "cls": []any{"[CLS]", 1}, "sep": []any{"[SEP]", 2}}
		files[fmt.Sprint("WordPiece ", k)] = words
		marks := object{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": k < 2}
		unigram := smallFile()
		unigram["normalizer"] = object{"type": []string{"NFKC", "NFC"}[k%2]}
		unigram["pre_tokenizer"] = marks
		unigram["decoder"] = marks
		unigram["model"] = object{"type": "Unigram", "unk_id": 0, "vocab": pieces, "byte_fallback": k%2 == 0}
		files[fmt.Sprint("Unigram ", k)] = unigram
	}
}

// goldenWord returns some characters of a golden text.
func goldenWord(r *rand.Rand) string {
	for {
		runes := []rune(strings.ToValidUTF8(strings.ReplaceAll(string(goldenText(r)), "\x00", ""), ""))
		at := r.IntN(len(runes) + 1)
		word := string(runes[at:min(at+1+r.IntN(4), len(runes))])
		if word != "" && !strings.ContainsAny(word, " <") {
			return word
		}
	}
}

// goldenRefused returns files that cannot be read, for their errors.
func goldenRefused(t *testing.T) map[string][]byte {
	files := map[string][]byte{
		"empty": nil, "list": []byte("[]"), "binary": {0, 1, 2}, "ranks": []byte("YQ== 0\n"), "no rank": []byte("YQ==\n"),
		"no base64": []byte("Y?= 1\n"),
	}
	change := func(name string, keys string, value any) {
		f := smallFile(tokentest.ABC...)
		at, path := f, strings.Split(keys, ".")
		for _, k := range path[:len(path)-1] {
			at = at[k].(object)
		}
		at[path[len(path)-1]] = value
		files[name] = tokentest.JSON(t, f)
	}
	for name, regex := range map[string]string{
		"look behind": `(?<=a)b`, "empty": ``, "no end": `a+b`, "possessive": `a++ab`, "ligature": `(?i:st)`,
		"open class": `[a`,
		"property":   `\p{Klingon}`, "count": `a{1,9999}`,
		"back reference": `(a)\1`, "range": `[z-a]`, "nothing": `a*`, "large": `(?:(?:(?:a{1,64}){1,64}){1,64}){1,64}`,
		"case":        `(?i:\p{L})`,
		"look at two": `a(?!bc)`,
	} {
		change("pattern "+name, "pre_tokenizer", inSequence(splitOn(object{"Regex": regex}, "Isolated", false),
			byteLevel(false, false)))
	}
	for name, pre := range map[string]object{
		"unknown": {"type": "Whitespace"}, "twice": inSequence(byteLevel(false, false), byteLevel(false, false)),
		"null":        {"type": "ByteLevel"},
		"behavior":    inSequence(splitOn(object{"Regex": `\s+`}, "MergedWithPrevious", false), byteLevel(false, false)),
		"digits":      inSequence(object{"type": "Digits"}, byteLevel(false, true)),
		"between":     inSequence(splitOn(object{"Regex": `\w+`}, "Removed", true), byteLevel(false, false)),
		"mark":        {"type": "Metaspace", "replacement": "__"},
		"scheme":      {"type": "Metaspace", "replacement": "_", "prepend_scheme": "no"},
		"spaces left": splitOn(object{"String": " "}, "Isolated", false),
	} {
		change("pre-tokenizer "+name, "pre_tokenizer", pre)
	}
	change("normalizer", "normalizer", object{"type": "Nmt"})
	change("growth", "normalizer", replacing("a", strings.Repeat("b", 100)))
	change("model type", "model.type", "WordLevel")
	change("dropout", "model.dropout", 0.1)
	change("suffix", "model.end_of_word_suffix", "</w>")
	change("ignore_merges", "model.ignore_merges", "yes")
	change("unk", "model.unk_token", 1)
	change("vocab", "model.vocab", []int{1})
	change("merges", "model.merges", object{})
	change("no bytes", "model.vocab", object{"a": 0})
	change("same id", "model.vocab", object{"a": 0, "b": 0})
	change("huge id", "model.vocab", object{"a": 1 << 40})
	change("unknown part", "model.merges", []any{"a zz"})
	change("not the alphabet", "model.merges", []any{"a 中"})
	change("merge of three", "model.merges", []any{"a b c"})
	f := smallFile()
	delete(f["model"].(object)["vocab"].(object), "z")
	files["byte missing"] = tokentest.JSON(t, f)
	for name, model := range map[string]object{
		"characters without unk": {"type": "BPE", "unk_token": "<unk>", "vocab": object{"a": 0}, "merges": []any{}},
		"characters part":        {"type": "BPE", "vocab": object{"a": 0}, "merges": []any{"a b"}},
	} {
		f := smallFile()
		f["pre_tokenizer"], f["model"] = nil, model
		files[name] = tokentest.JSON(t, f)
	}
	change("truncation", "truncation", object{"max_length": 3})
	change("padding", "padding", object{"strategy": "BatchLongest"})
	change("version", "version", "2.0")
	change("field", "normaliser", nil)
	change("added twice", "added_tokens", []any{addedToken(1, "<x>"), addedToken(1, "<x>", "special")})
	change("added flags", "added_tokens", []any{object{"id": 1, "content": "<x>"}})
	change("template", "post_processor", object{"type": "TemplateProcessing", "single": []any{}})
	change("template id", "post_processor", object{"type": "BertProcessing", "cls": []any{"a", 9999},
		"sep": []any{"b", 98}})
	return files
}

// Ids, fingerprints and errors match the golden file, so refactoring changes none of them.
func TestGolden(t *testing.T) {
	var have []string
	texts := goldenTexts()
	add := func(name string, m *Model) {
		e, h := m.NewEncoder(), sha256.New()
		var ids []int32
		for _, text := range slices.Concat(texts, texts[:20]) { // the last ones are in the caches
			ids = e.Encode(ids[:0], text)
			back, err := m.Decode(nil, ids)
			binary.Write(h, binary.LittleEndian, ids)
			fmt.Fprint(h, len(ids), len(back), err)
			h.Write(back)
		}
		have = append(have, fmt.Sprintf("%s: ids %x of %d, %s", name, h.Sum(nil)[:12], m.VocabSize(), m.Fingerprint()))
	}
	for _, name := range Builtin() {
		add(name, load(t, name))
	}
	asText, err := Load("gpt2", Options{SpecialAsText: true})
	if err != nil {
		t.Fatal(err)
	}
	add("gpt2, special as text", asText)
	for name, f := range goldenFiles() {
		add(name, mustLoadFile(t, f, Options{AddSpecialTokens: f["post_processor"] != nil}))
	}
	for name, model := range goldenModels() {
		add(name, loadModel(t, model))
	}
	path := filepath.Join(t.TempDir(), "tokenizer")
	for name, data := range goldenRefused(t) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Load(path, Options{AddSpecialTokens: true})
		if err == nil {
			t.Fatalf("%s: no error", name)
		}
		have = append(have, fmt.Sprintf("refused %s: %s", name, strings.ReplaceAll(err.Error(), path, "PATH")))
	}
	ranks := new(bytes.Buffer)
	for b := range 256 {
		fmt.Fprintf(ranks, "%s %d\n", tokentest.Base64(string([]byte{byte(b)})), b)
	}
	for i, word := range []string{"ab", "the", " t", " the", "an", "中", "12", "'s", "the the"} {
		fmt.Fprintf(ranks, "%s %d\n", tokentest.Base64(word), 256+i)
	}
	if err := os.WriteFile(path, ranks.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pattern := range []string{"gpt2", "cl100k", "llama3", "o200k", "qwen", "seed", "tekken", "kimi", `\w+|\W`} {
		m, err := Load(path, Options{Pattern: pattern, SpecialTokens: []string{"<|endoftext|>", "<x>=400"}})
		if err != nil {
			t.Fatal(err)
		}
		add("ranks with "+pattern, m)
	}
	slices.Sort(have)
	if *update {
		if err := os.WriteFile(golden, []byte(strings.Join(have, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	if len(have) != len(want) {
		t.Errorf("%d lines, want %d", len(have), len(want))
	}
	for i := range min(len(have), len(want)) {
		if have[i] != want[i] {
			t.Errorf("line %d is\n%s\nwant\n%s", i+1, have[i], want[i])
		}
	}
}
