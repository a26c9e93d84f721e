package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/flightclient"
	"loaderd/internal/natstest"
	"loaderd/loader/mixture"
	"loaderd/stream"
)

// dead waits until the daemon's status counts the given number of dead letters. It checks that the metrics do so too.
func dead(t *testing.T, d *Daemon, letters int64, metrics ...string) api.DeadStatus {
	t.Helper()
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var s api.Status
	natstest.Eventually(t, fmt.Sprint(letters, " letters are counted"), func() bool {
		if err := client.Do(t.Context(), "status", map[string]any{}, &s); err != nil {
			t.Fatal(err)
		}
		counted := int64(0)
		for _, r := range s.Dead.Reasons {
			counted += r.Letters
		}
		return counted >= letters
	})
	page := get(t, d.http.url()+"/metrics")
	for _, metric := range metrics {
		if !strings.Contains(page, metric) {
			t.Errorf("the metrics lack %s", metric)
		}
	}
	return s.Dead
}

func badDocument(subject string) stream.Message {
	return stream.Message{Subject: subject, ContentType: stream.TypeJSON, Data: []byte("{")}
}

// Dead letters appear in the metrics and in the status, by reason and with samples.
func TestDLQ_MetricsAndStatusByReason(t *testing.T) {
	d := start(t, settings(t))
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	natstest.Publish(t, d.Store(), badDocument("docs.a"), badDocument("docs.b"),
		stream.Message{Subject: "docs.a", Data: []byte("text")})
	s := dead(t, d, 3, `loaderd_dead_letters_held{reason="NO_TOKENIZER",run="default",source="docs"} 1`,
		`loaderd_dead_letters_held{reason="INVALID_JSON",run="default",source="docs"} 2`)
	if s.Total != 3 || len(s.Reasons) != 2 || s.Reasons[0].Reason != "INVALID_JSON" || s.Reasons[0].Letters != 2 ||
		len(s.Reasons[0].Samples) != 2 {
		t.Fatalf("the status has %+v", s)
	}
	shown := map[string]uint64{} // newest letter first, in any order of the workers
	for i, sample := range s.Reasons[0].Samples {
		if i > 0 && sample.Letter >= s.Reasons[0].Samples[i-1].Letter {
			t.Errorf("sample %d is letter %d", i, sample.Letter)
		}
		shown[sample.Subject] = sample.Sequence
	}
	if shown["docs.a"] != 1 || shown["docs.b"] != 2 {
		t.Errorf("the status has %+v", s)
	}
}

// Dead letters of several sources appear too, also those of a source that was added to the running run.
func TestDLQ_ReportsLettersOfAddedSources(t *testing.T) {
	c := settings(t)
	c.Plan.Sources = map[string]mixture.Source{"web": {Weight: 1, Epochs: 1}}
	c.Plan.Mix.OnDry, c.Plan.Mix.End = mixture.DryWait, mixture.EndAll
	d := start(t, c)
	defer stop(d, time.Minute) //nolint:errcheck // the test is over
	natstest.Publish(t, d.Store(), badDocument("docs.web"))
	dead(t, d, 1, `loaderd_dead_letters_held{reason="INVALID_JSON",run="default",source="web"} 1`)
	client, err := flightclient.Open(d.FlightURI(), flightclient.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.Mix(t.Context(), "",
		api.MixChange{Add: map[string]json.RawMessage{"late": json.RawMessage(`{"weight":100}`)}}); err != nil {
		t.Fatal(err)
	}
	natstest.Publish(t, d.Store(), badDocument("docs.late"), badDocument("docs.late"))
	s := dead(t, d, 3, `loaderd_dead_letters_held{reason="INVALID_JSON",run="default",source="late"} 2`)
	if s.Total != 3 || len(s.Reasons) != 1 || s.Reasons[0].Samples[0].Source != "late" ||
		s.Reasons[0].Samples[2].Source != "web" {
		t.Errorf("the status has %+v", s)
	}
}
