package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"loaderd/bench/page"
	"loaderd/bench/record"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
)

// maxRecord is larger than any record of these plans, in bytes.
const maxRecord = 1 << 20

// printMixtureSpeed compares planners of 1 to 200 sources with the planner of one document stream. It prints planned
// documents per second, and bytes of the plan relative to the bytes of its tokens.
func printMixtureSpeed(ctx context.Context, b *bench, out io.Writer) error {
	machine := record.ThisMachine()
	var m page.Markdown
	m.Values("sources", "order", "documents", "documents/s", "ratio to one stream", "plan bytes per document",
		"plan bytes / token bytes")
	baseline, err := fastest(b.repeats, func() (*pace, error) { return b.streamPace(ctx) })
	if err != nil {
		return err
	}
	line := func(name, order string, p *pace) {
		m.Values(name, order, thousands(p.documents), thousands(int64(p.speed())),
			fmt.Sprintf("%.2f", p.speed()/baseline.speed()),
			fmt.Sprintf("%.2f", float64(p.planBytes)/float64(p.documents)), percent(p.planShare(), 3))
	}
	line("one document stream", "as published", baseline)
	for _, n := range []int{1, 5, 20, 200} {
		for _, block := range []int{0, mixture.DefaultBlock} {
			p, err := fastest(b.repeats, func() (*pace, error) { return b.mixedPace(ctx, n, block) })
			if err != nil {
				return err
			}
			line(fmt.Sprint(n), map[bool]string{true: "as published", false: "drawn"}[block == 0], p)
		}
	}
	return m.Print(out, machine)
}

// fastest returns the fastest of repeated measurements.
func fastest(repeats int, measure func() (*pace, error)) (best *pace, err error) {
	for range repeats {
		p, err := measure()
		if err != nil {
			return nil, err
		}
		if best == nil || p.planning < best.planning {
			best = p
		}
	}
	return best, nil
}

// pace is a planner's speed and the size of its plan.
type pace struct {
	documents int
	planning  time.Duration // processor time, without encoding the steps
	tokens    int64         // in steps
	planBytes int64

	started time.Duration
}

func (p *pace) speed() float64 { return float64(p.documents) / p.planning.Seconds() }

// planShare returns the plan's bytes relative to those of its tokens, 4 bytes each.
func (p *pace) planShare() float64 { return float64(p.planBytes) / float64(4*p.tokens) }

func (p *pace) start() { p.started = record.ProcessorTime() }
func (p *pace) stop()  { p.planning += record.ProcessorTime() - p.started }

// count counts steps, with the clock stopped.
func (p *pace) count(steps []plan.Step) error {
	if len(steps) == 0 {
		return nil
	}
	p.stop()
	defer p.start()
	for i := range steps {
		records, err := planrecord.EncodeStep(&steps[i], maxRecord)
		if err != nil {
			return err
		}
		for _, r := range records {
			p.planBytes += int64(len(r))
		}
		for _, row := range steps[i].Rows {
			for _, x := range row {
				p.tokens += int64(x.Length)
			}
		}
	}
	return nil
}

// streamPace plans the documents of one stream.
func (b *bench) streamPace(ctx context.Context) (*pace, error) {
	planner, err := newPlanner(planConfig(2048))
	if err != nil {
		return nil, err
	}
	length := webLengths()
	p := &pace{documents: b.planned}
	p.start()
	for i := uint64(1); i <= uint64(b.planned); i++ {
		steps, err := planner.Add(plan.Arrival{Sequence: i, ID: identity(0, i), Length: length(0, i)})
		if err == nil {
			err = p.count(steps)
		}
		if err != nil {
			return nil, err
		}
	}
	p.stop()
	return p, ctx.Err()
}

// mixedPace plans the documents of n sources: live sources in publishing order, or sealed sources in a shuffled order
// of blocks.
func (b *bench) mixedPace(ctx context.Context, n, block int) (*pace, error) {
	m := newMixed(equalSources(n), webLengths())
	for i := range m.begins {
		s := m.config.Sources[m.begins[i].Name]
		s.Block = block
		m.config.Sources[m.begins[i].Name] = s
		m.begins[i].Sealed, m.begins[i].Last = block > 0, uint64(2*b.planned/n)
	}
	a, err := m.begin()
	if err != nil {
		return nil, err
	}
	p := &pace{documents: b.planned}
	p.start()
	for range b.planned {
		d, _ := m.next(a.Planner)
		d.ID = identity(d.Source, d.Sequence)
		ready, err := a.AddDocument(d)
		if err == nil {
			err = p.count(ready.Steps)
		}
		if err != nil {
			return nil, err
		}
	}
	p.stop()
	return p, ctx.Err()
}

// identity is the hash of a document's id.
func identity(source int, sequence uint64) uint64 {
	return plan.Ref(source, sequence) * 0x9e3779b97f4a7c15
}
