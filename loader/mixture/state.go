package mixture

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"loaderd/loader/internal/codec"
)

// stateVersion is the version of AppendState's format:
//
//	version byte, tokens taken, points of the schedule that have started
//	the ramp: its start (varint), length and part; length 0 without one
//	the number of sources, and for each: name and configuration (JSON), each preceded by its length; first document and
//	last document + 1; flags; target, credit (varint), epoch, its documents and tokens, and the tokens of all epochs;
//	in version 2, which a mixture has whose shares are of tokens with a loss, the number of these tokens
//	during a ramp, the targets before and after it
//
// Numbers are uvarints unless stated otherwise.
const (
	stateVersion     = 1
	lossStateVersion = 2
)

// stateVersion returns the version of the state of a mixture with shares of that unit.
func (u ShareUnit) stateVersion() byte {
	if u.CountsLoss() {
		return lossStateVersion
	}
	return stateVersion
}

// Flags of a source.
const (
	flagInitiallySealed = 1 << iota
	flagSealed
	flagPaused
	flagRemoved
	flagExhausted
	flagsEnd
)

// AppendState appends the complete state.
func (m *Mixture) AppendState(b []byte) []byte {
	b = append(b, m.config.Mix.Share.stateVersion())
	b = binary.AppendUvarint(b, uint64(m.tokens))
	b = binary.AppendUvarint(b, uint64(m.nextPoint))
	b = binary.AppendVarint(b, m.ramp.start)
	b = binary.AppendUvarint(b, uint64(m.ramp.length))
	b = binary.AppendUvarint(b, uint64(m.ramp.reachedPart))
	b = binary.AppendUvarint(b, uint64(len(m.sources)))
	for i, s := range m.sources {
		b = s.appendState(b, m.accounts[i].credit)
		if m.config.Mix.Share.CountsLoss() {
			b = binary.AppendUvarint(b, uint64(s.lossTokens))
		}
		if m.ramp.length > 0 {
			b = binary.AppendUvarint(b, uint64(m.ramp.from[i]))
			b = binary.AppendUvarint(b, uint64(m.ramp.to[i]))
		}
	}
	return b
}

func (s *source) appendState(b []byte, credit int64) []byte {
	config, err := json.Marshal(s.config)
	if err != nil {
		panic(fmt.Sprintf("mixture: marshal source: %v", err)) // only numbers and lists of them
	}
	b = append(binary.AppendUvarint(b, uint64(len(s.name))), s.name...)
	b = append(binary.AppendUvarint(b, uint64(len(config))), config...)
	set := uint64(0)
	for i, is := range []bool{s.initialRange.Sealed, s.sealed, s.paused, s.removed, s.exhausted} {
		if is {
			set |= 1 << i
		}
	}
	last := uint64(0)
	if s.sealed {
		last = s.last + 1
	}
	for _, v := range []uint64{s.initialRange.First, last, set, uint64(s.target)} {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.AppendVarint(b, credit)
	for _, v := range []uint64{s.epoch, s.taken, uint64(s.epochTokens), uint64(s.totalTokens)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// RestoreState replaces the state of a mixture of the same configuration and returns the bytes after it. Bytes that
// AppendState cannot have written are an error and change nothing.
func (m *Mixture) RestoreState(b []byte) (rest []byte, err error) {
	r := codec.Cursor{Buf: b}
	if v := r.Bytes(1); r.Err == nil && v[0] != m.config.Mix.Share.stateVersion() {
		return nil, fmt.Errorf("restore mixture: state format is version %d, want %d for shares of %s", v[0],
			m.config.Mix.Share.stateVersion(), m.config.Mix.Share)
	}
	x := &Mixture{config: m.config, initialSources: m.initialSources}
	x.tokens = int64(r.BoundedUvarint(math.MaxInt64 / 2))
	x.nextPoint = int(r.BoundedUvarint(uint64(len(m.config.Mix.Schedule))))
	x.ramp.start = r.Varint()
	x.ramp.length = int64(r.BoundedUvarint(math.MaxInt64 / 2))
	x.ramp.reachedPart = int64(r.BoundedUvarint(rampParts - 1))
	if r.Err == nil && (x.ramp.start > x.tokens || x.ramp.start < -(1<<61) || x.ramp.length == 0 &&
		(x.ramp.start != 0 || x.ramp.reachedPart != 0)) {
		r.Fail(fmt.Errorf("a ramp from %d tokens on cannot be under way behind %d", x.ramp.start, x.tokens))
	}
	total := int64(0)
	for range r.BoundedUvarint(MaxSources) {
		s, credit := readSource(&r, m.config.Mix.Share)
		if r.Err != nil {
			break
		}
		if i := len(x.sources); i < m.initialSources &&
			(m.sources[i].name != s.name || !equalConfigs(m.sources[i].config, s.config) ||
				m.sources[i].initialRange.First != s.initialRange.First) {
			r.Fail(fmt.Errorf("source %d is %s, where the run has %s", i, s.name, m.sources[i].name))
			break
		}
		x.addSource(s)
		x.accounts[len(x.accounts)-1].credit = credit
		total += s.totalTokens
		if x.ramp.length > 0 {
			x.ramp.from = append(x.ramp.from, int64(r.BoundedUvarint(Unit)))
			x.ramp.to = append(x.ramp.to, int64(r.BoundedUvarint(Unit)))
		}
	}
	if r.Err == nil && (len(x.sources) < m.initialSources || total != x.tokens) {
		r.Fail(fmt.Errorf("%d sources with %d tokens cannot be those of a run of %d tokens", len(x.sources), total, x.tokens))
	}
	err = r.Err
	if err == nil {
		err = x.checkState()
	}
	if err != nil {
		return nil, fmt.Errorf("restore mixture: %w", err)
	}
	x.updateShares()
	if !x.isEndedByFirst() && x.nextSource >= 0 && x.sources[x.nextSource].isEpochDone() {
		return nil, fmt.Errorf("restore mixture: the end of source %s has not taken effect", x.sources[x.nextSource].name)
	}
	x.ApplySourceEnds() // the caller restores its own state of the epochs
	*m = *x
	return r.Buf, nil
}

// checkState rejects a state in which a change of the schedule is due, or the position of a source is impossible.
func (m *Mixture) checkState() error {
	names := map[string]bool{}
	for _, s := range m.sources {
		switch {
		case names[s.name]:
			return fmt.Errorf("source %s is duplicated", s.name)
		case s.sealed && (s.last+1 < s.initialRange.First || s.taken > s.documentCount()):
			return fmt.Errorf("%d documents of source %s are taken, from %d on, and it ends behind %d", s.taken, s.name,
				s.initialRange.First, s.last)
		case s.epoch > 0 && !s.sealed:
			return fmt.Errorf("source %s cannot be in epoch %d", s.name, s.epoch)
		case s.exhausted && !s.isExhausted():
			return fmt.Errorf("source %s has documents left and cannot be exhausted", s.name)
		case s.taken > math.MaxUint64-s.initialRange.First:
			return fmt.Errorf("%d documents of source %s", s.taken, s.name)
		}
		names[s.name] = true
	}
	if m.isScheduleDue() {
		return errors.New("a change of the schedule is due and has not been made")
	}
	return nil
}

func equalConfigs(a, b Source) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// readSource reads what source.appendState wrote, and the tokens with a loss that follow it in a mixture with shares of
// these.
func readSource(r *codec.Cursor, unit ShareUnit) (s *source, credit int64) {
	s = &source{name: string(r.Bytes(int(r.BoundedUvarint(64))))}
	if config := r.Bytes(int(r.BoundedUvarint(1 << 16))); r.Err == nil {
		if err := json.Unmarshal(config, &s.config); err != nil {
			r.Fail(err)
		} else if bad := s.config.Validate(); len(bad) > 0 {
			r.Fail(bad[0])
		}
	}
	if !IsValidName(s.name) {
		r.Fail(fmt.Errorf("%q is no name of a source", s.name))
	}
	s.initialRange.First = r.BoundedUvarint(math.MaxUint64 / 2)
	last := r.BoundedUvarint(math.MaxUint64 / 2)
	set := r.BoundedUvarint(flagsEnd - 1)
	s.sealed, s.paused, s.removed = set&flagSealed != 0, set&flagPaused != 0, set&flagRemoved != 0
	s.exhausted, s.initialRange.Sealed = set&flagExhausted != 0, set&flagInitiallySealed != 0
	if r.Err == nil && (s.initialRange.First == 0 || s.sealed != (last > 0) || s.initialRange.Sealed && !s.sealed) {
		r.Fail(fmt.Errorf("source %s cannot begin at document %d and end before %d", s.name, s.initialRange.First, last))
	}
	if s.sealed {
		s.last = last - 1
	}
	if s.initialRange.Sealed {
		s.initialRange.Last = s.last
	}
	s.shuffled = s.initialRange.Sealed && s.config.Block > 0
	s.target = int64(r.BoundedUvarint(Unit))
	credit = r.Varint()
	s.epoch = r.BoundedUvarint(math.MaxUint64)
	s.taken = r.BoundedUvarint(math.MaxUint64)
	s.epochTokens = int64(r.BoundedUvarint(math.MaxInt64))
	s.totalTokens = int64(r.BoundedUvarint(math.MaxInt64))
	if unit.CountsLoss() {
		s.lossTokens = int64(r.BoundedUvarint(uint64(s.totalTokens)))
	}
	return s, credit
}
