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
	Seconds            float64 `json:"seconds"`             // until the last step was read, restarts included
	FirstBatchSeconds  float64 `json:"first_batch_seconds"` // from the start of the command; 0 without a batch
	TokensPerSecond    float64 `json:"tokens_per_second"`
	TextBytesPerSecond float64 `json:"text_bytes_per_second"`
	PeakMemory         int64   `json:"peak_memory_bytes"` // resident, of the daemons that have ended; 0: unknown
	Recovery
	Page   string `json:"page"` // address of the live page
	Flight string `json:"flight"`
	NATS   string `json:"nats"`
	Folder string `json:"folder"`

	text textValues
}

// Recovery is what was killed, and what was read afterwards.
type Recovery struct {
	Kills []Kill `json:"kills"` // in their order
	// bytes that were read again, all of them the same as at the first reading
	ComparedBytes int64 `json:"compared_bytes"`
}

// textValues are only in the text of a summary.
type textValues struct {
	link    string // opens the live page once
	whole   bool   // documents that fit into a row are not split
	program string // that the user can run
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
		FirstBatchSeconds: time.Duration(j.firstBatch.Load()).Seconds(),
		TokensPerSecond:   f.MeanRates.Tokens,
		Folder:            j.Config.Stream.Dir,
		text:              textValues{whole: keepsWhole(c.Packing), program: programName()},
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	sum.Recovery = Recovery{Kills: append([]Kill{}, j.kills...), ComparedBytes: j.record.comparedBytes()}
	sum.From, sum.Format = j.documents.Description, string(j.documents.Format)
	sum.Complete, sum.ReadersAgreed = j.complete, j.complete
	sum.Seconds = cmp.Or(j.readTime, f.Elapsed).Seconds()
	if j.daemon != nil {
		sum.text.link = j.freshLink()
		sum.Page, sum.Flight, sum.NATS = j.daemon.addresses.HTTP, j.daemon.addresses.Flight, j.daemon.nats
		sum.PeakMemory = j.daemon.peak
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
	if s.text.whole && s.TruncationRatio > 0 {
		split += ": those longer than a row;"
	}
	line("truncated", fmt.Sprintf("%.1f %%", 100*s.TruncationRatio), split)
	if s.text.whole {
		line("", "", "none that fits into one is")
	}
	line("oldest", humanize.Count(s.AgeMax), "documents arrived, at most, while one waited")
	line("speed", humanize.Short(s.TokensPerSecond)+" tok/s",
		fmt.Sprintf("%s/s of text, over all of the %.1f s, restarts included", megabytes(s.TextBytesPerSecond), s.Seconds))
	if s.FirstBatchSeconds > 0 {
		line("first batch", fmt.Sprintf("%.2f s", s.FirstBatchSeconds), "after the start")
	}
	if s.PeakMemory > 0 && !stays {
		line("memory", megabytes(float64(s.PeakMemory)), "resident in the daemon, at the peak")
	}
	if s.ReadersAgreed {
		line("readers", strconv.Itoa(s.Readers), "agreed on every step, and got every token once")
	}
	s.writeKills(line)
	switch {
	case !s.Complete:
	case stays:
		fmt.Fprintf(&b, "\nStill serving. The live page is at %s\n\nThe same steps from Python (pip install pyarrow "+
			"numpy):\n\n%s\nctrl-C ends it.\n",
			cmp.Or(s.text.link, s.Page), snippet(s.Flight, s.Folder, s.Readers))
	default:
		format := ""
		if s.Format != "" {
			format = "--format " + s.Format + " "
		}
		fmt.Fprintf(&b, `
Start a daemon, and publish documents to it from another terminal:

  %[1]s serve --data-dir ./loaderd-data
  %[1]s publish %[2]s%[3]s

Its steps from Python (pip install pyarrow numpy). %[1]s demo --stay
has the same for the steps of the demo itself.

%[4]s`, cmp.Or(s.text.program, "loaderd"), format, s.From,
			snippet("grpc://127.0.0.1:8815", "loaderd-data", s.Readers))
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return fmt.Errorf("write summary: %w", err)
	}
	return nil
}

// writeKills reports what was killed, and what the readings after it showed.
func (s Summary) writeKills(line func(label, value, more string)) {
	for _, k := range s.Kills {
		switch k.Process {
		case killedRank:
			line("killed", "a rank", fmt.Sprintf("after %s; the job resumed at its checkpoint, step %d",
				humanize.Things(int(k.Step), "step"), k.Resumed))
		case killedDaemon:
			line("killed", "the daemon", fmt.Sprintf("after %s; a new one served %.1f s later",
				humanize.Things(int(k.Step), "step"), k.Seconds))
		}
	}
	if s.Complete && s.ComparedBytes > 0 {
		line("compared", fmt.Sprintf("%.1f MB", float64(s.ComparedBytes)/1e6),
			"read again after the kills, and by one reader: all the same")
	}
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
