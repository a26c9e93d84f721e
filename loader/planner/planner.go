package planner

import (
	"fmt"
	"math"
	"slices"

	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/planrecord"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
	"loaderd/shuffle"
)

// AlgorithmVersion changes whenever the same configuration and log could produce another plan than before. The header
// of every plan contains it. A planner of another version refuses to continue the plan.
const AlgorithmVersion = 1

// Counts are a planner's totals since the start of the run.
type Counts struct {
	Arrived      int64 // documents of the stream, used or not
	Skipped      plan.Skips
	Cut          int64 // used documents that lost their last tokens because they exceeded their maximum length
	Rows         int64 // rows in steps
	Slots        int64 // tokens in those rows, including padding
	Tokens       int64 // document tokens in those rows; repeated tokens count each time
	MaskedTokens int64 // of Tokens, those without a loss
	LeftTokens   int64 // tokens of rows dropped at the end because they did not fill a step
	AgeMax       int64 // maximum age of a piece when its row was packed, in documents
	WaitMax      int64 // maximum number of documents that arrived while a row waited for its step
}

// Planner is the deterministic state machine that turns document lengths into steps. Its output depends only on its
// configuration and on the sequence of its calls:
//
//   - invariant 2: the steps after a document follow from the documents up to it. Readers only decide when it is fed.
//   - invariant 3: a planner restored from AppendState continues exactly as the one that wrote the state.
//
// It is not safe for concurrent use.
type Planner struct {
	config       runconfig.Config
	names        naming
	packers      packerSet
	window       *shuffle.Window[atom]
	queues       queues // one per row length, in their order
	rowLengths   rowLengths
	schedule     runconfig.Schedule
	sources      *sourceSet
	losses       losses
	lossOnce     bool // LossOnce: at least one packer counts the loss of a repeated token once
	Filters      *Filters
	missingHints map[uint64][]missingHint // keyed by the document's message, as a plan names it

	lastTokens     int64 // tokens of the last document
	lastLossTokens int64 // of these, tokens with a loss
	counts         Counts
	cursor         plan.Position // after the last arrival
	stepIndex      uint64        // index of the next step
	rows           packonline.Rows
	steps          []plan.Step

	fork fork
}

// New returns the planner of a run at its start.
func New(h planrecord.Header) (*Planner, error) {
	if h.Parent != nil {
		return newForkPlanner(h)
	}
	mix, err := mixture.New(h.Config.Mixture(), sourceRanges(h.Sources))
	if err != nil {
		return nil, err
	}
	if !slices.EqualFunc(h.Sources, mix.Status(), func(s plan.SourceBegin, x mixture.Status) bool {
		return s.Name == x.Name
	}) {
		return nil, fmt.Errorf("the sources of run %s are not in the order of their names", h.Run)
	}
	p, err := newPlanner(h.Config, mix, h.Infos(), newRefs(1))
	if err != nil {
		return nil, err
	}
	return p, p.addNewSources()
}

// newPlanner returns a planner of a configuration before any of its sources are registered.
func newPlanner(c runconfig.Config, mix *mixture.Mixture, infos []plan.SourceInfo, r *arrivalRefs) (*Planner, error) {
	if err := c.CheckSchedule(); err != nil {
		return nil, err
	}
	c.Packing.Seed, c.Shuffle.Seed = c.Seed, c.Seed
	p := &Planner{config: c, names: newNaming(c.Documents), window: shuffle.New[atom](c.Shuffle),
		schedule: runconfig.NewSchedule(c)}
	p.sources = newSourceSet(c, mix, infos, r)
	if c.Mix.Share.CountsLoss() {
		p.sources.losses = &p.losses
	}
	p.Filters = &Filters{documents: c.Documents, sources: p.sources}
	return p, p.initRowLengths(p.schedule.Buckets(c))
}

// packDocument passes a document, or the unused part of one, to a packer.
func (p *Planner) packDocument(k *packerState, name uint64, length int32, x plan.Part) {
	if x.Cut {
		p.counts.Cut++
	}
	p.losses.add(name, x.Loss)
	p.rows.Reset()
	k.packer.Add(packonline.Doc{Seq: name, Length: length, Hint: x.Hint}, &p.rows)
	p.shuffleRows(k)
}

// Flush packs all buffered documents, with padding where needed, and returns the full steps. Atoms of several rows
// may be incomplete, and rows of several atoms are padded. Rows that do not fill a step stay queued.
func (p *Planner) Flush() []plan.Step {
	p.steps = p.steps[:0]
	p.flush(false)
	steps := p.finishSteps(p.cursor)
	p.forgetShares() // a fork at one of these steps also forgets them
	return steps
}

// flush implements Flush. With last, it also emits incomplete steps.
func (p *Planner) flush(last bool) {
	p.flushRows(last)
	for p.rowLengths.outdated {
		p.repack()
		p.flushRows(last)
	}
}

// flushRows packs all buffered documents, and emits the full steps up to the next change of the row lengths. With last,
// it also emits incomplete steps.
func (p *Planner) flushRows(last bool) {
	p.sources.flushes = true
	defer func() { p.sources.flushes = false }()
	for i := range p.packers {
		k := &p.packers[i]
		p.rows.Reset()
		k.packer.Flush(&p.rows)
		p.shuffleRows(k)
		for i := range k.rowBuilders {
			p.submitAtom(&k.rowBuilders[i])
		}
	}
	p.updateShareTargets()
	p.window.Flush(p.makeRows)
	for l := range p.packers.rowBuilders() {
		p.completeRow(l)
	}
	for b := p.chooseQueue(0, last); b != nil; b = p.chooseQueue(0, last) {
		p.emitStep(b)
	}
}

// Seal flushes and ends the plan. Rows that do not fill a step are padded to a full step or dropped, as configured. No
// document may be added afterwards.
func (p *Planner) Seal() []plan.Step {
	p.steps = p.steps[:0]
	return p.finishSteps(p.seal())
}

// seal implements Seal. It returns the low watermark of the last step.
func (p *Planner) seal() plan.Position {
	p.flush(p.usesShareOrder() && p.config.Steps.Last == runconfig.LastPad)
	lowWatermark := p.cursor // kept before documents of dropped rows: a fork may still plan them
	for i := 0; i < len(p.queues.buckets); i++ {
		b := &p.queues.buckets[i]
		switch {
		case len(b.waitingRows) == 0:
		case p.config.Steps.Last == runconfig.LastPad:
			if p.emitStep(b); p.rowLengths.outdated {
				p.repack()
				p.flush(p.usesShareOrder())
			}
			i = -1 // the step may have changed the row lengths and the rows of the next one
		case p.fork.keepsSteps: // a fork may still plan them
		default:
			for _, r := range b.waitingRows {
				p.counts.LeftTokens += plan.RowTokens(r.pieces)
				lowWatermark = p.names.oldestPosition(r.pieces, lowWatermark)
			}
			b.waitingRows, b.tokens = nil, 0
		}
	}
	return lowWatermark
}

// applySchedule replaces the phases of the steps that have not begun, and returns the steps that are then full.
func (p *Planner) applySchedule(phases []runconfig.Phase) ([]plan.Step, error) {
	p.steps = p.steps[:0]
	schedule, err := p.ChangedSchedule(phases)
	if err != nil {
		return nil, err
	}
	p.schedule = schedule
	p.resizeSteps()
	p.emitFullSteps()
	p.submitOverdue()
	steps := p.finishSteps(p.cursor)
	p.forgetShares() // a fork at one of these steps also forgets them
	return steps, nil
}

// ChangedSchedule returns the schedule of the steps with other phases in place of those that have not begun.
func (p *Planner) ChangedSchedule(phases []runconfig.Phase) (runconfig.Schedule, error) {
	s := p.schedule
	if err := s.Apply(p.config, phases); err != nil {
		return s, err
	}
	if err := p.sources.checkRowLengths(p.config, &s); err != nil {
		return s, err
	}
	return s, p.sources.checkRemoved(p.config, &s, p.bufferedNames)
}

// submitOverdue submits everything that would exceed its maximum wait with the next document: incomplete atoms,
// incomplete rows and incomplete steps. If the row lengths change, it packs all buffered tokens again.
func (p *Planner) submitOverdue() {
	for p.submitOverdueRows(); p.rowLengths.outdated; p.submitOverdueRows() {
		p.repack()
	}
}

// submitOverdueRows implements submitOverdue, up to the next change of the row lengths.
func (p *Planner) submitOverdueRows() {
	for i := range p.packers {
		k := &p.packers[i]
		for n := range k.rowBuilders {
			if l := &k.rowBuilders[n]; p.isOverdue(k, l) {
				p.submitAtom(l)
				p.completeRow(l)
			}
		}
	}
	overdue := func() *queue { return p.queues.overdueQueue(p.counts.Arrived) }
	for b := overdue(); b != nil && !p.rowLengths.outdated; b = overdue() {
		p.emitStep(b)
	}
	if !p.schedule.IsConstant() {
		p.emitFullSteps() // the steps above may have made the next ones smaller
	}
}

// enqueueRow adds a row to the queue of its bucket, and emits the steps that the queues then release.
func (p *Planner) enqueueRow(l *rowBuilder, row []packonline.Piece) {
	p.queues.addRow(l.queueIndex, row, p.counts.Arrived)
	p.emitFullSteps()
}

// emitFullSteps emits the steps that the queues release.
func (p *Planner) emitFullSteps() {
	for b := p.chooseQueue(p.queues.backlog, false); b != nil; b = p.chooseQueue(p.queues.backlog, false) {
		p.emitStep(b)
	}
}

// emitStep makes a step from the oldest rows of a bucket.
func (p *Planner) emitStep(b *queue) {
	p.counts.WaitMax = max(p.counts.WaitMax, p.counts.Arrived-b.waitingRows[0].arrived)
	if p.usesShareOrder() {
		p.updateShareTargets()
		p.sources.stepBalancer.recordLeaving(p.sources.stepPortions(b))
	}
	s := plan.Step{Index: p.stepIndex, Bucket: b.length, Cursor: p.cursor, Rows: b.takeStep()}
	if p.config.Steps.Balance && p.config.Attention == runconfig.AttentionDocument {
		balanceRows(s.Rows)
	}
	p.addStep(s)
}

// addStep counts the next step and adds it to the result. The schedule then determines the rows of the step after it.
func (p *Planner) addStep(s plan.Step) {
	tokens := int64(0)
	for _, r := range s.Rows {
		tokens += plan.RowTokens(r)
	}
	p.counts.Tokens += tokens
	if p.schedule.Advance(tokens) {
		p.resizeSteps()
	}
	p.stepIndex++
	p.counts.Rows += int64(len(s.Rows))
	p.counts.Slots += int64(len(s.Rows)) * int64(s.Bucket)
	p.steps = append(p.steps, s)
}

// finishSteps sets the low watermark of each step. It covers no document that is in a later step, is buffered, or lies
// after the given low watermark.
func (p *Planner) finishSteps(lowWatermark plan.Position) []plan.Step {
	if len(p.steps) == 0 {
		return nil
	}
	lowWatermark = lowWatermark.Min(p.LowWatermark())
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := &p.steps[i]
		s.LowWatermark = lowWatermark
		for _, r := range s.Rows {
			lowWatermark = p.names.oldestPosition(r, lowWatermark)
		}
		p.losses.countMasked(s, p.lossOnce, p.isOneSegment)
		p.counts.MaskedTokens += s.Masked
		s.SourceLossTokens = p.sources.countStepLoss(s)
	}
	p.keepForkSteps()
	if p.lossOnce {
		for i := range p.steps {
			joinRepeats(&p.steps[i])
		}
	}
	p.nameDocuments()
	return p.steps
}

// BufferedTokens returns the number of tokens in all buffered pieces of the planner.
func (p *Planner) BufferedTokens() int64 {
	n := p.packers.pending().Tokens + plan.RowTokens(p.fork.inheritedDocuments)
	p.visitPacked(func(pieces []packonline.Piece) { n += plan.RowTokens(pieces) })
	return n
}

// usedTokens returns the number of tokens of used documents: in steps, dropped, or buffered.
func (p *Planner) usedTokens() int64 {
	counts, packed := p.Counts()
	return counts.Tokens - packed.Repeated + packed.Dropped + counts.LeftTokens + p.BufferedTokens()
}

// visitPacked visits all buffered pieces that have left the packers.
func (p *Planner) visitPacked(f func([]packonline.Piece)) {
	p.visitBuffered(f)
	p.fork.visitRows(f)
}

// visitBuffered visits the pieces that visitPacked visits, except those of steps that a fork makes.
func (p *Planner) visitBuffered(f func([]packonline.Piece)) {
	p.window.Each(func(a atom) { f(a.pieces) })
	for l := range p.packers.rowBuilders() {
		l.visitPieces(f)
	}
	p.queues.visitRows(f)
}

// Flushes reports whether Flush could complete a step. It could if a full step is queued. It could also if anything is
// buffered before the queues and all buffered pieces and rows together number at least the rows of the smallest step.
func (p *Planner) Flushes() bool {
	least := math.MaxInt
	for i := range p.queues.buckets {
		if p.queues.buckets[i].fullSteps() > 0 {
			return true
		}
		least = min(least, p.queues.buckets[i].stepRows)
	}
	pool := p.packers.pending()
	waiting := pool.Pieces + int(pool.Held.Rows)
	p.window.Each(func(a atom) { waiting += a.rows() })
	for l := range p.packers.rowBuilders() {
		waiting += l.bufferedRows()
	}
	return waiting > 0 && waiting+p.queues.rowCount() >= least
}

// RestoreHints gives a restored planner the packing hints of the documents of a message. parts is as in
// Arrival.Parts; some of these documents are buffered.
func (p *Planner) RestoreHints(message uint64, parts []plan.Part) {
	hints := make(map[int32]plan.PackingHints, len(parts))
	first := 0
	for _, x := range parts {
		hints[int32(first)] = x.PackingHints
		first += x.Length
	}
	for _, u := range p.missingHints[message] { // twice if the document is buffered in two epochs
		t := hints[p.names.offset(u.name)]
		if u.inherited {
			p.fork.addHint(u.name, t.Hint)
			continue
		}
		p.packers[u.packerIndex].packer.(packonline.HintedPacker).SetHint(u.name, t.Hint)
	}
	delete(p.missingHints, message)
}

// Cursor returns the position after the last arrival.
func (p *Planner) Cursor() plan.Position { return p.cursor }

// Clock returns the number of the last arrival, of all sources together. Controls take effect at arrivals.
func (p *Planner) Clock() uint64 { return p.cursor.Last() }

// Next returns the index of the next step.
func (p *Planner) Next() uint64 { return p.stepIndex }

// Counts returns the totals of the planner and of its packers.
func (p *Planner) Counts() (Counts, packonline.Counts) {
	return p.counts, p.rowLengths.replaced.counts.Plus(p.packers.counts())
}

// Detail returns counts that are specific to the packing method, or nil if it has none.
func (p *Planner) Detail() map[string]int64 {
	detail := p.packers.detail()
	for name, n := range p.rowLengths.replaced.detail {
		if detail == nil {
			detail = map[string]int64{}
		}
		detail[name] += n
	}
	return detail
}

// BufferSizes returns what the planner buffers: pieces and finished rows in the packers, the number of atoms in the
// shuffle window, and the number of rows before and after it.
func (p *Planner) BufferSizes() (pool packonline.Pending, window, queued int) {
	for l := range p.packers.rowBuilders() {
		queued += l.bufferedRows()
	}
	queued += p.queues.rowCount()
	return p.packers.pending(), p.window.Len(), queued
}

// Capacity is the maximum that a planner can buffer.
type Capacity struct {
	Pool int `json:"pool"` // pieces to be packed; 0 if a method has no pool, as its rows hold any number
	Held int `json:"held"` // pieces of finished rows in the holdback of packers
	Rows int `json:"rows"` // rows of incomplete atoms and of steps
}

// Capacity returns the maximum that the packers of all sources and the queues after the shuffle window can buffer.
func (p *Planner) Capacity() Capacity {
	c := Capacity{Rows: p.queues.capacity()}
	pools := true
	for i := range p.packers {
		k := &p.packers[i]
		pools = pools && slices.Contains(packonline.Parameters(k.config.Method), "pool")
		c.Pool += k.config.Pool
		c.Held += k.config.Canonical().Held()
		c.Rows += len(k.rowBuilders) * k.atomRows
	}
	if !pools {
		c.Pool = 0
	}
	return c
}

// Schedule returns the schedule of the steps, at the next step.
func (p *Planner) Schedule() runconfig.Schedule { return p.schedule }

// Queues describes the rows that wait for a step, per bucket.
func (p *Planner) Queues() []QueueStat { return p.queues.stats(p.counts.Arrived) }

// LowWatermark returns the low watermark: the position before the oldest document that a later step may still need.
func (p *Planner) LowWatermark() plan.Position {
	lowWatermark := p.cursor
	if pool := p.packers.pending(); pool.HasPieces() {
		lowWatermark = lowWatermark.Min(plan.PositionBefore(p.names.position(pool.Oldest)))
	}
	p.visitPacked(func(pieces []packonline.Piece) { lowWatermark = p.names.oldestPosition(pieces, lowWatermark) })
	return p.names.oldestPosition(p.fork.inheritedDocuments, lowWatermark)
}
