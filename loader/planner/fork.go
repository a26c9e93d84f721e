package planner

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
	"loaderd/packonline/similarity"
)

// fork holds what a fork's planner has inherited, and what a planner that is forked hands over.
type fork struct {
	keeps bool
	from  uint64                      // first step that is kept; later steps are kept too
	kept  []plan.Step                 // their pieces name arrivals
	due   []plan.Step                 // made before the fork but in no plan; their pieces name arrivals
	left  []packonline.Piece          // documents to be packed again; the pieces count only unused tokens
	hints map[uint64]*similarity.Hint // of the documents in left
	used  usedSpans
}

// hint adds the packing hint of a document in left.
func (f *fork) hint(name uint64, h *similarity.Hint) {
	if f.hints == nil {
		f.hints = map[uint64]*similarity.Hint{}
	}
	f.hints[name] = h
}

// each visits the rows of the steps that are kept or due.
func (f *fork) each(visit func([]packonline.Piece)) {
	for _, steps := range [][]plan.Step{f.due, f.kept} {
		for i := range steps {
			for _, row := range steps[i].Rows {
				visit(row)
			}
		}
	}
}

// Keep prepares a planner for a fork at a step. That step and later ones are kept when a document completes them, and
// so are rows that are left at the end.
func (p *Planner) Keep(step uint64) { p.fork.keeps, p.fork.from = true, step }

// keep withdraws the steps that a fork still has to make.
func (p *Planner) keep() {
	for _, s := range p.steps {
		if !p.fork.keeps || s.Index < p.fork.from {
			continue
		}
		s.Rows = slices.Clone(s.Rows)
		for i, row := range s.Rows {
			s.Rows[i] = slices.Clone(row) // the rows of the step itself will name documents
			p.counts.Tokens -= plan.RowTokens(row)
		}
		p.counts.MaskedTokens -= s.Masked
		p.counts.Rows -= int64(len(s.Rows))
		p.counts.Slots -= int64(len(s.Rows)) * int64(s.Bucket)
		p.fork.kept = append(p.fork.kept, s)
	}
}

// Fork returns a planner that continues with another configuration, from the same documents of the sources, with
// everything buffered here. more lists the sources that are added, in the order of their names. If the configuration
// makes rows as before, the buffers are kept and the same steps follow. Otherwise all buffered documents are packed
// again before any other document. The planner itself must not be used afterwards.
func (p *Planner) Fork(c runconfig.Config, more []plan.SourceBegin) (*Planner, error) {
	old := p.sources
	if newNaming(c.Documents) != newNaming(p.config.Documents) {
		return nil, fmt.Errorf("documents.batches: %v: want %v, as the run had it: what waits is named by that",
			c.Documents.Batches, p.config.Documents.Batches)
	}
	if err := old.mix.Continue(c.Mixture(), begins(more)); err != nil {
		return nil, err
	}
	goesOn := p.rowsAs(c)
	infos := slices.Clone(old.infos)
	for _, s := range more {
		infos = append(infos, plan.SourceInfo{SourceBegin: s})
	}
	for i := range infos {
		if !goesOn {
			old.mix.Unpack(i)
		}
		infos[i].Config, infos[i].From = old.mix.Config(i), 0
		if bad := c.ValidatePacking(&infos[i].Config); len(bad) > 0 {
			return nil, fmt.Errorf("source %s: %w", infos[i].Name, bad[0])
		}
	}
	n, err := newPlanner(c, old.mix, infos, old.refs)
	if err != nil {
		return nil, err
	}
	n.cursor, n.losses, n.sources.history.spans = p.cursor, p.losses, old.history.spans
	n.counts = Counts{Arrived: p.counts.Arrived, Skipped: p.counts.Skipped, Cut: p.counts.Cut}
	if goesOn {
		n.window = p.window
		n.once = n.once || p.once
		n.packs, n.queues = p.packs, p.queues
		n.fork.used, n.fork.due = p.fork.used, slices.Concat(p.fork.due, p.fork.kept)
		b := n.sources
		b.parts, b.rows.lacks, b.steps.lacks, b.shuffled = old.parts, old.rows.lacks, old.steps.lacks, old.shuffled
		for i := range n.queues.buckets {
			n.queues.buckets[i].steps = 0
		}
	} else {
		n.fork.left, n.fork.used = p.rest()
	}
	if err := n.meet(); err != nil {
		return nil, err
	}
	for i := range old.parts {
		x := &n.sources.parts[i]
		x.counts, x.seen = old.parts[i].counts, old.parts[i].seen.resized(c.Documents.Dedupe)
		x.counts.Emitted = 0
	}
	n.sources.settle() // the configuration may permit a further epoch
	return n, nil
}

// rowsAs reports whether another configuration makes rows and steps exactly as this planner does.
func (p *Planner) rowsAs(c runconfig.Config) bool {
	shape := func(c runconfig.Config) []byte {
		c.Packing = c.Packing.Relevant()
		c.Steps.Last = "" // the end is never planned here
		b, _ := json.Marshal([]any{c.Seed, c.Packing, c.Shuffle, c.Steps, c.Steps.Balance &&
			c.Attention == runconfig.AttentionDocument})
		return b
	}
	own := func(s mixture.Source) []byte {
		if s.Packing == nil {
			return nil
		}
		b, _ := json.Marshal(s.Packing.Relevant())
		return b
	}
	for i, s := range p.sources.infos {
		if !bytes.Equal(own(s.Config), own(p.sources.mix.Config(i))) {
			return false
		}
	}
	return bytes.Equal(shape(p.config), shape(c))
}

// rest returns the buffered tokens of the whole planner. left has the number of buffered tokens per arrival. used has
// the used tokens that precede the last buffered one.
func (p *Planner) rest() (left []packonline.Piece, used usedSpans) {
	waits := map[uint64][]span{}
	note := func(pieces []packonline.Piece) {
		for _, x := range pieces {
			if x.Doc&repeated == 0 { // another piece holds these tokens, here or in a step of the parent
				waits[x.Doc] = append(waits[x.Doc], span{x.Start, x.Start + x.Length})
			}
		}
	}
	p.unplaced(func(x packonline.Piece) { note(p.fork.used.place([]packonline.Piece{x})) })
	p.beyond(note)
	used = usedSpans{}
	for _, arrival := range slices.Sorted(maps.Keys(waits)) {
		x, at := packonline.Piece{Doc: arrival}, int32(0)
		for _, s := range joinSpans(waits[arrival]) {
			if s.start > at {
				used[arrival] = append(used[arrival], span{at, s.start})
			}
			x.Length += s.end - s.start
			at = s.end
		}
		left = append(left, x)
	}
	return left, used
}

// unplaced visits the pieces that count only tokens that the parent had left unused: those in the packers, and those
// not passed to a packer yet.
func (p *Planner) unplaced(f func(packonline.Piece)) {
	for i := range p.packs {
		p.packs[i].packer.Each(f)
	}
	for _, x := range p.fork.left {
		f(x)
	}
}

// Inherits reports whether Inherit must be called before the next document.
func (p *Planner) Inherits() bool { return len(p.fork.due) > 0 || len(p.fork.left) > 0 }

// Inherit applies what a fork begins with: steps that the parent had completed, or all its buffered documents, which
// are packed again. If no source has a document left, the run ends with it.
func (p *Planner) Inherit() []plan.Step {
	p.steps = p.steps[:0]
	due := p.fork.due
	p.fork.due = nil
	for _, s := range due {
		s.Index, s.Cursor = p.next, p.cursor
		p.made(s)
	}
	for len(p.fork.left) > 0 {
		x := p.fork.left[0]
		p.fork.left = p.fork.left[1:]
		k := &p.packs[p.sources.parts[plan.RefSource(p.sources.ref(x.Doc))].pack]
		p.pack(k, x.Doc, x.Length, plan.Part{PackingHints: plan.PackingHints{Hint: p.fork.hints[x.Doc]}})
	}
	p.fork.hints = nil
	p.overdue()
	return p.settle()
}
