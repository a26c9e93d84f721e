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
//	during a ramp, the targets before and after it
//
// Numbers are uvarints unless stated otherwise.
const stateVersion = 1

// Flags of a source.
const (
	flagBegunSealed = 1 << iota
	flagSealed
	flagResting
	flagRemoved
	flagExhausted
	flags
)

// AppendState appends the complete state.
func (m *Mixture) AppendState(b []byte) []byte {
	b = append(b, stateVersion)
	b = binary.AppendUvarint(b, uint64(m.tokens))
	b = binary.AppendUvarint(b, uint64(m.point))
	b = binary.AppendVarint(b, m.ramp.start)
	b = binary.AppendUvarint(b, uint64(m.ramp.length))
	b = binary.AppendUvarint(b, uint64(m.ramp.part))
	b = binary.AppendUvarint(b, uint64(len(m.sources)))
	for i, s := range m.sources {
		b = s.appendState(b, m.accounts[i].credit)
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
	for i, is := range []bool{s.begin.Sealed, s.sealed, s.resting, s.removed, s.exhausted} {
		if is {
			set |= 1 << i
		}
	}
	last := uint64(0)
	if s.sealed {
		last = s.last + 1
	}
	for _, v := range []uint64{s.begin.First, last, set, uint64(s.target)} {
		b = binary.AppendUvarint(b, v)
	}
	b = binary.AppendVarint(b, credit)
	for _, v := range []uint64{s.epoch, s.taken, uint64(s.fresh), uint64(s.total)} {
		b = binary.AppendUvarint(b, v)
	}
	return b
}

// RestoreState replaces the state of a mixture of the same configuration and returns the bytes after it. Bytes that
// AppendState cannot have written are an error and change nothing.
func (m *Mixture) RestoreState(b []byte) (rest []byte, err error) {
	r := codec.Cursor{Rest: b}
	if v := r.Bytes(1); r.Err == nil && v[0] != stateVersion {
		return nil, fmt.Errorf("restore mixture: state format is version %d, this binary reads %d", v[0], stateVersion)
	}
	x := &Mixture{config: m.config, first: m.first}
	x.tokens = int64(r.Bounded(math.MaxInt64 / 2))
	x.point = int(r.Bounded(uint64(len(m.config.Mix.Schedule))))
	x.ramp.start = r.Varint()
	x.ramp.length = int64(r.Bounded(math.MaxInt64 / 2))
	x.ramp.part = int64(r.Bounded(parts - 1))
	if r.Err == nil && (x.ramp.start > x.tokens || x.ramp.start < -(1<<61) || x.ramp.length == 0 &&
		(x.ramp.start != 0 || x.ramp.part != 0)) {
		r.Fail(fmt.Errorf("a ramp from %d tokens on cannot be under way behind %d", x.ramp.start, x.tokens))
	}
	total := int64(0)
	for range r.Bounded(MaxSources) {
		s, credit := readSource(&r)
		if r.Err != nil {
			break
		}
		if i := len(x.sources); i < m.first && (m.sources[i].name != s.name || !equal(m.sources[i].config, s.config) ||
			m.sources[i].begin.First != s.begin.First) {
			r.Fail(fmt.Errorf("source %d is %s, where the run has %s", i, s.name, m.sources[i].name))
			break
		}
		x.add(s)
		x.accounts[len(x.accounts)-1].credit = credit
		total += s.total
		if x.ramp.length > 0 {
			x.ramp.from = append(x.ramp.from, int64(r.Bounded(Unit)))
			x.ramp.to = append(x.ramp.to, int64(r.Bounded(Unit)))
		}
	}
	if r.Err == nil && (len(x.sources) < m.first || total != x.tokens) {
		r.Fail(fmt.Errorf("%d sources with %d tokens cannot be those of a run of %d tokens", len(x.sources), total, x.tokens))
	}
	err = r.Err
	if err == nil {
		err = x.check()
	}
	if err != nil {
		return nil, fmt.Errorf("restore mixture: %w", err)
	}
	x.divide()
	if !x.endsFirst() && x.next >= 0 && x.sources[x.next].behindEpoch() {
		return nil, fmt.Errorf("restore mixture: the end of source %s has not taken effect", x.sources[x.next].name)
	}
	x.Settle() // the caller restores its own state of the epochs
	*m = *x
	return r.Rest, nil
}

// check rejects a state in which a change of the schedule is due, or the position of a source is impossible.
func (m *Mixture) check() error {
	names := map[string]bool{}
	for _, s := range m.sources {
		switch {
		case names[s.name]:
			return fmt.Errorf("source %s comes twice", s.name)
		case s.sealed && (s.last+1 < s.begin.First || s.taken > s.documents()):
			return fmt.Errorf("%d documents of source %s are taken, from %d on, and it ends behind %d", s.taken, s.name,
				s.begin.First, s.last)
		case s.epoch > 0 && !s.sealed:
			return fmt.Errorf("source %s cannot be in epoch %d", s.name, s.epoch)
		case s.exhausted && !s.usedUp():
			return fmt.Errorf("source %s has documents left and cannot be exhausted", s.name)
		case s.taken > math.MaxUint64-s.begin.First:
			return fmt.Errorf("%d documents of source %s", s.taken, s.name)
		}
		names[s.name] = true
	}
	if m.due() {
		return errors.New("a change of the schedule is due and has not been made")
	}
	return nil
}

func equal(a, b Source) bool {
	x, _ := json.Marshal(a)
	y, _ := json.Marshal(b)
	return bytes.Equal(x, y)
}

// readSource reads what source.appendState wrote.
func readSource(r *codec.Cursor) (s *source, credit int64) {
	s = &source{name: string(r.Bytes(int(r.Bounded(64))))}
	if config := r.Bytes(int(r.Bounded(1 << 16))); r.Err == nil {
		if err := json.Unmarshal(config, &s.config); err != nil {
			r.Fail(err)
		} else if bad := s.config.Validate(); len(bad) > 0 {
			r.Fail(bad[0])
		}
	}
	if !ValidName(s.name) {
		r.Fail(fmt.Errorf("%q is no name of a source", s.name))
	}
	s.begin.First = r.Bounded(math.MaxUint64 / 2)
	last := r.Bounded(math.MaxUint64 / 2)
	set := r.Bounded(flags - 1)
	s.sealed, s.resting, s.removed = set&flagSealed != 0, set&flagResting != 0, set&flagRemoved != 0
	s.exhausted, s.begin.Sealed = set&flagExhausted != 0, set&flagBegunSealed != 0
	if r.Err == nil && (s.begin.First == 0 || s.sealed != (last > 0) || s.begin.Sealed && !s.sealed) {
		r.Fail(fmt.Errorf("source %s cannot begin at document %d and end before %d", s.name, s.begin.First, last))
	}
	if s.sealed {
		s.last = last - 1
	}
	if s.begin.Sealed {
		s.begin.Last = s.last
	}
	s.drawn = s.begin.Sealed && s.config.Block > 0
	s.target = int64(r.Bounded(Unit))
	credit = r.Varint()
	s.epoch = r.Bounded(math.MaxUint64)
	s.taken = r.Bounded(math.MaxUint64)
	s.fresh = int64(r.Bounded(math.MaxInt64))
	s.total = int64(r.Bounded(math.MaxInt64))
	return s, credit
}
