package loader_test

import (
	"bytes"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"

	"loaderd/loader/backend"
	"loaderd/loader/document"
	"loaderd/loader/plan"
	"loaderd/loader/state"
	"loaderd/packonline/similarity"
)

// kept is a log that a test reads while it is written.
type kept struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (k *kept) Write(b []byte) (int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.b.Write(b)
}

func (k *kept) count(s string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return strings.Count(k.b.String(), s)
}

// A run whose retriever finds no hints in a full pool of documents logs a warning with the remedy, once per start. A
// run with hints in a single document does not. The method's counts are the same after a restart.
func TestHints_WarnsOfDocumentsWithoutHints(t *testing.T) {
	const silence = "no document has retrieval hints"
	for retriever, header := range map[string]string{"repo": "Loaderd-Path", "dense": "Loaderd-Embedding"} {
		for _, says := range []bool{false, true} {
			c := config("splice")
			c.Packing.Pool, c.Packing.Splice.Retriever = 20, retriever
			w := newFixture(c)
			var log kept
			w.edges = func(e *backend.Backends) { e.Log = slog.New(slog.NewTextHandler(&log, nil)) }
			for i, n := range someLengths(3, 400) {
				d := document.Document{Content: document.Content{Tokens: documentTokens(uint64(i+1), n)},
					PackingHints: plan.PackingHints{Hint: &similarity.Hint{}}}
				if says && i == 10 {
					d.Hint = hintOf(1)
				}
				w.docs.publish(d)
			}
			var counted map[string]int64
			for start := range 2 {
				run, stop := w.start(t)
				read(t, run, state.RankID{World: 1}, 0, 12) // more documents than the pool holds
				packing := func() map[string]int64 { return run.Stats().PackingCounters }
				eventually(t, func() bool {
					planned := run.Stats().Planned == 16 && len(packing()) > 0 && (counted == nil || maps.Equal(packing(), counted))
					return planned && (says || log.count(silence) > start)
				})
				if warnings := log.count(silence); says && warnings > 0 || !says &&
					(warnings != start+1 || log.count(header) != warnings) {
					t.Errorf("%s, one document says something: %v: %d warnings after %d starts", retriever, says, warnings, start+1)
				}
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				counted = packing()
			}
		}
	}
}
