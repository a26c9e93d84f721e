package cli

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"loaderd/internal/api"
	"loaderd/internal/cli/command"
	"loaderd/internal/flightclient"
	"loaderd/loader/diagnosis"
	"loaderd/loader/fault"
)

// untilStatus waits for a status, and returns it with the exit status of the command.
func (s *site) untilStatus(want func(api.Status) bool) (status api.Status, code int) {
	s.t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		code, stdout, stderr := s.loaderd("status", "--json")
		status = api.Status{}
		if err := json.Unmarshal([]byte(stdout), &status); err == nil && want(status) {
			return status, code
		}
		if time.Now().After(end) {
			s.t.Fatalf("exit status %d: %s%s", code, stdout, stderr)
		}
	}
}

// A filter that rejects everything is the cause of the stall, for the status and for readers, with its expression and
// the remedy. Without it, the same run continues with new documents.
func TestFilter_ThatRejectsEverythingIsNamed(t *testing.T) {
	const where = "tokens > 1000000"
	s := newSite(t)
	stop := s.serve("--run", "strict", "--set", "documents.where="+where, "--set", "serve.stall_timeout=1s")
	s.publishTexts(40)
	status, code := s.untilStatus(func(s api.Status) bool {
		return s.Verdict.Reason == fault.DocumentsFiltered && len(s.Filters) > 0 && s.Filters[0].Documents == 40
	})
	v := status.Verdict
	if code != command.ExitWaiting || v.Health != diagnosis.Waiting || status.Filters[0].Where != where ||
		!strings.HasPrefix(v.Sentence, "Waiting for documents that match the filters") ||
		!strings.Contains(v.Detail, "filters rejected all of the last 40 documents (documents.where: "+where+")") ||
		!strings.Contains(v.Advice, "loaderd filter") {
		t.Errorf("exit status %d: %+v, filters %+v", code, v, status.Filters)
	}
	if err := s.readFailing(); flightclient.Reason(err) != string(fault.DocumentsFiltered) ||
		!strings.Contains(err.Error(), where) || !strings.Contains(err.Error(), "loaderd filter") {
		t.Errorf("a reader gets %v", err)
	}
	s.does("filter", "--where", "")
	s.untilStatus(func(s api.Status) bool { return s.Verdict.Reason != fault.DocumentsFiltered })
	s.publishTexts(80)
	s.does("seal")
	if n := len(s.read()); n == 0 {
		t.Error("no steps without the filter")
	}
	stop()

	// A sealed run whose filter accepts no document ends without a step.
	s.serve("--run", "empty", "--set", "documents.where="+where)
	s.does("seal")
	status, code = s.untilStatus(func(s api.Status) bool { return s.Ended })
	v = status.Verdict
	if code != command.ExitFailing || v.Reason != fault.DocumentsFiltered || !strings.Contains(v.Sentence, where) ||
		!strings.HasPrefix(v.Sentence, "Ended without a step: filters rejected all of the last 120 documents") ||
		!strings.Contains(v.Advice, "new run") {
		t.Errorf("exit status %d: %+v", code, v)
	}
	if steps := s.read(); len(steps) > 0 {
		t.Errorf("%d steps of an empty run", len(steps))
	}
}

// publishTexts publishes n documents.
func (s *site) publishTexts(n int) {
	s.t.Helper()
	files := map[string]string{}
	for i := range n {
		files[fmt.Sprintf("%03d.txt", i)] = strings.Repeat(fmt.Sprintf("Document %d of a filtered run. ", i), 3+i*7%23)
	}
	s.does("publish", "--source", "files", corpusFolder(s.t, files))
}

// readFailing returns the error of a reader.
func (s *site) readFailing() error {
	s.t.Helper()
	client, err := flightclient.Open("grpc://"+s.flight, flightclient.Options{DataDir: s.dir})
	if err != nil {
		s.t.Fatal(err)
	}
	defer client.Close()
	return client.Read(s.t.Context(), api.Ticket{}, func(flightclient.Batch) error { return nil })
}
