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

func sourceRanges(sources []plan.SourceBegin) map[string]mixture.SourceRange {
	out := map[string]mixture.SourceRange{}
	for _, s := range sources {
		out[s.Name] = mixture.SourceRange{First: s.Start, Last: s.Last, Sealed: s.Sealed}
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
	mix            *mixture.Mixture
	infos          []plan.SourceInfo // by source
	initialSources int               // number of sources at the start of the run
	refs           *arrivalRefs
	states         []sourceState // by source
	rowBalancer    shareBalancer // for atoms that leave the window
	stepBalancer   shareBalancer // for steps, with several buckets
	losses         *losses       // of the buffered documents, if shares are of tokens with a loss; else nil
	names          naming
	dedupe         int // number of documents per source whose ids are remembered

	history      shareHistory
	tally        tally // scratch space
	windowTokens int64 // tokens in the window
	flushes      bool  // the window gathers the atoms that are added, and is emptied next
}

// sourceState is a planner's state of one source.
type sourceState struct {
	packerIndex int // index of the pack that receives its documents
	selection   plan.Selection
	dedup       *dedupWindow // of the current epoch
	counts      SourceCounts
}

// missingHint is a document whose packing hints are missing after a restore: in its packer or, if comes is set, in
// fork.left, before it is passed to a packer.
type missingHint struct {
	packerIndex int
	name        uint64
	inherited   bool
}

func newSourceSet(c runconfig.Config, mix *mixture.Mixture, infos []plan.SourceInfo, r *arrivalRefs) *sourceSet {
	b := &sourceSet{mix: mix, infos: infos, initialSources: len(infos), refs: r, names: newNaming(c.Documents),
		dedupe: c.Documents.Dedupe}
	b.rowBalancer.decayTokens = max(balanceSteps*c.MaxStepTokens(), 1)
	b.stepBalancer.decayTokens = b.rowBalancer.decayTokens
	b.history.minSpanTokens = c.MaxStepTokens()
	return b
}

// hasMultipleSources reports whether the run has had more than one source. Only then are the shares of its steps kept
// even.
func (b *sourceSet) hasMultipleSources() bool { return b.mix.Len() > 1 }

// addNewSources adds state for the sources of the mixture that the planner has no state for yet.
func (p *Planner) addNewSources() error {
	b := p.sources
	if err := b.checkRowLengths(p.config, &p.schedule); err != nil {
		return err
	}
	for i := len(b.states); i < b.mix.Len(); i++ {
		x := sourceState{dedup: newDedupWindow(b.dedupe)}
		var err error
		if x.selection, err = p.Filters.selection(b.mix.Name(i), b.mix.SourceConfig(i), nil); err != nil {
			return err
		}
		if own := b.ownPacking(i, p.rowLengths.lengths); own != nil {
			x.packerIndex = len(p.packers)
			if err := p.addPacker(*own); err != nil {
				return fmt.Errorf("source %s: %w", b.mix.Name(i), err)
			}
		}
		b.states = append(b.states, x)
	}
	b.tally.tokens = make([]int64, b.mix.Len())
	b.history.extendTo(b.mix.Len())
	b.rowBalancer.extendTo(b.mix.Len())
	b.stepBalancer.extendTo(b.mix.Len())
	p.window.SetCost(b.windowCost())
	return nil
}

// isRemoved reports whether a source is removed from the run.
func (b *sourceSet) isRemoved(source int) bool {
	_, present := b.mix.SourceNumber(b.mix.Name(source))
	return !present
}

// checkRowLengths rejects a schedule without the row lengths of a source with its own packing. A removed source needs
// none once its documents are in steps: see checkRemoved.
func (b *sourceSet) checkRowLengths(c runconfig.Config, s *runconfig.Schedule) error {
	for i := range b.mix.Len() {
		if b.isRemoved(i) {
			continue
		}
		if err := s.CheckSource(c, b.mix.Name(i), b.mix.SourceConfig(i)); err != nil {
			return err
		}
	}
	return nil
}

// checkRemoved rejects a schedule without the row lengths of a removed source whose documents are buffered.
func (b *sourceSet) checkRemoved(c runconfig.Config, s *runconfig.Schedule, buffered func() []uint64) error {
	for i := range b.mix.Len() {
		err := s.CheckSource(c, b.mix.Name(i), b.mix.SourceConfig(i))
		ofSource := func(name uint64) bool { return plan.RefSource(b.refOf(name)) == i }
		if err != nil && slices.ContainsFunc(buffered(), ofSource) {
			return fmt.Errorf("%w; the source is removed, and its buffered documents still have this packing: repeat the "+
				"change when they are in steps (loaderd flush packs them now)", err)
		}
	}
	return nil
}

// ownPacking returns the own packing of a source, or nil if it has none. A removed source whose packing has other row
// lengths than these has none: its documents are in steps.
func (b *sourceSet) ownPacking(source int, lengths []int) *packonline.Config {
	own := b.mix.SourceConfig(source).Packing
	if own != nil && b.isRemoved(source) &&
		slices.ContainsFunc(own.Buckets, func(n int) bool { return !slices.Contains(lengths, n) }) {
		return nil
	}
	return own
}

// windowCost returns the cost by which the shuffle window keeps the shares of several sources, or nil for one source.
func (b *sourceSet) windowCost() func(*atom) float64 {
	if !b.hasMultipleSources() {
		return nil
	}
	return func(a *atom) float64 { return b.rowBalancer.distance(b.atomPortions(a)) }
}

// registerArrival registers the next message under the given arrival. It returns the state of the message's source, and
// rejects a message that is not the next one.
func (b *sourceSet) registerArrival(a *plan.Arrival, arrival uint64) (*sourceState, error) {
	source, sequence, ok := b.mix.Next()
	switch {
	case !ok:
		return nil, fmt.Errorf("plan document %d of source %d: none is wanted", a.Sequence, a.Source)
	case a.Source != source || a.Sequence != sequence || sequence > plan.MaxSequence:
		return nil, fmt.Errorf("plan document %d of source %d: the next one is %d of source %d (%s)",
			a.Sequence, a.Source, sequence, source, b.mix.Name(source))
	}
	if err := b.names.checkArrival(a, arrival); err != nil {
		return nil, err
	}
	b.refs.add(plan.Ref(source, sequence))
	b.history.add(b.mix.Tokens(), b.mix.Shares())
	return &b.states[source], nil
}

// recordUsed records how many tokens of the arrived message are used, and how many of them have a loss.
func (b *sourceSet) recordUsed(tokens, lossTokens int64) {
	b.mix.RecordNext(int(tokens), int(lossTokens))
}

// applySourceEnds applies the end of sources. If a source has started another epoch, it forgets the ids of the epoch
// before. It reports whether no source has a document left.
func (b *sourceSet) applySourceEnds() (ended bool) {
	x := b.mix.ApplySourceEnds()
	for _, source := range x.NewEpochs {
		b.states[source].dedup = newDedupWindow(b.dedupe)
	}
	return x.Ended
}

// countDocument counts a document and returns why it is not used, or the empty string if it is used.
func (x *sourceState) countDocument(d plan.Part) plan.Skip {
	x.counts.Arrived++
	if d.Skip == "" && x.dedup.observe(d.Identity()) {
		d.Skip = plan.SkipDuplicate
	} else if d.Skip != "" {
		x.dedup.observe(0)
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
	of, err := p.sources.registerArrival(&a, arrival)
	if err != nil {
		return nil, err
	}
	p.cursor = plan.PositionAfter(arrival)
	p.steps = p.steps[:0]
	p.lastTokens, p.lastLossTokens = 0, 0
	first := 0
	for i := range a.DocumentCount() {
		x := a.Document(i)
		x.Skip = a.SkipReason(i, x, &of.selection)
		p.addDocument(of, p.names.name(arrival, first), x)
		first += x.Length
		if i+1 < a.DocumentCount() {
			p.submitOverdue()
		}
	}
	p.sources.recordUsed(p.lastTokens, p.lastLossTokens)
	p.submitOverdue()
	return p.finishInput(), nil
}

// addDocument processes one document of a source.
func (p *Planner) addDocument(of *sourceState, name uint64, x plan.Part) {
	p.counts.Arrived++
	if skip := of.countDocument(x); skip != "" {
		p.counts.Skipped.Add(skip, 1)
		return
	}
	p.lastTokens += int64(x.Length)
	p.lastLossTokens += x.LossTokens()
	p.packDocument(&p.packers[of.packerIndex], name, int32(x.Length), x)
}

// finishInput completes an arrival or a control, and ends the run when no source has a document left. The end of a
// source takes effect after the steps of its last document, as it does if the end is recorded later.
func (p *Planner) finishInput() []plan.Step {
	b := p.sources
	steps := p.finishSteps(p.cursor)
	ended := b.applySourceEnds()
	p.forgetShares()
	if ended {
		steps = slices.Clone(steps)
		p.steps = p.steps[:0]
		return append(steps, p.finishSteps(p.seal())...)
	}
	if b.refs.isSweepDue() {
		b.refs.sweep(p.bufferedArrivals())
	}
	if p.losses.isSweepDue() {
		p.losses.sweep(p.bufferedNames())
	}
	return steps
}

// bufferedArrivals returns the positions of the messages of buffered documents, once per buffered piece.
func (p *Planner) bufferedArrivals() []uint64 {
	out := p.bufferedNames()
	for i := range out {
		out[i] = p.names.position(out[i])
	}
	return out
}

// refOf returns the document of a name as a plan names it.
func (b *sourceSet) refOf(name uint64) uint64 { return b.refs.refOf(b.names.position(name)) }

// bufferedNames returns the names of buffered documents, once per buffered piece.
func (p *Planner) bufferedNames() []uint64 {
	var out []uint64
	note := func(name uint64) { out = append(out, name&^repeatedFlag) }
	p.visitUnpacked(func(x packonline.Piece) { note(x.Doc) })
	p.visitPacked(func(pieces []packonline.Piece) {
		for _, x := range pieces {
			note(x.Doc)
		}
	})
	return out
}

// nameDocuments renames the documents in finished steps as a plan names them, and records the positions of the sources.
func (p *Planner) nameDocuments() {
	b := p.sources
	var places []mixture.SourcePosition
	for i := range p.steps {
		s := &p.steps[i]
		for _, row := range s.Rows {
			for k := range row {
				p.names.renamePiece(&row[k])
				ref := b.refs.refOf(row[k].Doc)
				row[k].Doc = ref
				b.states[plan.RefSource(ref)].counts.Emitted += int64(row[k].Length)
			}
		}
		if s.Index%plan.SourcePositionInterval == 0 {
			if places == nil {
				places = b.positions()
			}
			s.SourcePositions = places
		}
	}
}

// positions returns the position in each source.
func (b *sourceSet) positions() []mixture.SourcePosition {
	out := make([]mixture.SourcePosition, b.mix.Len())
	for i := range out {
		out[i] = b.mix.Position(i)
	}
	return out
}

// applyMixtureChange applies a control that changes the mixture.
func (p *Planner) applyMixtureChange(f func(*mixture.Mixture) error,
	added ...plan.SourceInfo) ([]plan.Step, bool, error) {
	p.steps = p.steps[:0]
	if err := f(p.sources.mix); err != nil {
		return nil, false, err
	}
	p.sources.infos = append(slices.Clip(p.sources.infos), added...)
	if err := p.addNewSources(); err != nil {
		return nil, false, err
	}
	return p.finishInput(), p.Ended(), nil
}

// Infos returns the run's sources in the order of their numbers, including removed ones.
func (p *Planner) Infos() []plan.SourceInfo { return p.sources.infos }

// Ended reports whether no source of the run has a document left.
func (p *Planner) Ended() bool { return p.sources.mix.Ended() }

// Mixture returns the state of the run's sources. The caller must not modify it.
func (p *Planner) Mixture() *mixture.Mixture { return p.sources.mix }

// NextDocument returns the source and the sequence of the next document. ok is false if no document is accepted before
// the next control.
func (p *Planner) NextDocument() (source int, sequence uint64, ok bool) { return p.sources.mix.Next() }

// SourceCounts returns the totals of each source.
func (p *Planner) SourceCounts() []SourceCounts {
	out := make([]SourceCounts, len(p.sources.states))
	for i := range out {
		out[i] = p.sources.states[i].counts
	}
	return out
}

// MissingHints returns the messages of buffered documents whose packing hints a restored planner needs again, without
// duplicates.
func (p *Planner) MissingHints() []uint64 {
	p.missingHints = map[uint64][]missingHint{}
	for i := range p.packers {
		if packer, ok := p.packers[i].packer.(packonline.HintedPacker); ok {
			for _, name := range packer.MissingHints() {
				ref := p.sources.refOf(name)
				p.missingHints[ref] = append(p.missingHints[ref], missingHint{i, name, false})
			}
		}
	}
	for _, x := range p.fork.inheritedDocuments { // these have not been passed to a packer yet
		ref := p.sources.refOf(x.Doc)
		i := p.sources.states[plan.RefSource(ref)].packerIndex
		if _, ok := p.packers[i].packer.(packonline.HintedPacker); ok {
			p.missingHints[ref] = append(p.missingHints[ref], missingHint{i, x.Doc, true})
		}
	}
	return slices.Sorted(maps.Keys(p.missingHints))
}

// appendState writes the streams of added sources (JSON preceded by its length), the mixture, and the documents of
// the buffered arrivals. It then writes the shares by which they were taken, and the missing tokens of each source
// after the window and in steps. For each source it then writes its totals and recent ids.
func (b *sourceSet) appendState(out []byte, waiting []uint64) []byte {
	added, err := json.Marshal(b.infos[b.initialSources:])
	if err != nil {
		panic(fmt.Sprintf("plan: marshal sources: %v", err)) // only numbers, strings and lists of them
	}
	out = codec.AppendString(out, string(added))
	out = b.mix.AppendState(out)
	out = b.refs.appendState(out, waiting)
	out = b.history.appendState(out)
	out = b.rowBalancer.appendState(out)
	out = b.stepBalancer.appendState(out)
	for i := range b.states {
		for _, n := range b.states[i].counts.fields() {
			out = binary.AppendUvarint(out, uint64(*n))
		}
		out = b.states[i].dedup.appendState(out)
	}
	return out
}

// maxAddedSourcesBytes bounds the encoded size in bytes of the sources that were added to a run.
const maxAddedSourcesBytes = 1 << 20

// restoreSources reads what appendState wrote.
func (p *Planner) restoreSources(r *codec.Cursor) error {
	b := p.sources
	var added []plan.SourceInfo
	if err := json.Unmarshal(r.Bytes(int(r.BoundedUvarint(maxAddedSourcesBytes))), &added); err != nil {
		return fmt.Errorf("sources that were added: %w", err)
	}
	rest, err := b.mix.RestoreState(r.Buf)
	if err != nil {
		return err
	}
	r.Buf = rest
	b.infos = append(slices.Clip(b.infos[:b.initialSources]), added...)
	if !slices.EqualFunc(b.infos, b.mix.Status(), func(s plan.SourceInfo, x mixture.Status) bool {
		return s.Name == x.Name
	}) {
		return errors.New("the sources that were added are others than those of the mixture")
	}
	p.packers, b.states, b.history.spans = p.packers[:1], nil, nil // meet registers added sources again
	b.rowBalancer, b.stepBalancer = shareBalancer{decayTokens: b.rowBalancer.decayTokens},
		shareBalancer{decayTokens: b.stepBalancer.decayTokens}
	if err := p.addNewSources(); err != nil {
		return err
	}
	b.refs = readRefs(r, p.cursor.Next(), b.mix.Len())
	b.history.restoreState(r, b.mix.Tokens(), b.mix.Len())
	b.rowBalancer.setTargets(b.history.spans[0].shares)
	b.stepBalancer.setTargets(b.history.spans[0].shares)
	b.rowBalancer.restoreState(r)
	b.stepBalancer.restoreState(r)
	arrived := int64(0)
	for i := range b.states {
		for _, n := range b.states[i].counts.fields() {
			*n = int64(r.BoundedUvarint(math.MaxInt64))
		}
		arrived += b.states[i].counts.Arrived
		if err := b.states[i].dedup.restoreState(r); err != nil {
			return err
		}
	}
	if r.Err == nil && (arrived != p.counts.Arrived || uint64(arrived) < p.cursor.Last() || p.names.bits == 0 &&
		uint64(arrived) > p.cursor.Last()) {
		r.Fail(fmt.Errorf("%d documents of all sources arrived behind arrival %s", arrived, p.cursor))
	}
	if r.Err != nil {
		return r.Err
	}
	return b.checkMixture(p.cursor)
}

// checkMixture rejects a mixture at another position than the arrivals up to the cursor.
func (b *sourceSet) checkMixture(cursor plan.Position) error {
	total, status := uint64(0), b.mix.Status()
	for _, s := range status {
		total += s.TakenAll
	}
	if total != cursor.Last() {
		return fmt.Errorf("the mixture is at document %d, the cursor at document %s", total, cursor)
	}
	for i, s := range status {
		arrived := uint64(b.states[i].counts.Arrived)
		if s.TakenAll > arrived || b.names.bits == 0 && s.TakenAll < arrived { // a message may have several documents
			return fmt.Errorf("the mixture has taken %d documents of source %s, but %d arrived", s.TakenAll, s.Name, arrived)
		}
	}
	return nil
}
