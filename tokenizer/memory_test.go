package tokenizer

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"loaderd/tokenizer/internal/tokentest"
)

// workerMemory is the maximum memory of an encoder between texts, without the model.
const workerMemory = 16 << 20

// shared are the types that encoders refer to and do not own: the model, and tables.
var shared = []string{"*tokenizer.Model", "*wordcache.Words", "*wordcache.sharedWords", "*norm.nfcTables",
	"*norm.variants", "*charsmap.Map", "*wordpiece.Model", "*unigram.Model[float32]", "*unigram.Model[float64]",
	"*sentencepiece.Model"}

// held returns the memory in bytes that is reachable from a value.
func held(t *testing.T, v reflect.Value) (n int) {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() || slices.Contains(shared, v.Type().String()) {
			return 0
		}
		return int(v.Type().Elem().Size()) + held(t, v.Elem())
	case reflect.Interface:
		if v.IsNil() {
			return 0
		}
		return held(t, v.Elem())
	case reflect.Slice:
		n = v.Cap() * int(v.Type().Elem().Size())
		fallthrough
	case reflect.Array:
		for i := 0; i < v.Len() && leads(v.Type().Elem()); i++ {
			n += held(t, v.Index(i))
		}
	case reflect.Struct:
		for _, field := range v.Fields() {
			n += held(t, field)
		}
	case reflect.Map:
		if kv := v.Type(); leads(kv.Key()) || leads(kv.Elem()) {
			t.Fatalf("what a %s leads to is not known", kv)
		}
		n = 2 * v.Len() * int(v.Type().Key().Size()+v.Type().Elem().Size())
	case reflect.String:
		n = v.Len()
	default:
		if leads(v.Type()) {
			t.Fatalf("what a %s leads to is not known", v.Type())
		}
	}
	return n
}

// leads reports whether values of a type may refer to other memory.
func leads(t reflect.Type) bool {
	switch k := t.Kind(); k {
	case reflect.Array:
		return leads(t.Elem())
	case reflect.Struct:
		for field := range t.Fields() {
			if leads(field.Type) {
				return true
			}
		}
		return false
	default:
		return k > reflect.Complex128
	}
}

// A text without a place to split it has as many ids in scratch space as characters.
func TestSentencePiece_MemoryIsBounded(t *testing.T) {
	for kind := range uint64(4) {
		e := loadModel(t, tokentest.SentencePiece(tokentest.SentencePieceOptions{Kind: kind + 1,
			Pieces: []tokentest.Piece{{Text: "a", Score: -1}, {Text: "ab", Score: -2}}})).NewEncoder()
		e.Encode(nil, bytes.Repeat([]byte("a"), workerMemory/4))
		if n := held(t, reflect.ValueOf(e)); n > workerMemory {
			t.Errorf("kind %d: an encoder holds %d bytes after a long text, more than %d", kind+1, n, workerMemory)
		}
	}
}

func TestEncoder_MemoryIsBounded(t *testing.T) {
	texts := tokentest.HostileTexts(5 << 18)
	models := []*Model{mustLoadFile(t, randomSpm(rand.New(rand.NewPCG(1, 7))).object(), Options{})}
	for _, name := range Builtin() {
		models = append(models, load(t, name))
	}
	for _, m := range models {
		e := m.NewEncoder()
		var ids []int32
		for kind, text := range texts {
			ids = e.Encode(ids[:0], text)
			if n := held(t, reflect.ValueOf(e)); n > workerMemory {
				t.Fatalf("%s: an encoder holds %d bytes after a text of kind %s, more than %d", m.Name(), n, kind, workerMemory)
			}
		}
	}
}
