package demo

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"loaderd/internal/humanize"
	"loaderd/internal/stats"
	"loaderd/loader/plan"
	"loaderd/packonline"
)

// Summary is the result of a demo. Other programs read its JSON: fields may be added, but no field may change its
// name or meaning.
type Summary struct {
	Complete bool   `json:"complete"` // every step was read; false after an early stop
	From     string `json:"from"`
	// format of the documents; empty: detected per file
	Format     string `json:"format,omitempty"`
	Tokenizer  string `json:"tokenizer"`
	Method     string `json:"method"`
	RowLengths []int  `json:"row_lengths"`
	StepRows   []int  `json:"step_rows"`
	Readers    int    `json:"readers"`
	// the ranks read the same steps with the same shapes, and together every token once
	ReadersAgreed      bool    `json:"readers_agreed"`
	Documents          int64   `json:"documents"` // published
	LeftOut            int64   `json:"left_out"`  // files and documents without text, or too large
	TextBytes          int64   `json:"text_bytes"`
	Packed             int64   `json:"documents_packed"`
	Duplicates         int64   `json:"duplicate_documents"`
	Undecoded          int64   `json:"undecodable_documents"`
	Tokens             int64   `json:"tokens"`          // of packed documents
	TokensRead         int64   `json:"tokens_read"`     // by all readers, without padding
	Dropped            int64   `json:"dropped_tokens"`  // intentionally
	Repeated           int64   `json:"repeated_tokens"` // intentionally
	Steps              uint64  `json:"steps"`           // read by all
	Rows               int64   `json:"rows"`
	PaddingRatio       float64 `json:"padding_ratio"`
	TruncationRatio    float64 `json:"truncation_ratio"`
	AgeMax             int64   `json:"age_max"`
	Seconds            float64 `json:"seconds"`
	FirstBatchSeconds  float64 `json:"first_batch_seconds"` // from the start of the command; 0 without a batch
	TokensPerSecond    float64 `json:"tokens_per_second"`
	TextBytesPerSecond float64 `json:"text_bytes_per_second"`
	PeakMemory         int64   `json:"peak_memory_bytes"` // resident, of the process
	Page               string  `json:"page"`              // address of the live page
	Flight             string  `json:"flight"`
	NATS               string  `json:"nats"`
	Folder             string  `json:"folder"`

	link  string // opens the live page once
	whole bool   // documents that fit into a row are not split
}

// Summary returns the summary of a job that has ended.
func (j *Job) Summary() Summary {
	f, progress := j.Snapshot(), j.progress()
	s := f.Stats
	c := j.Config.Plan
	sum := Summary{
		Tokenizer: j.Config.Tokenizer.Name, Method: c.Packing.Method, RowLengths: c.Packing.Buckets,
		StepRows: c.Steps.RowsPerBucket(c.Packing.Buckets), Readers: j.World, Documents: f.Offered,
		Packed: s.Documents, Duplicates: s.Skipped.Count(plan.SkipDuplicate),
		Undecoded: s.Skipped.Count(plan.SkipUndecodable),
		Tokens:    s.Tokens, TokensRead: f.Tokens,
		Dropped: s.Dropped, Repeated: s.Repeated, Steps: f.StepsRead, Rows: s.Rows, AgeMax: s.MaxAge,
		PaddingRatio: stats.PaddingShare(s), TruncationRatio: stats.TruncatedShare(s),
		Seconds: f.Elapsed.Seconds(), FirstBatchSeconds: time.Duration(j.firstBatch.Load()).Seconds(),
		TokensPerSecond: f.MeanRates.Tokens,
		PeakMemory:      peakMemory(), Folder: j.Config.Stream.Dir, whole: keepsWhole(c.Packing),
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	sum.From, sum.Format = j.documents.Description, string(j.documents.Format)
	sum.Complete, sum.ReadersAgreed = j.complete, j.complete
	if j.daemon != nil {
		sum.link = j.freshLink()
		sum.Page, sum.Flight, sum.NATS = j.daemon.PageURL(), j.daemon.FlightURI(), j.daemon.Store().ClientURL()
		sum.TextBytes, sum.LeftOut = progress.OfferedBytes, progress.LeftOut
		if sum.Seconds > 0 {
			sum.TextBytesPerSecond = float64(sum.TextBytes) / sum.Seconds
		}
	}
	return sum
}

// keepsWhole reports whether a packing splits only documents that are longer than its longest row.
func keepsWhole(c packonline.Config) bool {
	switch c.Method {
	case "bucket", "bfd", "ffd":
		return c.Atom >= 1
	case "splice":
		return c.Atom >= 1 && c.Splice.Fill == "exact"
	}
	return false
}

// WriteJSON writes one JSON object.
func (s Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	if err := e.Encode(s); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// WriteText writes the summary for the user, and the next steps: reading this demo's steps if it stays, else starting
// a daemon.
func (s Summary) WriteText(w io.Writer, stays bool) error {
	var b strings.Builder
	line := func(label, value, more string) { fmt.Fprintf(&b, "  %-12s %-12s %s\n", label, value, more) }
	megabytes := func(v float64) string { return fmt.Sprintf("%.1f MB", v/1e6) }
	if !s.Complete {
		fmt.Fprintf(&b, "Stopped early. Up to here:\n\n")
	}
	line("documents", humanize.Count(s.Documents),
		fmt.Sprintf("%s of text, %s tokens (%s)", megabytes(float64(s.TextBytes)),
			humanize.Short(float64(s.Tokens)), s.Tokenizer))
	if s.LeftOut > 0 {
		line("left out", humanize.Count(s.LeftOut), "files without text: empty, binary or hidden")
	}
	line("steps", humanize.Count(s.Steps), fmt.Sprintf("of %s rows of %s tokens: %s rows", humanize.Range(s.StepRows),
		humanize.Range(s.RowLengths),
		humanize.Count(s.Rows)))
	line("padding", fmt.Sprintf("%.3f %%", 100*s.PaddingRatio), "of all tokens of the rows, the last step's included")
	split := "of the documents are split over rows"
	if s.whole && s.TruncationRatio > 0 {
		split += ": those longer than a row;"
	}
	line("truncated", fmt.Sprintf("%.1f %%", 100*s.TruncationRatio), split)
	if s.whole {
		line("", "", "none that fits into one is")
	}
	line("oldest", humanize.Count(s.AgeMax), "documents arrived, at most, while one waited")
	line("speed", humanize.Short(s.TokensPerSecond)+" tok/s", fmt.Sprintf("%s/s of text, over all of the %.1f s",
		megabytes(s.TextBytesPerSecond), s.Seconds))
	if s.FirstBatchSeconds > 0 {
		line("first batch", fmt.Sprintf("%.2f s", s.FirstBatchSeconds), "after the start")
	}
	line("memory", megabytes(float64(s.PeakMemory)), "resident at the peak, all in one process")
	if s.ReadersAgreed {
		line("readers", strconv.Itoa(s.Readers), "agreed on every step, and got every token once")
	}
	switch {
	case !s.Complete:
	case stays:
		fmt.Fprintf(&b, "\nStill serving. The live page is at %s\n\nThe same steps from Python (pip install pyarrow "+
			"numpy):\n\n%s\nctrl-C ends it.\n",
			cmp.Or(s.link, s.Page), snippet(s.Flight, s.Folder, s.Readers))
	default:
		format := ""
		if s.Format != "" {
			format = "--format " + s.Format + " "
		}
		fmt.Fprintf(&b, `
A daemon of your own, and documents for it:

  loaderd serve --data-dir ./loaderd-data
  loaderd publish %s%s

Its steps from Python (pip install pyarrow numpy). loaderd demo --stay has the
same for the steps of the demo itself.

%s`, format, s.From, snippet("grpc://127.0.0.1:8815", "loaderd-data", s.Readers))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// snippet returns code that reads a rank's steps with pyarrow, with the token of a data folder.
func snippet(uri, dir string, world int) string {
	return fmt.Sprintf(`  import json
  import pyarrow.flight as flight

  token = open("%s/flight.token", "rb").read().strip()
  options = flight.FlightCallOptions(headers=[(b"authorization", b"Bearer " + token)])
  client = flight.connect("%s")
  ticket = {"rank": 0, "world": %d, "step": 0}
  for chunk in client.do_get(flight.Ticket(json.dumps(ticket)), options):
      meta = json.loads(chunk.app_metadata.to_pybytes())
      ids = chunk.data["input_ids"].flatten().to_numpy()
      ids = ids.reshape(meta["rows"], meta["bucket"])
      print("step", meta["step"], ids.shape, ids[0, :8])
`, filepath.ToSlash(dir), uri, world)
}
