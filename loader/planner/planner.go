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

// AlgorithmVersion changes whenever an equal configuration and log could give another plan than before. It stands in
// the header of every plan; a planner of another version refuses to continue it.
const AlgorithmVersion = 1

// Counts are a planner's totals since the start of the run.
type Counts struct {
	Arrived      int64 // documents of the stream, used or not
	Skipped      plan.Skips
	Cut          int64 // documents that are used without their last tokens, as they had more than they may have
	Rows         int64 // rows in steps
	Slots        int64 // tokens that those rows hold, padding included
	Tokens       int64 // tokens of documents in those rows, repeated ones as often as they come
	MaskedTokens int64 // of these, those without a loss
	LeftTokens   int64 // tokens of rows dropped at the end because they did not fill a step
	AgeMax       int64 // largest age of a piece when its row was packed, in documents
	WaitMax      int64 // most documents that arrived while a row waited for its step
}

// Planner is the deterministic state machine that turns document lengths into steps. What it returns is a function of
// its configuration and of the sequence of its calls alone:
//
//   - invariant 2: the steps after a document follow from the documents up to it. Readers only decide when it is fed.
//   - invariant 3: a planner restored from AppendState goes on exactly as the one that wrote it.
//
// It is not safe for concurrent use.
type Planner struct {
	config  runconfig.Config
	names   naming
	packs   packs
	window  *shuffle.Window[atom]
	queues  queues // one a bucket, in the order of Config.Packing.Buckets
	sources *sourceSet
	losses  losses
	once    bool                // the loss of a repeated token counts once, in one of the packers
	unread  map[uint64][]unread // by the document's message, as a plan names it

	taken  int64 // tokens of the last document
	counts Counts
	cursor plan.Position // behind the last arrival
	next   uint64        // index of the next step
	rows   packonline.Rows
	steps  []plan.Step

	fork fork
}

// New returns the planner of a run at its beginning.
func New(h planrecord.Header) (*Planner, error) {
	if h.Parent != nil {
		return newFork(h)
	}
	mix, err := mixture.New(h.Config.Mixture(), begins(h.Sources))
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
	return p, p.meet()
}

// newPlanner returns a planner of a configuration that has met none of its sources.
func newPlanner(c runconfig.Config, mix *mixture.Mixture, infos []plan.SourceInfo, r *refs) (*Planner, error) {
	c.Packing.Seed, c.Shuffle.Seed = c.Seed, c.Seed
	p := &Planner{config: c, names: newNaming(c.Documents), window: shuffle.New[atom](c.Shuffle), queues: newQueues(c)}
	p.sources = newSourceSet(c, mix, infos, r)
	return p, p.addPack(c.Packing)
}

// pack gives a document, or what is left of it, to a packer.
func (p *Planner) pack(k *pack, name uint64, length int32, x plan.Part) {
	if x.Cut {
		p.counts.Cut++
	}
	p.losses.note(name, x.Loss)
	p.rows.Reset()
	k.packer.Add(packonline.Doc{Seq: name, Length: length, Hint: x.Hint}, &p.rows)
	p.shuffle(k)
}

// Drain packs everything that waits, padding where it must, and returns the full steps: atoms of several rows may end
// short, rows of several atoms are padded. Rows that do not fill a step keep waiting.
func (p *Planner) Drain() []plan.Step {
	p.steps = p.steps[:0]
	p.drain(false)
	steps := p.finish(p.cursor)
	p.forgetShares() // a fork at one of these steps does, too
	return steps
}

// drain is Drain. With last, steps that lack rows leave among the others.
func (p *Planner) drain(last bool) {
	p.sources.drains = true
	defer func() { p.sources.drains = false }()
	for i := range p.packs {
		k := &p.packs[i]
		p.rows.Reset()
		k.packer.Flush(&p.rows)
		p.shuffle(k)
		for i := range k.lines {
			p.submit(&k.lines[i])
		}
	}
	p.followShares()
	p.window.Flush(p.arrange)
	for l := range p.packs.lines() {
		p.complete(l)
	}
	for b := p.nextStep(0, last); b != nil; b = p.nextStep(0, last) {
		p.emit(b)
	}
}

// Seal drains and ends the plan: rows that do not fill a step are padded to one or dropped, as configured. Nothing may
// be added afterwards.
func (p *Planner) Seal() []plan.Step {
	p.steps = p.steps[:0]
	return p.finish(p.seal())
}

// seal is Seal; it returns the floor of the last step.
func (p *Planner) seal() plan.Position {
	p.drain(p.evens() && p.config.Steps.Last == runconfig.LastPad)
	floor := p.cursor // behind dropped rows too: a fork may still plan them
	for i := range p.queues.buckets {
		b := &p.queues.buckets[i]
		switch {
		case len(b.wait) == 0:
		case p.config.Steps.Last == runconfig.LastPad:
			p.emit(b)
		case p.fork.keeps: // a fork may still plan them
		default:
			for _, r := range b.wait {
				p.counts.LeftTokens += plan.RowTokens(r.pieces)
				floor = p.names.oldest(r.pieces, floor)
			}
			b.wait, b.tokens = nil, 0
		}
	}
	return floor
}

// overdue sends on what the next document would make wait for too long: an atom that lacks rows, a row that lacks
// atoms, a step that lacks rows.
func (p *Planner) overdue() {
	for i := range p.packs {
		k := &p.packs[i]
		for n := range k.lines {
			if l := &k.lines[n]; p.late(k, l) {
				p.submit(l)
				p.complete(l)
			}
		}
	}
	for b := p.queues.overdue(p.counts.Arrived); b != nil; b = p.queues.overdue(p.counts.Arrived) {
		p.emit(b)
	}
}

// enqueue adds a row to the queue of its bucket, and emits the steps that the queues then let go.
func (p *Planner) enqueue(l *line, row []packonline.Piece) {
	p.queues.add(l.queue, row, p.counts.Arrived)
	for b := p.nextStep(p.queues.backlog, false); b != nil; b = p.nextStep(p.queues.backlog, false) {
		p.emit(b)
	}
}

// emit makes a step of the oldest rows of a bucket.
func (p *Planner) emit(b *queue) {
	p.counts.WaitMax = max(p.counts.WaitMax, p.counts.Arrived-b.wait[0].arrived)
	if p.evens() {
		p.followShares()
		p.sources.steps.leave(p.sources.head(b))
	}
	s := plan.Step{Index: p.next, Bucket: b.length, Cursor: p.cursor, Rows: b.take()}
	if p.config.Steps.Balance && p.config.Attention == runconfig.AttentionDocument {
		balance(s.Rows)
	}
	p.made(s)
}

// made takes in the next step.
func (p *Planner) made(s plan.Step) {
	for _, r := range s.Rows {
		p.counts.Tokens += plan.RowTokens(r)
	}
	p.next++
	p.counts.Rows += int64(len(s.Rows))
	p.counts.Slots += int64(len(s.Rows)) * int64(s.Bucket)
	p.steps = append(p.steps, s)
}

// finish sets the floor of each step: the documents of later steps, those that wait now and those that floor does not
// cover may still be needed.
func (p *Planner) finish(floor plan.Position) []plan.Step {
	if len(p.steps) == 0 {
		return nil
	}
	floor = floor.Least(p.Floor())
	for i := len(p.steps) - 1; i >= 0; i-- {
		s := &p.steps[i]
		s.Floor = floor
		for _, r := range s.Rows {
			floor = p.names.oldest(r, floor)
		}
		p.losses.count(s, p.once, p.whole)
		p.counts.MaskedTokens += s.Masked
	}
	p.keep()
	if p.once {
		for i := range p.steps {
			joinRepeats(&p.steps[i])
		}
	}
	p.name()
	return p.steps
}

// WaitingTokens counts the tokens of all pieces that wait, wherever they do.
func (p *Planner) WaitingTokens() int64 {
	n := p.packs.pending().Tokens + plan.RowTokens(p.fork.left)
	p.beyond(func(pieces []packonline.Piece) { n += plan.RowTokens(pieces) })
	return n
}

// accounted counts the tokens of used documents by where they are: in steps, dropped, or waiting.
func (p *Planner) accounted() int64 {
	counts, packed := p.Counts()
	return counts.Tokens - packed.Repeated + packed.Dropped + counts.LeftTokens + p.WaitingTokens()
}

// beyond visits all pieces that wait beyond the packers.
func (p *Planner) beyond(f func([]packonline.Piece)) {
	p.window.Each(func(a atom) { f(a.pieces) })
	for l := range p.packs.lines() {
		l.each(f)
	}
	p.queues.each(f)
	p.fork.each(f)
}

// Drains reports whether Drain could complete a step: a full step waits, or something waits before the queues and all
// that waits, pieces and rows, is as many as the smallest step has rows.
func (p *Planner) Drains() bool {
	least := math.MaxInt
	for i := range p.queues.buckets {
		if p.queues.buckets[i].full() > 0 {
			return true
		}
		least = min(least, p.queues.buckets[i].rows)
	}
	pool := p.packs.pending()
	waiting := pool.Pieces + int(pool.Held.Rows)
	p.window.Each(func(a atom) { waiting += a.rows() })
	for l := range p.packs.lines() {
		waiting += l.waiting()
	}
	return waiting > 0 && waiting+p.queues.rowsWaiting() >= least
}

// RestoreHints gives a restored planner the packing hints of the documents of a message, as Arrival.Parts has them, of
// which some wait.
func (p *Planner) RestoreHints(message uint64, parts []plan.Part) {
	hints := make(map[int32]plan.PackingHints, len(parts))
	first := 0
	for _, x := range parts {
		hints[int32(first)] = x.PackingHints
		first += x.Length
	}
	for _, u := range p.unread[message] { // twice, where the document waits in two epochs
		t := hints[p.names.first(u.name)]
		if u.comes {
			p.fork.hint(u.name, t.Hint)
			continue
		}
		p.packs[u.pack].packer.(packonline.Hinted).Hint(u.name, t.Hint)
	}
	delete(p.unread, message)
}

// Cursor returns the position behind the last arrival.
func (p *Planner) Cursor() plan.Position { return p.cursor }

// Clock returns how many documents of all sources have arrived: the last arrival. Controls take effect by it.
func (p *Planner) Clock() uint64 { return p.cursor.Last() }

// Next returns the index of the next step.
func (p *Planner) Next() uint64 { return p.next }

// Counts returns the planner's totals, and the packer's.
func (p *Planner) Counts() (Counts, packonline.Counts) {
	return p.counts, p.packs.counts()
}

// Detail returns what the packing method itself counts, nil where it counts nothing.
func (p *Planner) Detail() map[string]int64 {
	return p.packs.detail()
}

// Waiting describes what the planner holds back: pieces and finished rows in the packer, atoms in the shuffle window,
// and rows before and behind it.
func (p *Planner) Waiting() (pool packonline.Pending, window, queued int) {
	for l := range p.packs.lines() {
		queued += l.waiting()
	}
	queued += p.queues.rowsWaiting()
	return p.packs.pending(), p.window.Len(), queued
}

// Capacity is how much can wait in a planner.
type Capacity struct {
	Pool int `json:"pool"` // pieces to be packed; 0 where a method without a pool packs: its rows have any number
	Held int `json:"held"` // pieces of finished rows that packers hold back
	Rows int `json:"rows"` // of atoms that are not complete, and of steps
}

// Capacity returns how much can wait in the packers of all sources and behind the shuffle window.
func (p *Planner) Capacity() Capacity {
	c := Capacity{Rows: p.queues.capacity()}
	pools := true
	for i := range p.packs {
		k := &p.packs[i]
		pools = pools && slices.Contains(packonline.Parameters(k.config.Method), "pool")
		c.Pool += k.config.Pool
		c.Held += k.config.Relevant().Held()
		c.Rows += len(k.lines) * k.atomRows
	}
	if !pools {
		c.Pool = 0
	}
	return c
}

// Queues describes the rows that wait for a step, bucket by bucket.
func (p *Planner) Queues() []QueueStat { return p.queues.stats(p.counts.Arrived) }

// Floor returns the position before the oldest document that a later step may still need.
func (p *Planner) Floor() plan.Position {
	floor := p.cursor
	if pool := p.packs.pending(); pool.Any() {
		floor = floor.Least(plan.Before(p.names.position(pool.Oldest)))
	}
	p.beyond(func(pieces []packonline.Piece) { floor = p.names.oldest(pieces, floor) })
	return p.names.oldest(p.fork.left, floor)
}
