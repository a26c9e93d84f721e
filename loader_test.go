// Package loaderd_test shows the promise of loaderd end to end on real parts: real text into a JetStream server,
// through a daemon, out of Flight sockets. The packages below test/ check it in detail.
package loaderd_test

import (
	"reflect"
	"testing"

	"loaderd/internal/api"
	"loaderd/internal/daemontest"
	"loaderd/internal/natstest"
)

// Every token of every document arrives exactly once. The steps are the same for any number of ranks, and after a
// restart in the middle.
func TestLoaderd_EveryTokenArrivesExactlyOnce(t *testing.T) {
	documents := daemontest.GoSource(t, 300)

	// An undisturbed run, read by one rank.
	d := daemontest.Start(t, daemontest.Settings(t, ""))
	daemontest.Publish(t, natstest.URL(d.Store()), documents)
	daemontest.Seal(t, d)
	want := daemontest.ReadAll(t, d.FlightURI(), 1)
	daemontest.CheckTokens(t, want, documents)

	// Two and four ranks read the same steps.
	for _, ranks := range []int{2, 4} {
		if have := daemontest.ReadAll(t, d.FlightURI(), ranks); !reflect.DeepEqual(have, want) {
			t.Errorf("%d ranks read other steps than one", ranks)
		}
	}

	// Another run reads equal documents, which are published while it is read. Its daemon restarts after five steps.
	c := daemontest.Settings(t, "")
	d = daemontest.Start(t, c)
	daemontest.Publish(t, natstest.URL(d.Store()), documents[:100])
	have := daemontest.Read(t, d.FlightURI(), api.Ticket{Steps: 5})
	daemontest.Stop(t, d)
	d = daemontest.Start(t, c)
	daemontest.Publish(t, natstest.URL(d.Store()), documents[100:])
	daemontest.Seal(t, d)
	have = append(have, daemontest.Read(t, d.FlightURI(), api.Ticket{Step: 5})...)
	for i := range have {
		have[i].Meta = api.Metadata{}
	}
	if !reflect.DeepEqual(have, want) {
		t.Error("a restart changed the steps")
	}
}
