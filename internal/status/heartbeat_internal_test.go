package status

import (
	"encoding/json"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"loaderd/internal/api"
	"loaderd/loader"
	"loaderd/loader/census"
	"loaderd/loader/diagnosis"
	"loaderd/loader/state"
)

type noRun struct{}

func (noRun) Stats() loader.Stats        { return loader.Stats{} }
func (noRun) Info() loader.Info          { return loader.Info{} }
func (noRun) Verdict() diagnosis.Verdict { return diagnosis.Verdict{} }
func (noRun) HasWaitingRank() bool       { return false }
func (noRun) Ranks() census.View         { return census.View{} }
func (noRun) Rates() state.Rates         { return state.Rates{} }

// TestHeartbeat_RefusesInvalid checks that heartbeats that no daemon sends are rejected.
func TestHeartbeat_RefusesInvalid(t *testing.T) {
	for _, bad := range []string{``, `[]`, `{}`, `{"name":""}`, `{"name":"a\n"}`, `{"name":"` + strings.Repeat("x", 300) +
		`"}`, `{"name":"a","flight":"\u0000"}`,
		`{"name":"a","reading":[{"job":"j","rank":3,"world":3}]}`, `{"name":"a","reading":[{"job":"j","rank":-1,"world":3}]}`,
		`{"name":"a","reading":[{"job":"j\u0000","rank":0,"world":3}]}`,
		`{"name":"a","reading":[` + strings.Repeat(`{"job":"j","world":1},`, 300) + `{"job":"j","world":1}]}`,
		`{"name":"a","events":[{"text":"` + strings.Repeat("x", 900) + `"}]}`} {
		if w, err := decodeHeartbeat([]byte(bad)); err == nil {
			t.Errorf("%.60s: %+v", bad, w)
		}
	}
	w, err := decodeHeartbeat([]byte(`{"name":"a","reading":[{"job":"j","rank":0,"world":1,"daemon":"somebody else"}]}`))
	if err != nil || w.Reading[0].Daemon != "a" {
		t.Errorf("%+v, %v", w, err)
	}
}

// TestEventLines_UseExistingLogKeys checks that the texts of events name keys of the log.
func TestEventLines_UseExistingLogKeys(t *testing.T) {
	var code strings.Builder
	for _, folder := range []string{"loader", "stream", "arrowout", "internal/daemon", "internal/auth"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			b, err := os.ReadFile(path)
			code.Write(b)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, l := range eventTemplates {
		for _, place := range placeholder.FindAllString(l.text, -1) {
			if key := strconv.Quote(strings.Trim(place, "{}")); !strings.Contains(code.String(), key) {
				t.Errorf("no line has %s, as %q wants", key, l.text)
			}
		}
	}
}

// FuzzHeartbeat checks that a daemon processes any heartbeat, and that its status stays bounded.
func FuzzHeartbeat(f *testing.F) {
	good, _ := json.Marshal(heartbeat{DaemonStatus: api.DaemonStatus{Name: "b", Flight: "grpc://b:1"}, Readers: 1,
		Reading: []api.RankStatus{{Job: "j", World: 1}}, Events: []api.Event{{Kind: "reader", Text: "t"}}})
	f.Add(good)
	f.Add([]byte(`{"name":"a","left":true}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := New(Options{Run: noRun{}, LocalStreams: func() []api.RankStatus {
			return nil
		}, Events: NewEvents("a"), Log: slog.New(slog.DiscardHandler), Name: "a", Bus: silent{}, Flight: func() string {
			return ""
		}})
		w.receiveHeartbeat(b)
		w.receiveHeartbeat(b)
		w.update(w.status.Time)
		if s := w.Status(); len(s.Ranks) > api.MaxRanks || len(s.Events) > api.MaxEvents || len(s.Daemons) > 2 {
			t.Errorf("%d ranks, %d events, %d daemons", len(s.Ranks), len(s.Events), len(s.Daemons))
		}
		if _, err := json.Marshal(w.Status()); err != nil {
			t.Error(err)
		}
	})
}

type silent struct{}

func (silent) Publish([]byte) error                   { return nil }
func (silent) Subscribe(func([]byte)) (func(), error) { return func() {}, nil }
