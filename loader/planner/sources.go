package planner

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"loaderd/loader/internal/codec"
	"loaderd/loader/mixture"
	"loaderd/loader/plan"
	"loaderd/loader/runconfig"
	"loaderd/packonline"
)

func begins(sources []plan.SourceBegin) map[string]mixture.Begin {
	out := map[string]mixture.Begin{}
	for _, s := range sources {
		out[s.Name] = mixture.Begin{First: s.Start, Last: s.Last, Sealed: s.Sealed}
	}
	return out
}

// SourceCounts are a planner's totals of one source.
type SourceCounts struct {
	Arrived int64      `json:"arrived"` // documents taken, used or not
	Skipped plan.Skips `json:"skipped"`
	Cut     int64      `json:"cut"`     // used without their last tokens, because of documents.max_tokens
	Tokens  int64      `json:"-"`       // of used documents; mixture.Status has the same number
	Emitted int64      `json:"emitted"` // tokens in steps; repeated tokens count each time
}

func (c *SourceCounts) fields() []*int64 {
	return slices.Concat([]*int64{&c.Arrived}, skipFields(&c.Skipped), []*int64{&c.Cut, &c.Tokens, &c.Emitted})
}

// sourceSet is a planner's state of its sources. The planner counts in arrivals: buffered pieces name the arrival of
// their document until a step takes them, and then the document. It never calls the planner. The results of its
// methods state what the planner has to do.
type sourceSet struct {
	mix    *mixture.Mixture
	infos  []plan.SourceInfo // by source
	begun  int               // number of sources at the start of the run
	refs   *refs
	parts  []sourceState // by source
	rows   shareBalancer // for atoms that leave the window
	steps  shareBalancer // for steps, with several buckets
	names  naming
	dedupe int // number of documents per source whose ids are remembered

	history  shareHistory
	tally    tally // scratch space
	shuffled int64 // tokens in the window
	drains   bool  // the window gathers the atoms that are added, and is emptied next
}

// sourceState is a planner's state of one source.
type sourceState struct {
	pack   int          // index of the pack that receives its documents
	seen   *dedupWindow // of the current epoch
	counts SourceCounts
}

// unread is a document whose packing hints are missing after a restore: in its packer or, if comes is set, in
// fork.left, before it is passed to a packer.
type unread struct {
	pack  int
	name  uint64
	comes bool
}

func newSourceSet(c runconfig.Config, mix *mixture.Mixture, infos []plan.SourceInfo, r *refs) *sourceSet {
	b := &sourceSet{mix: mix, infos: infos, begun: len(infos), refs: r, names: newNaming(c.Documents),
		dedupe: c.Documents.Dedupe}
	b.rows.forget = max(evenSteps*c.StepTokens(), 1)
	b.steps.forget = b.rows.forget
	b.history.least = c.StepTokens()
	return b
}

// several reports whether the run has had more than one source. Only then are the shares of its steps kept even.
func (b *sourceSet) several() bool { return b.mix.Len() > 1 }

// meet adds state for the sources of the mixture that the planner has no state for yet.
func (p *Planner) meet() error {
	b := p.sources
	for i := len(b.parts); i < b.mix.Len(); i++ {
		x := sourceState{seen: newDedupWindow(b.dedupe)}
		if own := b.mix.Config(i).Packing; own != nil {
			x.pack = len(p.packs)
			if err := p.addPack(*own); err != nil {
				return fmt.Errorf("source %s: %w", b.mix.Name(i), err)
			}
		}
		b.parts = append(b.parts, x)
	}
	b.tally.tokens = make([]int64, b.mix.Len())
	b.history.grow(b.mix.Len())
	b.rows.grow(b.mix.Len())
	b.steps.grow(b.mix.Len())
	var cost func(*atom) float64
	if b.several() {
		cost = func(a *atom) float64 { return b.rows.distance(b.portionsOf(a)) }
	}
	p.window.Prefer(cost)
	return nil
}

// arrive registers the next message under the given arrival. It returns the state and the configuration of the
// message's source, and rejects a message that is not the next one.
func (b *sourceSet) arrive(a *plan.Arrival, arrival uint64) (of *sourceState, c mixture.Source, err error) {
	source, sequence, ok := b.mix.Next()
	switch {
	case !ok:
		return nil, c, fmt.Errorf("plan document %d of source %d: none is wanted", a.Sequence, a.Source)
	case a.Source != source || a.Sequence != sequence || sequence > plan.MaxSequence:
		return nil, c, fmt.Errorf("plan document %d of source %d: the next one is %d of source %d (%s)",
			a.Sequence, a.Source, sequence, source, b.mix.Name(source))
	}
	if err := b.names.check(a, arrival); err != nil {
		return nil, c, err
	}
	b.refs.add(plan.Ref(source, sequence))
	b.history.add(b.mix.Tokens(), b.mix.Shares())
	return &b.parts[source], b.mix.Config(source), nil
}

// take records how many tokens of the arrived message are used.
func (b *sourceSet) take(tokens int64) { b.mix.Take(int(tokens)) }

// settle applies the end of sources. If a source has started another epoch, it forgets the ids of the epoch before.
// It reports whether no source has a document left.
func (b *sourceSet) settle() (ended bool) {
	x := b.mix.Settle()
	for _, source := range x.Begun {
		b.parts[source].seen = newDedupWindow(b.dedupe)
	}
	return x.Ended
}

// count counts a document and returns why it is not used, or the empty string if it is used.
func (x *sourceState) count(d plan.Part) plan.Skip {
	x.counts.Arrived++
	if d.Skip == "" && x.seen.observe(d.Identity()) {
		d.Skip = plan.SkipDuplicate
	} else if d.Skip != "" {
		x.seen.observe(0)
	}
	if d.Skip != "" {
		x.counts.Skipped.Add(d.Skip, 1)
		return d.Skip
	}
	x.counts.Tokens += int64(d.Length)
	if d.Cut {
		x.counts.Cut++
	}
	return ""
}

// Add processes the next document and returns the steps that it completes. The slice is valid until the next call,
// but the rows of the steps stay valid.
func (p *Planner) Add(a plan.Arrival) ([]plan.Step, error) {
	arrival := p.cursor.Next()
	of, config, err := p.sources.arrive(&a, arrival)
	if err != nil {
		return nil, err
	}
	p.cursor = plan.Behind(arrival)
	p.steps = p.steps[:0]
	p.taken = 0
	first := 0
	for i := range a.Count() {
		x := a.Document(i)
		x.Skip = a.SkipReason(i, x, config)
		p.takeOne(of, p.names.name(arrival, first), x)
		first += x.Length
		if i+1 < a.Count() {
			p.overdue()
		}
	}
	p.sources.take(p.taken)
	p.overdue()
	return p.settle(), nil
}

// takeOne processes one document of a source.
func (p *Planner) takeOne(of *sourceState, name uint64, x plan.Part) {
	p.counts.Arrived++
	if skip := of.count(x); skip != "" {
		p.counts.Skipped.Add(skip, 1)
		return
	}
	p.taken += int64(x.Length)
	p.pack(&p.packs[of.pack], name, int32(x.Length), x)
}

// settle completes an arrival or a control, and ends the run when no source has a document left. The end of a source
// takes effect after the steps of its last document, as it does if the end is recorded later.
func (p *Planner) settle() []plan.Step {
	b := p.sources
	steps := p.finish(p.cursor)
	ended := b.settle()
	p.forgetShares()
	if ended {
		steps = slices.Clone(steps)
		p.steps = p.steps[:0]
		return append(steps, p.finish(p.seal())...)
	}
	if b.refs.due() {
		b.refs.sweep(p.arrivals())
	}
	if p.losses.due() {
		p.losses.sweep(p.waiting())
	}
	return steps
}

// arrivals returns the positions of the messages of buffered documents, once per buffered piece.
func (p *Planner) arrivals() []uint64 {
	out := p.waiting()
	for i := range out {
		out[i] = p.names.position(out[i])
	}
	return out
}

// ref returns the document of a name as a plan names it.
func (b *sourceSet) ref(name uint64) uint64 { return b.refs.of(b.names.position(name)) }

// waiting returns the names of buffered documents, once per buffered piece.
func (p *Planner) waiting() []uint64 {
	var out []uint64
	note := func(name uint64) { out = append(out, name&^repeated) }
	p.unplaced(func(x packonline.Piece) { note(x.Doc) })
	p.beyond(func(pieces []packonline.Piece) {
		for _, x := range pieces {
			note(x.Doc)
		}
	})
	return out
}

// name renames the documents in finished steps as a plan names them, and records the positions of the sources.
func (p *Planner) name() {
	b := p.sources
	var places []mixture.Place
	for i := range p.steps {
		s := &p.steps[i]
		for _, row := range s.Rows {
			for k := range row {
				p.names.emit(&row[k])
				ref := b.refs.of(row[k].Doc)
				row[k].Doc = ref
				b.parts[plan.RefSource(ref)].counts.Emitted += int64(row[k].Length)
			}
		}
		if s.Index%plan.MarkSteps == 0 {
			if places == nil {
				places = b.places()
			}
			s.Places = places
		}
	}
}

// places returns the position in each source.
func (b *sourceSet) places() []mixture.Place {
	out := make([]mixture.Place, b.mix.Len())
	for i := range out {
		out[i] = b.mix.Place(i)
	}
	return out
}

// change applies a control that changes the mixture.
func (p *Planner) change(f func(*mixture.Mixture) error, added ...plan.SourceInfo) ([]plan.Step, bool, error) {
	p.steps = p.steps[:0]
	if err := f(p.sources.mix); err != nil {
		return nil, false, err
	}
	p.sources.infos = append(slices.Clip(p.sources.infos), added...)
	if err := p.meet(); err != nil {
		return nil, false, err
	}
	return p.settle(), p.Ended(), nil
}

// Infos returns the run's sources in the order of their numbers, including removed ones.
func (p *Planner) Infos() []plan.SourceInfo { return p.sources.infos }

// Ended reports whether no source of the run has a document left.
func (p *Planner) Ended() bool { return p.sources.mix.Ended() }

// Mixture returns the state of the run's sources. The caller must not modify it.
func (p *Planner) Mixture() *mixture.Mixture { return p.sources.mix }

// Wants returns the source and the sequence of the next document. ok is false if no document is accepted before the
// next control.
func (p *Planner) Wants() (source int, sequence uint64, ok bool) { return p.sources.mix.Next() }

// SourceCounts returns the totals of each source.
func (p *Planner) SourceCounts() []SourceCounts {
	out := make([]SourceCounts, len(p.sources.parts))
	for i := range out {
		out[i] = p.sources.parts[i].counts
	}
	return out
}

// MissingHints returns the messages of buffered documents whose packing hints a restored planner needs again, without
// duplicates.
func (p *Planner) MissingHints() []uint64 {
	p.unread = map[uint64][]unread{}
	for i := range p.packs {
		if packer, ok := p.packs[i].packer.(packonline.Hinted); ok {
			for _, name := range packer.Unhinted() {
				ref := p.sources.ref(name)
				p.unread[ref] = append(p.unread[ref], unread{i, name, false})
			}
		}
	}
	for _, x := range p.fork.left { // these have not been passed to a packer yet
		ref := p.sources.ref(x.Doc)
		i := p.sources.parts[plan.RefSource(ref)].pack
		if _, ok := p.packs[i].packer.(packonline.Hinted); ok {
			p.unread[ref] = append(p.unread[ref], unread{i, x.Doc, true})
		}
	}
	return slices.Sorted(maps.Keys(p.unread))
}

// appendState writes the streams of added sources (JSON preceded by its length), the mixture, and the documents of
// the buffered arrivals. It then writes the shares by which they were taken, and the missing tokens of each source
// after the window and in steps. For each source it then writes its totals and recent ids.
func (b *sourceSet) appendState(out []byte, waiting []uint64) []byte {
	added, err := json.Marshal(b.infos[b.begun:])
	if err != nil {
		panic(fmt.Sprintf("plan: marshal sources: %v", err)) // only numbers, strings and lists of them
	}
	out = codec.AppendString(out, string(added))
	out = b.mix.AppendState(out)
	out = b.refs.appendState(out, waiting)
	out = b.history.appendState(out)
	out = b.rows.appendState(out)
	out = b.steps.appendState(out)
	for i := range b.parts {
		for _, n := range b.parts[i].counts.fields() {
			out = binary.AppendUvarint(out, uint64(*n))
		}
		out = b.parts[i].seen.appendState(out)
	}
	return out
}

// maxAddedSources bounds the encoded size in bytes of the sources that were added to a run.
const maxAddedSources = 1 << 20

// restoreSources reads what appendState wrote.
func (p *Planner) restoreSources(r *codec.Cursor) error {
	b := p.sources
	var added []plan.SourceInfo
	if err := json.Unmarshal(r.Bytes(int(r.Bounded(maxAddedSources))), &added); err != nil {
		return fmt.Errorf("sources that were added: %w", err)
	}
	rest, err := b.mix.RestoreState(r.Rest)
	if err != nil {
		return err
	}
	r.Rest = rest
	b.infos = append(slices.Clip(b.infos[:b.begun]), added...)
	if !slices.EqualFunc(b.infos, b.mix.Status(), func(s plan.SourceInfo, x mixture.Status) bool {
		return s.Name == x.Name
	}) {
		return errors.New("the sources that were added are others than those of the mixture")
	}
	p.packs, b.parts, b.history.spans = p.packs[:1], nil, nil // meet registers added sources again
	b.rows, b.steps = shareBalancer{forget: b.rows.forget}, shareBalancer{forget: b.steps.forget}
	if err := p.meet(); err != nil {
		return err
	}
	b.refs = readRefs(r, p.cursor.Next(), b.mix.Len())
	b.history.restoreState(r, b.mix.Tokens(), b.mix.Len())
	b.rows.follow(b.history.spans[0].shares)
	b.steps.follow(b.history.spans[0].shares)
	b.rows.restoreState(r)
	b.steps.restoreState(r)
	arrived := int64(0)
	for i := range b.parts {
		for _, n := range b.parts[i].counts.fields() {
			*n = int64(r.Bounded(math.MaxInt64))
		}
		arrived += b.parts[i].counts.Arrived
		if err := b.parts[i].seen.restoreState(r); err != nil {
			return err
		}
	}
	if r.Err == nil && (arrived != p.counts.Arrived || uint64(arrived) < p.cursor.Last() || p.names.bits == 0 &&
		uint64(arrived) > p.cursor.Last()) {
		r.Fail(fmt.Errorf("%d documents of all sources arrived behind arrival %s", arrived, p.cursor))
	}
	return r.Err
}
