package demo

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"loaderd/internal/config"
	"loaderd/internal/goldentest"
	"loaderd/packonline"
)

// If the summary states that no document that fits into a row is split, that is true.
func TestSummary_SplitDocumentsClaimIsTrue(t *testing.T) {
	for _, method := range packonline.Methods() {
		t.Run(method, func(t *testing.T) {
			c := config.Default().Plan.Packing
			c.Method, c.Buckets, c.Pool, c.MaxAge = method, []int{64}, 32, 100
			if packonline.IsMultiBucket(method) {
				c.Buckets = []int{16, 32, 64}
			}
			p, err := packonline.New(c)
			if err != nil {
				t.Fatal(err)
			}
			var rows packonline.Rows
			draw, long := rand.New(rand.NewPCG(1, 2)), int64(0)
			for i := range 2000 {
				n := 1 + draw.Int32N(90)
				if n > 64 {
					long++
				}
				rows.Reset()
				p.Add(packonline.Doc{Seq: uint64(i + 1), Length: n}, &rows)
			}
			p.Flush(&rows)
			truncated := p.Counts().Truncated
			if keepsWhole(c) && truncated != long {
				t.Errorf("%d documents are split, %d are longer than a row, which the demo denies", truncated, long)
			}
			var text strings.Builder
			s := Summary{TruncationRatio: float64(truncated) / 2000, text: textValues{whole: keepsWhole(c)}}
			if err := s.WriteText(&text, false); err != nil {
				t.Fatal(err)
			}
			said := strings.Contains(text.String(), "none that fits into one is") &&
				strings.Contains(text.String(), fmt.Sprintf(
					"%.1f %%       of the documents are split over rows: those longer than a row;", float64(truncated)/20))
			if said != keepsWhole(c) {
				t.Errorf("the demo says\n%s", text.String())
			}
		})
	}
}

// someSummary returns the summary of a demo with two readers.
func someSummary() Summary {
	return Summary{Complete: true, From: "/usr/local/go/src", Format: "text", Tokenizer: "gpt2", Method: "bucket",
		RowLengths: []int{2048}, StepRows: []int{64}, Readers: 2,
		ReadersAgreed: true, Documents: 12_345, LeftOut: 67, TextBytes: 89_012_345, Packed: 12_300, Duplicates: 45,
		Tokens: 23_456_789, TokensRead: 23_456_700,
		Dropped: 89, Repeated: 0, Steps: 179, Rows: 11_456, PaddingRatio: 0.00123, TruncationRatio: 0.2345, AgeMax: 4096,
		Seconds: 12.5, FirstBatchSeconds: 1.25,
		TokensPerSecond: 1_876_543.2, TextBytesPerSecond: 7_120_987.6, PeakMemory: 512 << 20,
		Recovery: Recovery{Kills: []Kill{{Process: "rank", Step: 20, Resumed: 16},
			{Process: "daemon", Step: 40, Resumed: 40, Seconds: 0.93}}, ComparedBytes: 143_654_912},
		Page:   "http://127.0.0.1:4713",
		Flight: "grpc://127.0.0.1:4711", NATS: "nats://127.0.0.1:4712",
		Folder: "/tmp/demo", text: textValues{whole: true}}
}

// TestSummary_GoldenOutput compares summaries with golden files.
func TestSummary_GoldenOutput(t *testing.T) {
	stopped := someSummary()
	stopped.Kills = stopped.Kills[:1]
	stopped.Complete, stopped.ReadersAgreed, stopped.LeftOut, stopped.FirstBatchSeconds, stopped.text.whole = false, false,
		0, 0, false
	stopped.RowLengths, stopped.StepRows = []int{1024, 16384}, []int{256, 16}
	for name, write := range map[string]func(io.Writer) error{
		"summary.txt":         func(w io.Writer) error { return someSummary().WriteText(w, false) },
		"summary-stays.txt":   func(w io.Writer) error { return someSummary().WriteText(w, true) },
		"summary-stopped.txt": func(w io.Writer) error { return stopped.WriteText(w, false) },
		"summary-nothing.txt": func(w io.Writer) error { return Summary{}.WriteText(w, false) },
		"summary.json":        func(w io.Writer) error { return someSummary().WriteJSON(w) },
	} {
		t.Run(name, func(t *testing.T) { goldentest.Compare(t, name, write) })
	}
}

var errWrite = errors.New("no room")

type fullWriter struct{}

func (fullWriter) Write([]byte) (int, error) { return 0, errWrite }

func TestSummary_ReturnsWriteErrors(t *testing.T) {
	if err := (Summary{}).WriteText(fullWriter{}, false); !errors.Is(err, errWrite) {
		t.Errorf("text: %v", err)
	}
	if err := (Summary{}).WriteJSON(fullWriter{}); !errors.Is(err, errWrite) {
		t.Errorf("JSON: %v", err)
	}
}
