package docstream

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"loaderd/stream"
)

// For any headers, a field is the value under the exact name, else under the first name that differs only in case.
// The headers do not change.
func TestHeaderFields_MatchAnyCase(t *testing.T) {
	forms := []func(string) string{
		func(s string) string { return s }, strings.ToLower, strings.ToUpper,
		func(s string) string { return strings.ReplaceAll(strings.ToLower(s), "k", "\u212a") }, // the Kelvin sign folds to k
	}
	names := append(slices.Clone(knownHeaders), "Nats-Expected-Stream", "X-Other")
	r := rand.New(rand.NewPCG(3, 1))
	for range 5000 {
		header := nats.Header{}
		for range r.IntN(5) {
			header[forms[r.IntN(len(forms))](names[r.IntN(len(names))])] = [][]string{nil, {}, {"a", "b"}, {"c"}}[r.IntN(4)]
		}
		before := maps.Clone(header)
		f := newHeaderFields(header)
		for _, name := range knownHeaders {
			if got, want := f.get(name), sought(header, name); got != want {
				t.Fatalf("%s of %v is %q, want %q", name, header, got, want)
			}
		}
		if !maps.EqualFunc(header, before, slices.Equal) {
			t.Fatalf("the headers are %v, were %v", header, before)
		}
	}
}

// sought looks up a field by comparing every header's name.
func sought(header nats.Header, name string) string {
	values, exact := header[name]
	for _, other := range slices.Backward(slices.Sorted(maps.Keys(header))) {
		if !exact && strings.EqualFold(other, name) {
			values = header[other]
		}
	}
	return strings.Join(values[:min(1, len(values))], "")
}

// The fields of loaderd's own producers are the headers themselves, without a copy.
func TestHeaderFields_NoCopyForLoaderdProducers(t *testing.T) {
	header := nats.Header{stream.HeaderContentType: {stream.TypeTokens}, stream.HeaderTokenizer: {"sha256:1"},
		nats.MsgIdHdr: {"a"}, "Nats-Expected-Stream": {"b"}}
	if n := testing.AllocsPerRun(100, func() { newHeaderFields(header) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
