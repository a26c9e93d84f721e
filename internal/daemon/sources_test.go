package daemon

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/config"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/internal/testscale"
	"loaderd/loader/mixture"
	"loaderd/stream"
)

// A daemon with many sources reads all of them to their ends. Its memory grows little with their number.
func TestSources_MemoryGrowsLittleWithNumber(t *testing.T) {
	sources, documents := testscale.Of(40, 200), 30
	c := settings(t)
	c.Tokenizer, c.Plan.Mix = config.Default().Tokenizer, config.Default().Plan.Mix
	c.Plan.Sources, c.Stream.MaxBytes = map[string]mixture.Source{}, 1<<20
	for i := range sources {
		c.Plan.Sources[fmt.Sprintf("s%03d", i)] = mixture.Source{Weight: 1, Epochs: 1}
	}
	d := start(t, c)
	defer func() {
		if err := stop(d, time.Minute); err != nil {
			t.Error(err)
		}
	}()
	var messages []stream.Message
	for name := range c.Plan.Sources {
		for k := range documents {
			messages = append(messages, stream.Message{Subject: "docs." + name,
				Data: []byte(strings.Repeat(fmt.Sprintf("This is document %d. ", k), 20))})
		}
	}
	natstest.Publish(t, d.Store(), messages...)
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Seal(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	tokens := map[string]int64{}
	if err := client.Read(t.Context(), api.Ticket{}, func(b flightclient.Batch) error {
		for name, n := range b.Meta.Sources {
			tokens[name] += n.Tokens
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if len(tokens) != sources {
		t.Errorf("%d of %d sources have arrived", len(tokens), sources)
	}
	for name, n := range tokens {
		if n != tokens["s000"] {
			t.Errorf("%d tokens of source %s have arrived, %d of s000", n, name, tokens["s000"])
		}
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	t.Logf("%d sources, %d MB of heap", sources, m.HeapAlloc>>20)
	if most := uint64(250+3*sources) << 20; m.HeapAlloc > most { // one encoder uses 13 MB
		t.Errorf("%d sources take %d MB of heap, more than %d", sources, m.HeapAlloc>>20, most>>20)
	}
}
