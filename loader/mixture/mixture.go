// Package mixture decides which source a run takes the next document from, and which document of that source.
//
// It is pure. Its decisions depend only on its configuration, the lengths of the documents so far, and the changes
// made after them. It has no clock and no I/O, and every draw is keyed.
package mixture

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
)

// Mixture chooses by credit. Taking a document of n tokens adds n times its share to the credit of every source, and
// subtracts n from the source of the document. The source with the largest credit is next; of equal ones, the first
// by name.
//
//   - invariant: at every document, a source deviates from its share of the tokens by less than n times the longest
//     document of all n sources. This is true for all past shares. (The credit of a source is the number of tokens
//     missing from its share. The credits of the sources that can be taken add up to a constant, and only the largest
//     is ever lowered.)
//
// If shares are of tokens that have a loss (Mix.Share), tokens are these tokens, in credits and in the invariant.
//
// It is not safe for concurrent use.
type Mixture struct {
	config         Config
	sources        []*source // in the order in which they were added; the index is the source's number in the run
	accounts       []account // by source; a separate slice, because every document changes all of them
	initialSources int       // number of sources at the start
	tokens         int64     // taken so far
	nextPoint      int       // index of the next point of the schedule
	ramp           ramp

	newEpochs []int // sources with an epoch that has begun since the last call of Settle

	// Derived state.
	shares       []int64 // in parts of Unit, by source; replaced, never modified
	ended        bool
	nextSource   int    // source of the next document; -1 for none
	nextSequence uint64 // of the next document, 0 until it is requested
}

// account is the state by which a source is chosen.
type account struct {
	share  int64 // target share among the sources that can be taken now, in parts of Unit
	credit int64 // tokens, or tokens with a loss, times Unit missing from its share
}

// SourceRange is where a run starts to read a source.
type SourceRange struct {
	First uint64 // sequence of the first document
	Last  uint64 // sequence of the last document if the source was already sealed, else 0; First-1 if it has none
	// Sealed reports whether Last is set.
	Sealed bool
}

// source is the state of one source.
type source struct {
	name         string
	config       Source
	initialRange SourceRange
	sealed       bool
	last         uint64 // sequence of the last document, if sealed
	shuffled     bool   // the first epoch has a drawn order

	target  int64 // target share, in parts of Unit
	paused  bool
	removed bool
	// exhausted is true once the end of the source has taken effect: see Settle.
	exhausted bool

	epoch       uint64      // current epoch, from 0
	taken       uint64      // documents of the current epoch
	epochTokens int64       // tokens of the current epoch
	totalTokens int64       // tokens of all epochs
	lossTokens  int64       // of totalTokens, those with a loss; 0 if shares are of tokens
	epochOrder  *EpochOrder // of the current epoch
}

// ramp is a change of the targets that is in progress.
type ramp struct {
	from, to      []int64 // by source; empty without a ramp
	start, length int64   // in tokens taken
	reachedPart   int64   // the reached part, out of parts
}

// rampParts is the number of equal steps of a ramp.
const rampParts = 256

// New returns the mixture of a run that starts to read its sources at begins.
func New(c Config, begins map[string]SourceRange) (*Mixture, error) {
	m := &Mixture{config: c}
	names := slices.Sorted(maps.Keys(c.Sources))
	weights := make([]float64, len(names))
	for i, name := range names {
		begin, ok := begins[name]
		if !ok {
			return nil, fmt.Errorf("mix sources: the beginning of %s is missing", name)
		}
		s, err := newSource(name, c.Sources[name], begin)
		if err != nil {
			return nil, err
		}
		m.addSource(s)
		weights[i] = s.config.Weight
	}
	m.initialSources = len(names)
	m.setTargets(apportion(toRationals(weights)))
	m.followSchedule()
	m.applySourceEnds()
	return m, nil
}

// addSource adds a source without a share.
func (m *Mixture) addSource(s *source) {
	m.sources, m.accounts = append(m.sources, s), append(m.accounts, account{})
}

func newSource(name string, c Source, begin SourceRange) (*source, error) {
	s := &source{name: name, config: c, initialRange: begin, sealed: begin.Sealed, last: begin.Last}
	if begin.First == 0 || begin.Sealed && begin.Last < begin.First-1 {
		return nil, fmt.Errorf("mix sources: %s cannot begin at document %d and end behind %d", name, begin.First, begin.Last)
	}
	s.shuffled = begin.Sealed && c.Block > 0
	return s, nil
}

// setTargets sets the targets.
func (m *Mixture) setTargets(targets []int64) {
	for i, s := range m.sources {
		s.target = targets[i]
	}
}

// documentCount returns the number of documents per epoch. The source must be sealed.
func (s *source) documentCount() uint64 { return s.last + 1 - s.initialRange.First }

// allTaken returns the number of documents taken in all epochs.
func (s *source) allTaken() uint64 {
	if s.epoch == 0 {
		return s.taken // the source may have no end yet
	}
	return s.epoch*s.documentCount() + s.taken
}

// isExhausted reports whether the source has no further document.
func (s *source) isExhausted() bool { return s.isEpochDone() && !s.hasNextEpoch() }

// isEpochDone reports whether all documents of the current epoch are taken.
func (s *source) isEpochDone() bool { return s.sealed && s.taken == s.documentCount() }

// hasNextEpoch reports whether another epoch follows the current one. After an epoch without tokens none follows,
// because all later ones would be empty too.
func (s *source) hasNextEpoch() bool {
	return s.epochTokens > 0 && s.config.Epochs.HasEpochAfter(s.epoch+1)
}

func (s *source) isActive() bool { return !s.removed && !s.paused && !s.exhausted }

// RecordNext records that the next document was taken, how many of its tokens are used, and how many of these have a
// loss. ApplySourceEnds must be called before any other method. A used document without a loss counts as one token, so
// that its source does not stay the next one for ever. (No document stream delivers one: it is skipped.)
func (m *Mixture) RecordNext(tokens, lossTokens int) {
	s := m.sources[m.nextSource]
	m.nextSequence = 0
	s.taken++
	n := int64(tokens)
	if n > 0 {
		s.epochTokens += n
		s.totalTokens += n
		m.tokens += n
		counted := n
		if m.config.Mix.Share.CountsLoss() {
			s.lossTokens += int64(lossTokens)
			counted = max(int64(lossTokens), 1)
		}
		for i := range m.accounts {
			m.accounts[i].credit += m.accounts[i].share * counted
		}
		m.accounts[m.nextSource].credit -= Unit * counted
	}
	switch {
	case n == 0: // credits are unchanged
	case m.isScheduleDue():
		m.followSchedule()
	default:
		m.chooseSource()
	}
}

// SettleResult is the result of a call of Settle.
type SettleResult struct {
	Ended     bool  // no source has a further document
	NewEpochs []int // sources with an epoch that has begun since the previous call
}

// ApplySourceEnds applies the end of sources: the next epoch begins, or the other sources share the source's weight.
// The end of a source takes effect where its next document would be taken, not at its last document. At that point the
// run waits until the source is sealed or has a document. So the time of the seal has no effect on the order.
func (m *Mixture) ApplySourceEnds() SettleResult {
	m.applySourceEnds()
	out := SettleResult{Ended: m.ended, NewEpochs: m.newEpochs}
	m.newEpochs = nil
	return out
}

// applySourceEnds implements Settle. The next call of Settle returns the epochs that it begins.
func (m *Mixture) applySourceEnds() {
	for i, s := range m.sources {
		if s.paused { // it is already waiting for its next document
			m.endEpoch(i)
		}
	}
	if m.config.Mix.isDue(m.nextPoint, m.tokens, m.sources) {
		m.followSchedule()
	}
	for !m.isEndedByFirst() && m.nextSource >= 0 && m.endEpoch(m.nextSource) {
		m.followSchedule()
	}
	m.ended = m.isFinished()
}

// endEpoch begins the next epoch of a source if the current one is complete, and reports whether the source is
// exhausted.
func (m *Mixture) endEpoch(source int) bool {
	s := m.sources[source]
	switch {
	case !s.isEpochDone():
	case s.hasNextEpoch():
		s.epoch, s.taken, s.epochTokens, s.epochOrder = s.epoch+1, 0, 0, nil
		m.nextSequence = 0
		m.newEpochs = append(m.newEpochs, source)
	default:
		s.exhausted = true
	}
	return s.exhausted
}

// isScheduleDue reports whether the schedule changes a target now.
func (m *Mixture) isScheduleDue() bool {
	return m.config.Mix.isDue(m.nextPoint, m.tokens, m.sources) || m.ramp.partAt(m.tokens) != m.ramp.reachedPart
}

// isDue reports whether a point of the schedule starts, if it has one with this index: at the tokens taken so far, or
// because its source has ended or was removed.
func (x *Mix) isDue(point int, tokens int64, sources []*source) bool {
	if point == len(x.Schedule) {
		return false
	}
	p := x.Schedule[point]
	if p.After == "" {
		return tokens >= int64(p.Tokens)
	}
	return !slices.ContainsFunc(sources, func(s *source) bool {
		return s.name == p.After && !s.exhausted && !s.removed
	})
}

// partAt returns the part of a ramp that is reached after the given number of tokens.
func (r *ramp) partAt(tokens int64) int64 {
	if len(r.to) == 0 {
		return r.reachedPart
	}
	if tokens-r.start >= r.length {
		return rampParts
	}
	hi, lo := bits.Mul64(uint64(tokens-r.start), rampParts)
	q, _ := bits.Div64(hi, lo, uint64(r.length))
	return int64(q)
}

// followSchedule follows the schedule up to the tokens taken so far, recomputes the shares, and chooses the next
// source.
func (m *Mixture) followSchedule() {
	for {
		for m.config.Mix.isDue(m.nextPoint, m.tokens, m.sources) {
			m.setRampPart(rampParts) // of the previous ramp
			p := m.config.Mix.Schedule[m.nextPoint]
			if p.After != "" {
				p.Tokens = Tokens(m.tokens)
			}
			m.startPoint(p)
			m.nextPoint++
		}
		m.setRampPart(m.ramp.partAt(m.tokens))
		m.updateShares()
		if m.nextSource >= 0 || m.ended || !slices.ContainsFunc(m.sources, (*source).isActive) {
			return
		}
		// No token can be taken until a source with documents has a weight. So the next change that gives one takes effect
		// now.
		switch {
		case len(m.ramp.to) > 0:
			m.setRampPart(rampParts)
			m.updateShares()
			if m.nextSource >= 0 {
				return
			}
		case m.nextPoint < len(m.config.Mix.Schedule):
			m.startNextPoint()
		default:
			return
		}
	}
}

// startNextPoint starts the next point of the schedule early.
func (m *Mixture) startNextPoint() {
	m.setRampPart(rampParts)
	p := m.config.Mix.Schedule[m.nextPoint]
	// its first part is reached: it has a share for every source that gets one
	p.Tokens = Tokens(m.tokens - (int64(p.Ramp)+rampParts-1)/rampParts)
	m.startPoint(p)
	m.nextPoint++
}

// startPoint starts a change of the schedule.
func (m *Mixture) startPoint(p Point) {
	weights := make([]float64, len(m.sources))
	others := int64(0) // shares of sources that the schedule does not name
	for i, s := range m.sources {
		if w, ok := p.Weights[s.name]; ok && !s.removed {
			weights[i] = w
		} else {
			others += s.target
		}
	}
	to := apportion(toRationals(weights))
	if others > 0 {
		for i, s := range m.sources {
			if _, ok := p.Weights[s.name]; ok && !s.removed {
				to[i] = to[i] * (Unit - others) / Unit
			} else {
				to[i] = s.target
			}
		}
		to = normalizeShares(to)
	}
	if p.Ramp == 0 {
		m.setTargets(to)
		return
	}
	from := make([]int64, len(m.sources))
	for i, s := range m.sources {
		from[i] = s.target
	}
	m.ramp = ramp{from: from, to: to, start: int64(p.Tokens), length: int64(p.Ramp)}
}

// setRampPart sets the targets of a part of the ramp. The last part ends the ramp.
func (m *Mixture) setRampPart(part int64) {
	r := &m.ramp
	if len(r.to) == 0 {
		return
	}
	targets := make([]int64, len(m.sources))
	for i := range targets {
		targets[i] = r.from[i]*(rampParts-part) + r.to[i]*part
	}
	r.reachedPart = part
	m.setTargets(normalizeShares(targets))
	if part == rampParts {
		*r = ramp{}
	}
}

// updateShares computes the shares of the sources that can be taken now, and chooses the next source. It must be called
// after every change of the set of these sources.
func (m *Mixture) updateShares() {
	weights := make([]int64, len(m.sources))
	for i, s := range m.sources {
		if s.isActive() {
			weights[i] = s.target
		}
	}
	m.shares = normalizeShares(weights)
	for i, n := range m.shares {
		m.accounts[i].share = n
	}
	m.chooseSource()
}

// chooseSource determines the source of the next document.
func (m *Mixture) chooseSource() {
	m.nextSource, m.nextSequence = -1, 0
	most := int64(0)
	for i := range m.accounts {
		a := &m.accounts[i]
		if a.share > 0 && (m.nextSource < 0 || a.credit > most || a.credit == most &&
			m.sources[i].name < m.sources[m.nextSource].name) {
			m.nextSource, most = i, a.credit
		}
	}
}

// Next returns the source of the next document and its sequence there. ok is false without a next document: if the
// run has ended, all sources with a weight are paused, or no source has a weight.
func (m *Mixture) Next() (source int, sequence uint64, ok bool) {
	if m.nextSource < 0 || m.ended {
		return 0, 0, false
	}
	if m.nextSequence == 0 {
		s := m.sources[m.nextSource]
		m.nextSequence = s.currentOrder(m.config.Seed).At(s.taken)
	}
	return m.nextSource, m.nextSequence, true
}

// NextSequence returns the sequence of a source's next document, or 0 if it has none.
func (m *Mixture) NextSequence(source int) uint64 {
	s := m.sources[source]
	switch {
	case s.isExhausted():
		return 0
	case s.isEpochDone():
		return m.EpochOrder(source, s.epoch+1).At(0)
	}
	return s.currentOrder(m.config.Seed).At(s.taken)
}

// currentOrder returns the walk of the current epoch.
func (s *source) currentOrder(seed uint64) *EpochOrder {
	if s.epochOrder == nil {
		s.epochOrder = s.newEpochOrder(seed)
	}
	return s.epochOrder
}

func (s *source) newEpochOrder(seed uint64) *EpochOrder {
	if s.config.Block > 0 && (s.epoch > 0 || s.shuffled) {
		return newShuffledOrder(seed, s.name, s.epoch, s.initialRange.First, s.last, uint64(s.config.Block))
	}
	return newStreamOrder(s.initialRange.First, s.last)
}

// Ended reports whether no source has a further document.
func (m *Mixture) Ended() bool { return m.ended }

// isFinished computes Ended from the state of all sources. A source that is not sealed may still get a weight and
// documents.
func (m *Mixture) isFinished() bool {
	if m.isEndedByFirst() {
		return true
	}
	for i, s := range m.sources {
		if !s.removed && (!s.sealed || !s.isExhausted() && m.hasWeight(i)) {
			return false
		}
	}
	return true
}

// isEndedByFirst reports whether the run ends with its first exhausted source and a source is exhausted.
func (m *Mixture) isEndedByFirst() bool {
	return m.config.Mix.End == EndFirst && slices.ContainsFunc(m.sources, func(s *source) bool {
		return s.exhausted && !s.removed
	})
}

// hasWeight reports whether a source has a weight, or gets one by the schedule.
func (m *Mixture) hasWeight(source int) bool {
	s := m.sources[source]
	return s.target > 0 || len(m.ramp.to) > 0 && m.ramp.to[source] > 0 ||
		slices.ContainsFunc(m.config.Mix.Schedule[m.nextPoint:], func(p Point) bool { return p.Weights[s.name] > 0 })
}

// Seal records that a source has no document after last.
func (m *Mixture) Seal(source int, last uint64) error {
	s, err := m.sourceAt(source)
	switch {
	case err != nil:
		return err
	case s.sealed:
		return fmt.Errorf("source %s is sealed behind document %d already", s.name, s.last)
	case last+1 < s.initialRange.First+s.taken:
		return fmt.Errorf("source %s cannot end behind document %d: %d documents from %d on are taken", s.name, last, s.taken,
			s.initialRange.First)
	}
	s.sealed, s.last = true, last
	m.applySourceEnds()
	return nil
}

// Rest pauses or resumes a source. While it is paused, the other sources share its weight.
func (m *Mixture) Rest(source int, rests bool) error {
	s, err := m.sourceAt(source)
	if err != nil {
		return err
	}
	if s.paused == rests {
		return fmt.Errorf("source %s rests already, or is awake", s.name)
	}
	s.paused = rests
	m.followSchedule()
	m.applySourceEnds()
	return nil
}

func (m *Mixture) sourceAt(source int) (*source, error) {
	if source < 0 || source >= len(m.sources) || m.sources[source].removed {
		return nil, fmt.Errorf("the run has no source %d", source)
	}
	return m.sources[source], nil
}

// Status describes one source.
type Status struct {
	Name        string  `json:"name"`
	Target      float64 `json:"target"`                // target share
	Share       float64 `json:"share"`                 // target share, including a part of the shares of paused and used-up sources
	Credit      float64 `json:"credit"`                // tokens missing from its share, in the unit of the shares
	Tokens      int64   `json:"tokens"`                // taken
	LossTokens  int64   `json:"loss_tokens,omitempty"` // of Tokens, those with a loss, if shares are of these
	EpochTokens int64   `json:"-"`                     // of Tokens, those of the current epoch
	// Unit is what the shares are shares of.
	Unit      ShareUnit `json:"share_unit,omitzero"`
	Epoch     uint64    `json:"epoch"` // current epoch, from 0
	Epochs    Epochs    `json:"epochs"`
	Taken     uint64    `json:"taken"`          // documents of the current epoch
	TakenAll  uint64    `json:"-"`              // documents of all epochs
	Last      uint64    `json:"last,omitempty"` // sequence of the last document, if sealed
	Sealed    bool      `json:"sealed,omitempty"`
	Paused    bool      `json:"paused,omitempty"`
	Removed   bool      `json:"removed,omitempty"`
	Exhausted bool      `json:"exhausted,omitempty"`
}

// SharedTokens returns the tokens taken, in the unit of the shares.
func (s Status) SharedTokens() int64 { return s.Unit.Select(s.Tokens, s.LossTokens) }

// Status returns the state of the sources in the order of their numbers.
func (m *Mixture) Status() []Status {
	out := make([]Status, len(m.sources))
	for i, s := range m.sources {
		out[i] = Status{Name: s.name, Target: float64(s.target) / Unit, Share: m.Share(i),
			Credit: float64(m.accounts[i].credit) / Unit, Tokens: s.totalTokens, LossTokens: s.lossTokens,
			EpochTokens: s.epochTokens, Unit: m.config.Mix.Share,
			Epoch: s.epoch, Epochs: s.config.Epochs, Taken: s.taken, TakenAll: s.allTaken(), Last: s.last,
			Sealed: s.sealed, Paused: s.paused, Removed: s.removed, Exhausted: s.isExhausted()}
	}
	return out
}

// Len returns the number of sources, including removed ones.
func (m *Mixture) Len() int { return len(m.sources) }

// Name returns the name of a source.
func (m *Mixture) Name(source int) string { return m.sources[source].name }

// SourceNumber returns the number of a source that is not removed.
func (m *Mixture) SourceNumber(name string) (int, bool) {
	i := slices.IndexFunc(m.sources, func(s *source) bool { return s.name == name && !s.removed })
	return i, i >= 0
}

// SourceConfig returns the configuration of a source.
func (m *Mixture) SourceConfig(source int) Source { return m.sources[source].config }

// Share returns the current target share of a source, after the shares of sources that cannot be taken are divided
// among the others.
func (m *Mixture) Share(source int) float64 { return float64(m.accounts[source].share) / Unit }

// Shares returns Share of all sources in parts of Unit. Each change replaces the slice; a returned slice is never
// modified.
func (m *Mixture) Shares() []int64 { return m.shares }

// Tokens returns the number of tokens taken.
func (m *Mixture) Tokens() int64 { return m.tokens }

// SourcePosition is a position in a source.
type SourcePosition struct {
	Epoch uint64 // current epoch, from 0
	Taken uint64 // documents taken of the epoch
}

// Position returns the position in a source.
func (m *Mixture) Position(source int) SourcePosition {
	return SourcePosition{m.sources[source].epoch, m.sources[source].taken}
}

// EpochOrder returns the order of an epoch of a source.
func (m *Mixture) EpochOrder(source int, epoch uint64) *EpochOrder {
	s := *m.sources[source]
	s.epoch = epoch
	return s.newEpochOrder(m.config.Seed)
}

// LowWatermark returns the low watermark of a source at a position: the first sequence that may still be taken.
func (m *Mixture) LowWatermark(source int, p SourcePosition) uint64 {
	s := m.sources[source]
	another := !s.removed && s.config.Epochs.HasEpochAfter(p.Epoch+1)
	// any may be last in a drawn order
	whole := s.config.Block > 0 && (p.Epoch > 0 || s.shuffled) && p.Taken < s.documentCount()
	if another || whole {
		return s.initialRange.First
	}
	return s.initialRange.First + p.Taken
}

// Clone returns an independent copy of the mixture.
func (m *Mixture) Clone() *Mixture {
	x := *m
	x.accounts, x.newEpochs = slices.Clone(m.accounts), slices.Clone(m.newEpochs)
	x.ramp.from, x.ramp.to = slices.Clone(m.ramp.from), slices.Clone(m.ramp.to)
	x.sources = make([]*source, len(m.sources))
	for i, s := range m.sources {
		own := *s
		own.epochOrder = nil // a walk is not shared
		x.sources[i] = &own
	}
	return &x
}
