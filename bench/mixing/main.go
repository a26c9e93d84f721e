// Mixing is loaderd's side of the comparison of mixtures. It plans a run of several sources from the lengths of their
// documents, and writes when each document was taken, and the contents of the steps.
//
//	mixing -taken FILE -steps FILE < request.json
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"

	"loaderd/bench/record"
	"loaderd/internal/config"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planner"
	"loaderd/loader/planrecord"
)

// request is a run. Sources are named s00, s01, ... in its order.
type request struct {
	Weights [][]float64 `json:"weights"` // of all sources: at first, and after each change
	Changes []int64     `json:"changes"` // tokens taken before each change
	Lengths [][]int32   `json:"lengths"` // of the documents of each source, tokens
	Tokens  int64       `json:"tokens"`  // tokens to take; 0: all
	// of sources that were sealed before the run began; 0 for live sources, which are read in publishing order
	Epochs  int    `json:"epochs"`
	Block   int    `json:"block"`
	Restart bool   `json:"restart"` // the planner is saved and restored at each change
	Seed    uint64 `json:"seed"`
}

// result is printed as JSON.
type result struct {
	Documents int     `json:"documents"`
	CPU       float64 `json:"cpu_seconds"`
}

func main() {
	runtime.GOMAXPROCS(1)
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "mixing:", err)
		os.Exit(1)
	}
}

func run(args []string, stdin io.Reader, stdout io.Writer) error {
	f := flag.NewFlagSet("mixing", flag.ContinueOnError)
	taken := f.String("taken", "",
		"`file` for source and document (from 0) as they were taken: pairs of uint32, little endian")
	steps := f.String("steps", "",
		"`file` for source, document and tokens of the pieces in the steps: triples of the same kind")
	if err := f.Parse(args); err != nil {
		return err
	}
	var q request
	if err := json.NewDecoder(stdin).Decode(&q); err != nil {
		return fmt.Errorf("read the request: %w", err)
	}
	if len(q.Weights) != len(q.Changes)+1 || slices.ContainsFunc(q.Weights, func(w []float64) bool {
		return len(w) != len(q.Lengths)
	}) {
		return errors.New("want a weight for every source, at first and behind each change")
	}
	m := &mixer{request: q}
	var closing []func() error
	for _, x := range []struct {
		path string
		into **bufio.Writer
	}{{*taken, &m.taken}, {*steps, &m.steps}} {
		if x.path == "" {
			continue
		}
		file, err := os.Create(x.path)
		if err != nil {
			return err
		}
		w := bufio.NewWriterSize(file, 1<<20)
		*x.into = w
		closing = append(closing, w.Flush, file.Close)
	}
	before := record.ProcessorTime()
	n, err := m.mix()
	if err != nil {
		return err
	}
	r := result{Documents: n, CPU: (record.ProcessorTime() - before).Seconds()}
	for _, end := range closing {
		err = errors.Join(err, end())
	}
	return errors.Join(err, json.NewEncoder(stdout).Encode(r))
}

// mixer plans a run.
type mixer struct {
	request
	header       planrecord.Header
	applier      *planner.Applier
	taken, steps *bufio.Writer // nil if not requested
}

func name(source int) string { return fmt.Sprintf("s%02d", source) }

// begin creates the run with the default configuration: rows of 2,048 tokens, 64 per step.
func (m *mixer) begin() (err error) {
	c := config.Default().Plan
	c.Packing.Buckets = []int{2048}
	c.Seed, c.Sources, c.Mix = m.Seed, map[string]mixture.Source{},
		mixture.Mix{OnDry: mixture.DryWait, End: mixture.EndFirst}
	for i, w := range m.Weights[0] {
		c.Sources[name(i)] = mixture.Source{Weight: w, Epochs: mixture.Epochs(max(m.Epochs, 1)), Block: m.Block}
		b := plan.SourceBegin{Name: name(i), Start: 1}
		if m.Epochs > 0 {
			b.Sealed, b.Last = true, uint64(len(m.Lengths[i]))
		}
		m.header.Sources = append(m.header.Sources, b)
	}
	m.header.Config = c
	m.applier, err = planner.NewApplier(m.header)
	return err
}

// mix plans until the requested tokens are taken or no document is left. It returns the number of documents.
func (m *mixer) mix() (documents int, err error) {
	if err := m.begin(); err != nil {
		return 0, err
	}
	for changed := 0; m.Tokens == 0 || m.applier.UsedTokens < m.Tokens; documents++ {
		if changed < len(m.Changes) && m.applier.UsedTokens >= m.Changes[changed] {
			changed++
			if err := m.change(m.Weights[changed]); err != nil {
				return documents, err
			}
		}
		source, sequence, ok := m.applier.Planner.NextDocument()
		if !ok || sequence > uint64(len(m.Lengths[source])) {
			break
		}
		if m.taken != nil {
			m.write(m.taken, uint32(source), uint32(sequence-1))
		}
		ready, err := m.applier.AddDocument(plan.Arrival{Source: source, Sequence: sequence,
			Length: int(m.Lengths[source][sequence-1])})
		if err != nil {
			return documents, err
		}
		m.emit(ready.Steps)
	}
	return documents, nil
}

// change changes the weights of the sources, as a plan record does.
func (m *mixer) change(weights []float64) error {
	c := mixture.Change{Weights: map[string]float64{}}
	for i, w := range weights {
		c.Weights[name(i)] = w
	}
	m.applier.Record(planrecord.Mix{Arrival: m.applier.Planner.Clock(), Change: c})
	if m.Restart {
		state, err := planrecord.DecodeCheckpoint(m.applier.Checkpoint("", planrecord.Tail{}).Encode())
		if err != nil {
			return err
		}
		fed := m.applier.UsedTokens
		if m.applier, err = planner.Restore(m.header, state); err != nil {
			return err
		}
		m.applier.UsedTokens = fed
	}
	return m.applier.ApplyPending(func(r planner.Ready) error {
		m.emit(r.Steps)
		return nil
	})
}

// emit writes the spans of steps.
func (m *mixer) emit(steps []plan.Step) {
	if m.steps == nil {
		return
	}
	for _, s := range steps {
		for _, row := range s.Rows {
			for _, p := range row {
				m.write(m.steps, uint32(plan.RefSource(p.Doc)), uint32(plan.RefSequence(p.Doc)-1), uint32(p.Length))
			}
		}
	}
}

// write appends numbers; an error is reported when the writer is flushed.
func (m *mixer) write(w *bufio.Writer, numbers ...uint32) {
	var b [12]byte
	for i, n := range numbers {
		binary.LittleEndian.PutUint32(b[4*i:], n)
	}
	_, _ = w.Write(b[:4*len(numbers)])
}
