package definition_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"loaderd/tokenizer/internal/definition"
	"loaderd/tokenizer/internal/tokentest"
)

// Hostile files result in an error, without using disproportionate memory.
func TestFromJSON_HostileFilesAreErrors(t *testing.T) {
	whole := string(tokentest.JSON(t, smallFile(tokentest.ABC...)))
	replaced := func(from, to string) string {
		if !strings.Contains(whole, from) {
			t.Fatalf("no %s in the file", from)
		}
		return strings.Replace(whole, from, to, 1)
	}
	token := func(content string) string {
		return `{"id":0,"content":` + string(tokentest.JSON(t, content)) +
			`,"single_word":false,"lstrip":false,"rstrip":false,"normalized":false,"special":false}`
	}
	many := func(n int, one func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = one(i)
		}
		return strings.Join(parts, ",")
	}
	for name, c := range map[string]struct{ data, says string }{
		"deep lists":      {strings.Repeat("[", 1<<20), "depth"},
		"deep normalizer": {replaced(`"normalizer":null`, `"normalizer":`+strings.Repeat(`{"a":`, 1<<20)), "depth"},
		"deep sequence": {replaced(`"normalizer":null`, `"normalizer":`+
			strings.Repeat(`{"type":"Sequence","normalizers":[`, 4000)+`{"type":"No"}`+strings.Repeat(`]}`, 4000)), "No"},
		"deep vocab": {replaced(`"a":97`, `"a":`+strings.Repeat("[", 1<<20)), "depth"},
		"huge normalizer": {replaced(`"normalizer":null`, `"normalizer":{"type":"`+strings.Repeat("x", 8<<20)+`"}`),
			"at most"},
		"huge added token": {replaced(`"added_tokens":[]`, `"added_tokens":[`+token(strings.Repeat("x", 8<<20+1))+`]`),
			"at most"},
		"many added tokens": {replaced(`"added_tokens":[]`, `"added_tokens":[`+
			many(20_000, func(i int) string { return token(strings.Repeat("x", 500) + fmt.Sprint(i)) })+`]`), "at most"},
		"id of 2^31":          {replaced(`"a":97`, `"a":2147483648`), "integer"},
		"id of 2^64":          {replaced(`"a":97`, `"a":18446744073709551616`), "integer"},
		"id with an exponent": {replaced(`"a":97`, `"a":9e1`), "integer"},
		"id is not a number":  {replaced(`"a":97`, `"a":NaN`), "invalid"},
		"id without an end":   {replaced(`"a":97`, `"a":`+strings.Repeat("9", 1<<20)), "integer"},
		"token twice":         {replaced(`"a":97`, `"a":97,"a":97`), `/model/vocab has the name "a" twice`},
		"long token twice":    {replaced(`"a":97`, strings.Repeat(`"`+strings.Repeat("x", 9000)+`":97,`, 2)+`"a":97`), "twice"},
		"field twice":         {replaced(`"normalizer":null`, `"normalizer":null,"normalizer":null`), `has the name "normalizer" twice`},
		"half a surrogate":    {replaced(`"a":97`, `"a\ud800":97`), "surrogate"},
		"invalid UTF-8":       {replaced(`"a":97`, "\"a\xff\":97"), "UTF-8"},
		"unknown field":       {replaced(`"normalizer":null`, `"normaliser":null`), "normaliser"},
		"unknown version":     {replaced(`"version":"1.0"`, `"version":"2.0"`), "version"},
		"merge of nothing":    {replaced(`"merges":[`, `"merges":[" b",`), "merge 0"},
		"merge of itself":     {replaced(`"merges":[`, `"merges":["ab ab",`), "merge 0"},
		"merges are a string": {replaced(`"merges":[`, `"merges":"","x":[`), "merges"},
		"model twice removed": {`{"model":{"model":{}}}`, "vocab"},
		"model is a list":     {replaced(`"model":{`, `"model":[],"x":{`), "model"},
		"added is an object":  {replaced(`"added_tokens":[]`, `"added_tokens":{}`), "added_tokens"},
		"added without flags": {replaced(`"added_tokens":[]`, `"added_tokens":[{"id":1,"content":"x"}]`), "missing"},
		"added flag is a word": {replaced(`"added_tokens":[]`, `"added_tokens":[`+strings.Replace(token("x"), "false", `"no"`,
			1)+`]`), "added_tokens[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := definition.FromJSON(strings.NewReader(c.data))
			runtime.ReadMemStats(&after)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want one that contains %q", err, c.says)
			} else if len(err.Error()) > 2000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20+uint64(20*len(c.data)) {
				t.Errorf("%d bytes are allocated for a file of %d", took, len(c.data))
			}
		})
	}
}

// zeros is an endless file.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte{' '}, len(p))), nil }

func TestFromJSON_SizeIsBounded(t *testing.T) {
	if _, err := definition.FromJSON(zeros{}); err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("error %v", err)
	}
}
