package planner

import (
	"bytes"
	"encoding/json"
	"errors"
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
	keepsSteps         bool
	firstKept          uint64                      // first step that is kept; later steps are kept too
	keptSteps          []plan.Step                 // their pieces name arrivals
	inheritedSteps     []plan.Step                 // made before the fork but in no plan; their pieces name arrivals
	inheritedDocuments []packonline.Piece          // documents to be packed again; the pieces count only unused tokens
	hints              map[uint64]*similarity.Hint // of the documents in left
	usedTokens         usedSpans
}

// addHint adds the packing hint of a document in left.
func (f *fork) addHint(name uint64, h *similarity.Hint) {
	if f.hints == nil {
		f.hints = map[uint64]*similarity.Hint{}
	}
	f.hints[name] = h
}

// visitRows visits the rows of the steps that are kept or due.
func (f *fork) visitRows(visit func([]packonline.Piece)) {
	for _, steps := range [][]plan.Step{f.inheritedSteps, f.keptSteps} {
		for i := range steps {
			for _, row := range steps[i].Rows {
				visit(row)
			}
		}
	}
}

// PrepareFork prepares a planner for a fork at a step. That step and later ones are kept when a document completes
// them, and so are rows that are left at the end.
func (p *Planner) PrepareFork(step uint64) { p.fork.keepsSteps, p.fork.firstKept = true, step }

// keepForkSteps withdraws the steps that a fork still has to make.
func (p *Planner) keepForkSteps() {
	for _, s := range p.steps {
		if !p.fork.keepsSteps || s.Index < p.fork.firstKept {
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
		p.fork.keptSteps = append(p.fork.keptSteps, s)
	}
}

// Fork returns a planner that continues with another configuration, from the same documents of the sources, with
// everything buffered here. more lists the sources that are added, in the order of their names. If the configuration
// makes rows as before, the buffers are kept and the same steps follow. Otherwise all buffered documents are packed
// again before any other document. The planner itself must not be used afterwards.
func (p *Planner) Fork(c runconfig.Config, more []plan.SourceBegin) (*Planner, error) {
	old := p.sources
	if newNaming(c.Documents) != newNaming(p.config.Documents) {
		return nil, fmt.Errorf("documents.multiple_per_message: %v: want %v, as in the run: the names of buffered "+
			"documents depend on it",
			c.Documents.MultiplePerMessage, p.config.Documents.MultiplePerMessage)
	}
	if err := old.mix.Reconfigure(c.Mixture(), sourceRanges(more)); err != nil {
		return nil, err
	}
	goesOn := p.makesSameRows(c)
	infos := slices.Clone(old.infos)
	for _, s := range more {
		infos = append(infos, plan.SourceInfo{SourceBegin: s})
	}
	for i := range infos {
		if !goesOn {
			old.mix.DropPacking(i)
		}
		infos[i].Config, infos[i].From = old.mix.SourceConfig(i), 0
		if bad := c.ValidatePacking(&infos[i].Config); len(bad) > 0 {
			return nil, fmt.Errorf("source %s: %w", infos[i].Name, bad[0])
		}
	}
	n, err := newPlanner(c, old.mix, infos, old.refs)
	if err != nil {
		return nil, err
	}
	n.Filters.inherit(p.Filters, old.infos, old.mix.SourceConfig)
	n.cursor, n.losses, n.sources.history.spans = p.cursor, p.losses, old.history.spans
	n.schedule = p.schedule.Fork(p.config, c, uint64(len(p.fork.keptSteps)), p.fork.keptTokens())
	if !c.FitsBuckets(n.schedule) {
		return nil, errors.New("a control (loaderd schedule) has changed the row lengths to some that the packing of the " +
			"fork cannot have: give the fork another steps.schedule")
	}
	n.counts = Counts{Arrived: p.counts.Arrived, Skipped: p.counts.Skipped, Cut: p.counts.Cut}
	if goesOn {
		n.window = p.window
		n.lossOnce = n.lossOnce || p.lossOnce
		n.packers, n.queues, n.rowLengths = p.packers, p.queues, p.rowLengths
		n.resizeSteps()
		n.fork.usedTokens, n.fork.inheritedSteps = p.fork.usedTokens, slices.Concat(p.fork.inheritedSteps, p.fork.keptSteps)
		b := n.sources
		b.states, b.rowBalancer.deficits, b.stepBalancer.deficits, b.windowTokens = old.states, old.rowBalancer.deficits,
			old.stepBalancer.deficits, old.windowTokens
		for i := range n.queues.buckets {
			n.queues.buckets[i].steps = 0
		}
		if c.Mix.Share.CountsLoss() != p.config.Mix.Share.CountsLoss() {
			resetShareCounts(n)
		}
	} else {
		if err := n.initRowLengths(n.schedule.Buckets(c)); err != nil {
			return nil, err
		}
		n.fork.inheritedDocuments, n.fork.usedTokens, _ = p.unusedDocuments(p.visitPacked)
	}
	if err := n.addNewSources(); err != nil {
		return nil, err
	}
	for i := range old.states {
		x := &n.sources.states[i]
		x.counts, x.dedup = old.states[i].counts, old.states[i].dedup.resize(c.Documents.Dedupe)
		x.counts.Emitted = 0
		x.selection = plan.Selection{} // compiled for the meta values of the parent
	}
	if err := n.Filters.compile(); err != nil {
		return nil, err
	}
	n.sources.applySourceEnds() // the configuration may permit a further epoch
	return n, nil
}

// resetShareCounts forgets what has been counted of the shares in rows and steps, which now are shares of something
// else.
func resetShareCounts(p *Planner) {
	b := p.sources
	b.rowBalancer.deficits, b.stepBalancer.deficits = nil, nil // addNewSources makes new ones
	p.window.Update(func(a *atom) { a.portions = nil })
	for i := range p.queues.buckets {
		p.queues.buckets[i].nextPortions = nil
	}
}

// keptTokens returns the number of tokens in the steps that a fork still has to make.
func (f *fork) keptTokens() (tokens int64) {
	for i := range f.keptSteps {
		for _, row := range f.keptSteps[i].Rows {
			tokens += plan.RowTokens(row)
		}
	}
	return tokens
}

// makesSameRows reports whether another configuration makes rows and steps exactly as this planner does.
func (p *Planner) makesSameRows(c runconfig.Config) bool {
	shape := func(c runconfig.Config) []byte {
		c.Packing = c.Packing.Canonical()
		c.Steps.Last = "" // the end is never planned here
		b, _ := json.Marshal([]any{c.Seed, c.Packing, c.Shuffle, c.Steps, c.Steps.Balance &&
			c.Attention == runconfig.AttentionDocument})
		return b
	}
	own := func(s mixture.Source) []byte {
		if s.Packing == nil {
			return nil
		}
		b, _ := json.Marshal(s.Packing.Canonical())
		return b
	}
	for i, s := range p.sources.infos {
		if !bytes.Equal(own(s.Config), own(p.sources.mix.SourceConfig(i))) {
			return false
		}
	}
	return bytes.Equal(shape(p.config), shape(c))
}

// unusedDocuments returns the tokens of the packers and those of the visited pieces. left has the number of buffered
// tokens per arrival. used has the used tokens that precede the last buffered one. split is the number of documents of
// several pieces.
func (p *Planner) unusedDocuments(visit func(func([]packonline.Piece))) (left []packonline.Piece, used usedSpans,
	split int64) {
	waits := map[uint64][]span{}
	note := func(pieces []packonline.Piece) {
		for _, x := range pieces {
			if x.Doc&repeatedFlag == 0 { // another piece holds these tokens, here or in a step of the parent
				waits[x.Doc] = append(waits[x.Doc], span{x.Start, x.Start + x.Length})
			}
		}
	}
	p.visitUnpacked(func(x packonline.Piece) { note(p.fork.usedTokens.mapPieces([]packonline.Piece{x})) })
	visit(note)
	used = usedSpans{}
	for _, arrival := range slices.Sorted(maps.Keys(waits)) {
		x, at := packonline.Piece{Doc: arrival}, int32(0)
		pieces := len(waits[arrival])
		for _, s := range joinSpans(waits[arrival]) {
			if s.start > at {
				used[arrival] = append(used[arrival], span{at, s.start})
			}
			x.Length += s.end - s.start
			at = s.end
		}
		left = append(left, x)
		if pieces > 1 || len(used[arrival]) > 0 {
			split++
		}
	}
	return left, used, split
}

// visitUnpacked visits the pieces that count only tokens that the parent had left unused: those in the packers, and
// those not passed to a packer yet.
func (p *Planner) visitUnpacked(f func(packonline.Piece)) {
	for i := range p.packers {
		p.packers[i].packer.Each(f)
	}
	for _, x := range p.fork.inheritedDocuments {
		f(x)
	}
}

// HasInheritance reports whether Inherit must be called before the next document.
func (p *Planner) HasInheritance() bool {
	return len(p.fork.inheritedSteps) > 0 || len(p.fork.inheritedDocuments) > 0
}

// ApplyInheritance applies what a fork begins with: steps that the parent had completed, or all its buffered documents,
// which are packed again. If no source has a document left, the run ends with it.
func (p *Planner) ApplyInheritance() []plan.Step {
	p.steps = p.steps[:0]
	due := p.fork.inheritedSteps
	p.fork.inheritedSteps = nil
	for _, s := range due {
		s.Index, s.Cursor = p.stepIndex, p.cursor
		p.addStep(s)
	}
	p.packInherited()
	p.fork.hints = nil
	p.submitOverdue()
	return p.finishInput()
}

// packInherited passes the documents that are packed again to their packers.
func (p *Planner) packInherited() {
	for len(p.fork.inheritedDocuments) > 0 {
		x := p.fork.inheritedDocuments[0]
		p.fork.inheritedDocuments = p.fork.inheritedDocuments[1:]
		k := &p.packers[p.sources.states[plan.RefSource(p.sources.refOf(x.Doc))].packerIndex]
		p.packDocument(k, x.Doc, x.Length, plan.Part{PackingHints: plan.PackingHints{Hint: p.fork.hints[x.Doc]}})
	}
}
