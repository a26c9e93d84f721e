package cli

import (
	"fmt"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"

	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/stream"
	"loaderd/stream/planlog"
)

// alone opens the site's data folder while no daemon runs.
func (s *site) alone() *stream.Store {
	s.t.Helper()
	c := stream.Default()
	c.Dir = s.dir
	store, err := stream.OpenExclusive(s.t.Context(), c, slog.New(slog.DiscardHandler))
	if err != nil {
		s.t.Fatal(err)
	}
	return store
}

// cut truncates a plan to its first records.
func (s *site) cut(run string, records int) {
	s.t.Helper()
	store := s.alone()
	defer store.Close()
	ctx := s.t.Context()
	plan, err := planlog.OpenReadOnly(ctx, store, run)
	if err != nil {
		s.t.Fatal(err)
	}
	var left [][]byte
	for at := range records {
		b, err := plan.Get(ctx, uint64(at+1))
		if err != nil {
			s.t.Fatal(err)
		}
		left = append(left, b)
	}
	if err := store.Own().JetStream().DeleteStream(ctx, "PLAN_"+run); err != nil {
		s.t.Fatal(err)
	}
	empty, err := planlog.Open(ctx, store, run)
	if err == nil {
		err = empty.Append(ctx, 0, left...)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// published publishes documents and returns all steps of the sealed run.
func (s *site) published() []flightclient.Batch {
	s.t.Helper()
	files := map[string]string{}
	for i := range 120 {
		files[fmt.Sprintf("%03d.txt", i)] = strings.Repeat(fmt.Sprintf("This is document %d of a run. ", i), 1+i*7%23)
	}
	s.does("publish", "--source", "files", corpusFolder(s.t, files))
	s.does("seal")
	return s.read()
}

// A run with a truncated plan cannot continue. Its repaired copy continues under another name, for jobs whose
// checkpoints name the original run.
func TestRepair_CopyOfTruncatedPlanContinues(t *testing.T) {
	s := newSite(t)
	stop := s.serve("--run", "whole")
	want := s.published()
	stop()
	if said := s.does("run", "repair", "--run", "whole"); !strings.Contains(said, "is undamaged") {
		t.Errorf("output of repair of an undamaged plan: %s", said)
	}
	s.cut("whole", 5)
	if code, _, stderr := s.loaderd("serve", "--run", "whole"); code != command.ExitFailed ||
		!strings.Contains(stderr, "PLAN_TRUNCATED") ||
		!strings.Contains(stderr, "loaderd run repair") {
		t.Errorf("serve of a plan that is cut short: exit status %d: %s", code, stderr)
	}
	code, stdout, stderr := s.loaderd("run", "repair", "--run", "whole")
	if code != command.ExitFailed || !strings.Contains(stdout, "usable   5 records, with ") ||
		!strings.Contains(stdout, "Steps from ") ||
		!strings.Contains(stderr, "--new") {
		t.Errorf("repair without --new: exit status %d: %s%s", code, stdout, stderr)
	}
	for _, refused := range [][]string{{"--new", "whole"}, {"--new", ""}, {"--new", "a b"}} {
		if code, _, _ := s.loaderd(append([]string{"run", "repair", "--run", "whole"},
			refused...)...); code != command.ExitUsage {
			t.Errorf("repair %v: exit status %d", refused, code)
		}
	}
	if said := s.does("run", "repair", "--run", "whole", "--new", "again"); !strings.Contains(said, "--run again") {
		t.Errorf("output of repair: %s", said)
	}
	stop = s.serve("--run", "again")
	s.does("seal", "--run", "whole") // the name in the checkpoints of jobs
	have := s.read()
	stop()
	for i := range have {
		have[i].Meta.Run = "whole"
	}
	if !reflect.DeepEqual(have, want) {
		t.Errorf("%d steps of the copy differ from the %d that were served", len(have), len(want))
	}
}

// Commands that read a data folder need no configured port, and find the daemon that holds the folder at any address.
func TestAudit_FindsDaemonByDataFolder(t *testing.T) {
	s := newSite(t)
	stop := s.serve("--run", "whole")
	s.published()
	elsewhere := *s
	elsewhere.nats = "127.0.0.1:1" // an address in the configuration at which the daemon does not listen
	elsewhere.does("run", "audit", "--run", "whole")
	stop()
	taken, err := net.Listen("tcp", s.nats)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	s.does("run", "audit", "--run", "whole")
	code, stdout, stderr := s.loaderd("run", "audit", "--run", "whole", "--tokenizer", "cl100k_base")
	if code != command.ExitFailed || stdout != "" || !strings.Contains(stderr, "tokenizer gpt2") ||
		!strings.Contains(stderr, "cl100k_base") {
		t.Errorf("audit with another tokenizer: exit status %d: %s%s", code, stdout, stderr)
	}
}
