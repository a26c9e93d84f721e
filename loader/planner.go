package loader

import (
	"fmt"
	"slices"

	"loaderd/packonline"
	"loaderd/shuffle"
)

// AlgorithmVersion changes whenever an equal configuration and log could give another plan than before. It stands in the header of
// every plan; a planner of another version refuses to continue it.
const AlgorithmVersion = 1

// Arrival is what the Planner is told of one document of the stream.
type Arrival struct {
	Sequence uint64
	ID       uint64 // hash of the producer's id, 0 for none
	Length   int    // tokens, end-of-document token included
	Skip     Skip   // not empty: the document is not used
}

// Counts are a planner's totals since the start of the run.
type Counts struct {
	Arrived    int64 // documents of the stream, used or not
	Empty      int64
	Undecoded  int64
	Duplicates int64
	Rows       int64 // rows in steps
	Slots      int64 // tokens that those rows hold, padding included
	Tokens     int64 // tokens of documents in those rows, repeated ones as often as they come
	LeftTokens int64 // tokens of rows dropped at the end because they did not fill a step
	AgeMax     int64 // largest age of a piece when its row was packed, in documents
}

// Planner is the deterministic state machine that turns document lengths into steps. What it returns is a function of its
// configuration and of the sequence of its calls alone:
//
//   - invariant 2: the steps after a document follow from the documents up to it. Readers only decide when it is fed.
//   - invariant 3: a planner restored from AppendState goes on exactly as the one that wrote it.
//
// It is not safe for concurrent use.
type Planner struct {
	config Config
	packer packonline.Packer
	window *shuffle.Window[atom]
	lines  []line // one a bucket, in the order of Config.Packing.Buckets
	// An atom has atomRows rows, and a row rowAtoms atoms; one of them is 1.
	atomRows, rowAtoms int

	seen   *recent
	counts Counts
	cursor uint64 // last document sequence seen
	next   uint64 // index of the next step
	rows   packonline.Rows
	steps  []Step
}

// NewPlanner returns the planner of a run whose first document has sequence start.
func NewPlanner(c Config, start uint64) (*Planner, error) {
	c.Packing.Seed, c.Shuffle.Seed = c.Seed, c.Seed
	packer, err := packonline.New(c.Packing)
	if err != nil {
		return nil, fmt.Errorf("make packer: %w", err)
	}
	return &Planner{config: c, packer: packer, window: shuffle.New[atom](c.Shuffle), lines: lines(c.Packing),
		atomRows: int(max(c.Packing.Atom, 1)), rowAtoms: int(1 / min(c.Packing.Atom, 1)),
		seen: newRecent(c.Documents.Dedupe), cursor: start - 1}, nil
}

// Add tells the planner of the next document and returns the steps that it completes. The slice is valid until the next call;
// what the steps refer to stays.
func (p *Planner) Add(a Arrival) ([]Step, error) {
	if a.Sequence != p.cursor+1 {
		return nil, fmt.Errorf("plan document %d: the next one is %d", a.Sequence, p.cursor+1)
	}
	p.cursor = a.Sequence
	p.counts.Arrived++
	p.steps = p.steps[:0]
	switch {
	case a.Skip == SkipEmpty:
		p.counts.Empty++
	case a.Skip != "":
		p.counts.Undecoded++
	case p.seen.add(a.ID):
		p.counts.Duplicates++
	default:
		p.rows.Reset()
		p.packer.Add(packonline.Doc{Seq: a.Sequence, Length: int32(a.Length)}, &p.rows)
		p.shuffle()
	}
	return p.steps, nil
}

// Drain packs everything that waits, padding where it must, and returns the full steps: atoms of several rows may end short, rows of
// several atoms are padded. Rows that do not fill a step keep waiting.
func (p *Planner) Drain() []Step {
	p.steps = p.steps[:0]
	p.rows.Reset()
	p.packer.Flush(&p.rows)
	p.shuffle()
	for i := range p.lines {
		p.release(&p.lines[i])
	}
	p.window.Flush(p.arrange)
	for i := range p.lines {
		p.complete(&p.lines[i])
	}
	return p.steps
}

// Seal drains and ends the plan: rows that do not fill a step are padded to one or dropped, as configured. Nothing may be added
// afterwards.
func (p *Planner) Seal() []Step {
	p.Drain()
	for i := range p.lines {
		l := &p.lines[i]
		if len(l.rows) == 0 {
			continue
		}
		if p.config.Steps.Last == LastPad {
			for len(l.rows) > 0 { // enqueue empties the line when the step is full
				p.enqueue(l, nil)
			}
			continue
		}
		for _, row := range l.rows {
			p.counts.LeftTokens += tokens(row)
		}
		l.rows = nil
	}
	return p.steps
}

// enqueue appends a row to the line of its bucket; enough of them are a step.
func (p *Planner) enqueue(l *line, row []packonline.Piece) {
	l.rows = append(l.rows, row)
	if len(l.rows) < p.config.Steps.Rows {
		return
	}
	s := Step{Index: p.next, Bucket: l.length, Cursor: p.cursor, Rows: slices.Clone(l.rows)}
	for _, row := range s.Rows {
		p.counts.Tokens += tokens(row)
	}
	l.rows = l.rows[:0]
	p.next++
	p.counts.Rows += int64(len(s.Rows))
	p.counts.Slots += int64(len(s.Rows)) * int64(l.length)
	p.steps = append(p.steps, s)
}

// Cursor returns the last document sequence that the planner has seen.
func (p *Planner) Cursor() uint64 { return p.cursor }

// Next returns the index of the next step.
func (p *Planner) Next() uint64 { return p.next }

// Counts returns the planner's totals, and the packer's.
func (p *Planner) Counts() (Counts, packonline.Counts) { return p.counts, p.packer.Counts() }

// Waiting describes what the planner holds back: in the packer, atoms in the shuffle window, and rows before and behind it.
func (p *Planner) Waiting() (pool packonline.Pending, window, queued int) {
	for i := range p.lines {
		queued += p.lines[i].waiting()
	}
	return p.packer.Pending(), p.window.Len(), queued
}

// Floor returns the oldest document sequence that a later step may still need.
func (p *Planner) Floor() uint64 {
	floor := p.cursor + 1
	if pool := p.packer.Pending(); pool.Pieces > 0 {
		floor = min(floor, pool.Oldest)
	}
	lower := func(pieces []packonline.Piece) {
		for _, x := range pieces {
			floor = min(floor, x.Doc)
		}
	}
	p.window.Each(func(a atom) { lower(a.pieces) })
	for i := range p.lines {
		p.lines[i].each(lower)
	}
	return floor
}
