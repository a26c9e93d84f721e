// Package record defines the measurements that one program writes as JSON below docs/results, and another one prints
// as tables of a page.
package record

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"loaderd/internal/relatedness"
)

// Machine is the machine and the time of a measurement.
type Machine struct {
	Processor string `json:"processor"`
	Cores     int    `json:"cores"`
	Load      string `json:"load"` // average of the last minute at the start of the measurement
	Go        string `json:"go"`
	Date      string `json:"date"` // year-month-day
}

// ThisMachine returns the machine that the program runs on, with its current load.
func ThisMachine() Machine {
	m := Machine{Processor: runtime.GOARCH, Cores: runtime.NumCPU(), Load: "unknown", Go: runtime.Version(),
		Date: time.Now().UTC().Format(time.DateOnly)}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "model name" {
				m.Processor = strings.TrimSpace(value)
				break
			}
		}
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(load), " ")
	}
	return m
}

// quietLoad is the load per core up to which a machine counts as quiet.
const quietLoad = .5

// busy reports whether other load on the machine affects times.
func (m Machine) busy() bool {
	load, err := strconv.ParseFloat(m.Load, 64)
	return err == nil && load > quietLoad*float64(m.Cores)
}

// WarnOfLoad writes a warning if this machine is busy. Programs call it before they measure, because they raise the
// load.
func WarnOfLoad(out io.Writer) { ThisMachine().warn(out) }

func (m Machine) warn(out io.Writer) {
	if m.busy() {
		fmt.Fprintf(out, "warning: the machine is busy, a load of %s on %d cores: compare times as ratios only\n",
			m.Load, m.Cores)
	}
}

// String returns a sentence about the machine.
func (m Machine) String() string {
	return fmt.Sprintf("Measured on %s with %s, %d cores of %s, a load of %s.", m.Date, m.Go, m.Cores, m.Processor, m.Load)
}

// Splice is a run of make bench-splice: packings of one corpus.
type Splice struct {
	Machine Machine `json:"machine"`
	Corpus  Corpus  `json:"corpus"`
	Row     int     `json:"row"` // tokens
	Pools   []Pool  `json:"pools"`
}

// Corpus is the packed documents. All figures except times are a function of them.
type Corpus struct {
	Folders   int    `json:"folders"`
	Documents int    `json:"documents"`
	Tokens    int64  `json:"tokens"`
	SHA256    string `json:"sha256"` // of all token ids and paths, in order
}

// Pool is the packings with one pool size.
type Pool struct {
	Pool     int       `json:"pool"`
	MaxAge   int       `json:"max_age"`
	Packings []Packing `json:"packings"`
}

// Packing is the result of one variant. Shares are of 1. Its relatedness is of the rows before the flush.
type Packing struct {
	Variant            string              `json:"variant"`
	Related            relatedness.Metrics `json:"related"`
	PaddingBeforeFlush float64             `json:"padding_before_flush"` // share of the slots
	Padding            float64             `json:"padding"`
	Truncated          float64             `json:"truncated"` // share of the documents
	Dropped            float64             `json:"dropped"`   // share of the tokens
	Oldest             uint32              `json:"oldest"`    // maximum number of documents that arrived while one waited
	PerSecond          float64             `json:"documents_per_second"`
}

// Query is the results of two programs for the same queries: the most related document for each document of a pool.
type Query struct {
	Pool    int    `json:"pool"`
	Library string `json:"library"`
	Theirs  Answer `json:"theirs"`
	Ours    Answer `json:"ours"`
}

// Answer is the speed and the quality of one program.
type Answer struct {
	Retriever string  `json:"retriever"`
	PerSecond float64 `json:"queries_per_second"`
	SameFile  float64 `json:"same_file"` // share of the results from the same file
}

// Median returns the median of values, which it sorts: of an even number the larger one in the middle.
func Median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}

// Write writes a measurement as indented JSON.
func Write(path string, measured any) error {
	b, err := json.MarshalIndent(measured, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", path, err)
	}
	if err := os.WriteFile(path, append(b, '\n'), 0o644); err != nil {
		return fmt.Errorf("write record: %w", err)
	}
	return nil
}

// Read reads a measurement that Write or another program wrote.
func Read(path string, measured any) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read record: %w", err)
	}
	if err := json.Unmarshal(b, measured); err != nil {
		return fmt.Errorf("decode %s: %w", path, err)
	}
	return nil
}
